"""A file is there whole or not at all, whoever else writes it, is killed while writing, or has planted something."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fit_process import DEADLINE, wait_until
from lbarn._tables.writing import write_atomically, writing_atomically

HOURS_AGO = time.time() - 10_000


def python(code: str, *args: object, **popen: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, args)], **popen)


# ---------------------------------------------------------------- whole or not at all


def test_nothing_is_seen_before_all_of_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"old")
    with writing_atomically(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["rows"]


def test_an_error_on_the_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with writing_atomically(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["rows"]


def test_threads_that_write_one_path_never_fail_and_never_tear_it(tmp_path: Path) -> None:
    path = tmp_path / "model"
    contents = [bytes([k]) * 100_000 for k in range(4)]

    def write_and_read(content: bytes) -> set[bytes]:
        seen = set()
        for _ in range(25):
            write_atomically(path, content)
            seen.add(path.read_bytes())
        return seen

    with ThreadPoolExecutor(4) as pool:
        for seen in pool.map(write_and_read, contents):
            assert seen <= set(contents)
    assert os.listdir(tmp_path) == ["model"]


def test_processes_that_believe_to_have_the_same_number_do_not_meet(tmp_path: Path) -> None:
    """As in two containers, which both have a process 1."""
    code = """
import os, sys
os.getpid = lambda: 1
from lbarn._tables.writing import write_atomically
for _ in range(50):
    write_atomically(sys.argv[1], sys.argv[2].encode() * 50_000)
"""
    path = tmp_path / "model"
    writers = [python(code, path, letter) for letter in "abc"]
    assert [writer.wait(DEADLINE) for writer in writers] == [0, 0, 0]
    assert len(path.read_bytes()) == 50_000
    assert len(set(path.read_bytes())) == 1
    assert os.listdir(tmp_path) == ["model"]


# ---------------------------------------------------------------- what is replaced


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"old")
    path.chmod(mode)
    with writing_atomically(path) as file:
        (temporary,) = (name for name in os.listdir(tmp_path) if name != "secret")
        assert stat.S_IMODE((tmp_path / temporary).stat().st_mode) & ~mode == 0  # nobody else may look meanwhile
        file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_new_file_has_the_mode_of_any_other(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "new", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o666 & ~umask


def test_a_link_stays_a_link_wherever_it_leads(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/next")
    (tmp_path / "there" / "next").symlink_to("file")
    for content in (b"first", b"second"):  # to a file that does not exist yet, then to one that does
        write_atomically(tmp_path / "link", content)
        assert (tmp_path / "there" / "file").read_bytes() == content
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "next").is_symlink()
    assert sorted(os.listdir(tmp_path / "there")) == ["file", "next"]


def test_a_link_to_itself_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(OSError, match=r"a link that leads back to itself.*link"):
        write_atomically(tmp_path / "link", b"")


def test_a_planted_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even by an attacker who guesses the name."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    monkeypatch.setattr("lbarn._tables.writing.secrets.token_hex", lambda n: "0" * 2 * n)
    (tmp_path / f".lbarn-{'0' * 16}.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "model", b"new")
    assert victim.read_bytes() == b"precious"


def test_a_folder_and_a_folder_that_is_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        write_atomically(tmp_path, b"")
    with pytest.raises(FileNotFoundError, match="missing is not a folder"):
        write_atomically(tmp_path / "missing" / "model", b"")


def test_a_name_of_any_length_that_the_system_takes_is_taken(tmp_path: Path) -> None:
    write_atomically(tmp_path / ("x" * 255), b"long")
    assert (tmp_path / ("x" * 255)).read_bytes() == b"long"


# ---------------------------------------------------------------- streams


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_atomically(tmp_path / "pipe", b"content")
    reader.join()
    assert read == [b"content"]
    assert (tmp_path / "pipe").is_fifo()


SAY = """
import sys
from lbarn._tables.writing import write_atomically
print("before", flush=True)
write_atomically(sys.argv[1], b"written\\n")
print("after")
"""


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("opened", ["ab", "r+b", "wb"])
def test_standard_output_that_goes_to_a_file_is_a_stream(tmp_path: Path, name: str, opened: str) -> None:
    if not Path(name).exists():
        pytest.skip(f"no {name} here")
    log = tmp_path / "log"
    log.write_bytes(b"kept\n")
    with open(log, opened) as out:
        assert python(SAY, name, stdout=out).wait(DEADLINE) == 0
    said = b"before\nwritten\nafter\n"
    assert log.read_bytes() == (b"kept\n" + said if opened == "ab" else said)


def test_standard_output_that_is_a_pipe_is_a_stream() -> None:
    process = python(SAY, "/dev/stdout", stdout=subprocess.PIPE)
    assert process.communicate(timeout=DEADLINE)[0] == b"before\nwritten\nafter\n"


# ---------------------------------------------------------------- no room


def test_a_full_device_is_named() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_atomically("/dev/full", b"content")


def test_a_file_that_grows_beyond_what_is_allowed_is_named(tmp_path: Path) -> None:
    code = """
import resource, sys
from lbarn._tables.writing import write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
write_atomically(sys.argv[1], b"x" * 10_000)
"""
    process = python(code, tmp_path / "model", stderr=subprocess.PIPE)
    assert f"File too large: '{tmp_path / 'model'}'" in process.communicate(timeout=DEADLINE)[1].decode()
    assert process.returncode == 1
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- left-over files


WRITE_AND_WAIT = """
import sys, time
from lbarn._tables.writing import writing_atomically
with writing_atomically(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    time.sleep(1000)
"""


def temporaries(folder: Path) -> list[Path]:
    return sorted(folder.glob(".lbarn-*.tmp"))


def test_what_killed_writers_left_is_swept_and_nothing_of_living_ones(tmp_path: Path) -> None:
    dead, living = (python(WRITE_AND_WAIT, tmp_path / "model") for _ in range(2))
    try:
        wait_until(lambda: len(temporaries(tmp_path)) == 2, "two writers")
        dead.kill()
        assert dead.wait(DEADLINE) == -signal.SIGKILL
        for temporary in temporaries(tmp_path):
            os.utime(temporary, (HOURS_AGO, HOURS_AGO))
        write_atomically(tmp_path / "model", b"")
        assert len(temporaries(tmp_path)) == 1
    finally:
        living.kill()
        living.wait()


def test_what_is_not_ours_or_not_old_is_not_swept(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    token = "0123456789abcde"
    (tmp_path / f".lbarn-{token}0.tmp").write_bytes(b"young")
    (tmp_path / f".lbarn-{token}1.tmp").symlink_to(tmp_path / "victim")
    (tmp_path / f".lbarn-{token}2.tmp").mkdir()
    (tmp_path / f".lbarn-{token}.tmp").write_bytes(b"another name")
    (tmp_path / f"lbarn-{token}3.tmp").write_bytes(b"another name")
    for path in tmp_path.iterdir():
        if not path.name.endswith("0.tmp"):
            os.utime(path, (HOURS_AGO, HOURS_AGO), follow_symlinks=False)
    before = sorted(os.listdir(tmp_path))
    write_atomically(tmp_path / "victim", b"replaced")
    assert sorted(os.listdir(tmp_path)) == before
