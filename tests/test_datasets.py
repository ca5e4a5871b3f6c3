"""Sets are read from a folder, or fetched once from a real server, checked and cached; nothing half-written remains."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pooch
import pytest

from lbarn import DatasetError, datasets
from lbarn.datasets import Split
from networks import rows

SPLIT = Split(rows(50, 9), rows(20, 9, seed=1), rows(30, 9, seed=2))


def text(part: np.ndarray, separator: str = ",") -> bytes:
    return "".join(separator.join(map(str, row)) + "\n" for row in part.tolist()).encode()


def write_texts(folder: Path, name: str, split: Split = SPLIT, separator: str = ",") -> None:
    for part, values in split._asdict().items():
        (folder / f"{name}.{part}.data").write_bytes(text(values, separator))


def write_packed(folder: Path, name: str, split: Split = SPLIT) -> None:
    packed = {part: np.packbits(values, axis=1) for part, values in split._asdict().items()}
    np.savez(folder / f"{name}.npz", dim=split.train.shape[1], **packed)


def assert_same(left: Split, right: Split) -> None:
    for a, b in zip(left, right):
        assert a.dtype == np.uint8
        np.testing.assert_array_equal(a, b)


class Server(ThreadingHTTPServer):
    """Serves ``pages``; those in ``broken`` end half way, with the connection closed."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages: dict[str, bytes] = {}
        self.broken: set[str] = set()
        self.asked: list[str] = []

    def publish(self, name: str, split: Split = SPLIT) -> dict[str, str]:
        """The checksums."""
        pages = {f"{name}/{name}.{part}.data": text(values) for part, values in split._asdict().items()}
        self.pages |= pages
        return {path: hashlib.sha256(page).hexdigest() for path, page in pages.items()}


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.path.lstrip("/")
        self.server.asked.append(path)
        page = self.server.pages.get(path)
        if page is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page[: len(page) // 2] if path in self.server.broken else page)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where fetched files go; no folder of the user's."""
    monkeypatch.delenv("LBARN_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    return tmp_path / "cache" / "lbarn"


@pytest.fixture
def server(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "*")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setattr(datasets, "BASE_URL", f"http://127.0.0.1:{server.server_port}/")
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Sets the checksums that the library knows."""

    def know(checksums: dict[str, str]) -> None:
        file = tmp_path / "checksums.txt"
        file.write_text("".join(f"{path} {sha}\n" for path, sha in checksums.items()))
        monkeypatch.setattr(datasets, "_CHECKSUMS", file)

    return know


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


class TestNames:
    def test_are_those_of_the_paper_and_the_twenty_of_debd_each_once(self) -> None:
        assert len(datasets.PAPER) == 9
        assert len(datasets.DEBD) == 20
        assert set(datasets.names()) == {*datasets.PAPER, *datasets.DEBD}
        assert len(datasets.names()) == 28  # dna is in both

    def test_checksums_are_of_whole_sets_that_are_known(self) -> None:
        lines = [line.split() for line in datasets._CHECKSUMS.read_text().splitlines()]
        assert all(len(sha) == 64 and int(sha, 16) for _, sha in lines)
        fetched = {path.partition("/")[0] for path, _ in lines}
        assert {path for path, _ in lines} == {f"{n}/{n}.{part}.data" for n in fetched for part in Split._fields}
        assert fetched == set(datasets.names()) - {"connect4", "mnist", "rcv1", "web"}

    def test_an_unknown_one_is_an_error_that_lists_them(self, cache: Path) -> None:
        with pytest.raises(DatasetError, match=r"no set 'adlut' is known.*known are adult, connect4"):
            datasets.load("adlut")


class TestFolder:
    @pytest.mark.parametrize("separator", [",", " "])
    def test_holds_texts(self, tmp_path: Path, separator: str) -> None:
        write_texts(tmp_path, "nltcs", separator=separator)
        assert_same(datasets.load("nltcs", folder=tmp_path), SPLIT)

    def test_holds_folders_of_texts(self, tmp_path: Path) -> None:
        (tmp_path / "nltcs").mkdir()
        write_texts(tmp_path / "nltcs", "nltcs")
        assert_same(datasets.load("nltcs", folder=tmp_path), SPLIT)

    def test_holds_packed_bits(self, tmp_path: Path) -> None:
        write_packed(tmp_path, "mnist")
        assert_same(datasets.load("mnist", folder=tmp_path), SPLIT)

    def test_may_hold_sets_of_the_users_own(self, tmp_path: Path) -> None:
        write_texts(tmp_path, "my_own")
        assert_same(datasets.load("my_own", folder=tmp_path), SPLIT)

    def test_is_named_by_the_environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_packed(tmp_path, "dna")
        monkeypatch.setenv("LBARN_DATA", str(tmp_path))
        assert_same(datasets.load("dna"), SPLIT)

    def test_without_the_set_leaves_it_to_be_fetched(self, server: Server, known: Any, tmp_path: Path) -> None:
        known(server.publish("nltcs"))
        write_texts(tmp_path, "plants")
        assert_same(datasets.load("nltcs", folder=tmp_path), SPLIT)

    def test_that_is_none_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LBARN_DATA", str(tmp_path / "absent"))
        with pytest.raises(DatasetError, match="absent is no folder: LBARN_DATA names"):
            datasets.load("nltcs")

    def test_with_a_part_missing_is_an_error(self, tmp_path: Path) -> None:
        write_texts(tmp_path, "nltcs")
        (tmp_path / "nltcs.valid.data").unlink()
        with pytest.raises(DatasetError, match=r"nltcs\.valid\.data cannot be read"):
            datasets.load("nltcs", folder=tmp_path)

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            ("0,1\n0\n", "cannot be read"),
            ("0,1\nyes,no\n", "cannot be read"),
            ("0,1,2\n", "0 and 1 only"),
            ("0,1\n", "do not fit"),
        ],
    )
    def test_with_a_text_of_another_kind_is_an_error(self, tmp_path: Path, content: str, says: str) -> None:
        write_texts(tmp_path, "nltcs", Split(*[SPLIT.train[:, :3]] * 3))
        (tmp_path / "nltcs.valid.data").write_text(content)
        with pytest.raises(DatasetError, match=says):
            datasets.load("nltcs", folder=tmp_path)

    def test_with_another_archive_is_an_error(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "nltcs.npz", train=SPLIT.train)
        with pytest.raises(DatasetError, match="holds no packed set"):
            datasets.load("nltcs", folder=tmp_path)
        (tmp_path / "nltcs.npz").write_bytes(b"PK\x03\x04 damaged")
        with pytest.raises(DatasetError, match="holds no packed set"):
            datasets.load("nltcs", folder=tmp_path)


class TestFetching:
    def test_happens_once(self, server: Server, known: Any, cache: Path) -> None:
        known(server.publish("nltcs"))
        assert_same(datasets.load("nltcs"), SPLIT)
        assert_same(datasets.load("nltcs"), SPLIT)
        assert server.asked == [f"nltcs/nltcs.{part}.data" for part in Split._fields]
        assert files_in(cache) == sorted(f"nltcs.{part}.data" for part in Split._fields)

    def test_refuses_another_checksum_and_keeps_nothing(self, server: Server, known: Any, cache: Path) -> None:
        known(dict.fromkeys(server.publish("nltcs"), "0" * 64))
        with pytest.raises(DatasetError, match=r"nltcs cannot be fetched .* put nltcs\.npz.* LBARN_DATA"):
            datasets.load("nltcs")
        assert files_in(cache) == []

    def test_refuses_half_a_file_and_is_well_when_the_rest_comes(self, server: Server, known: Any, cache: Path) -> None:
        known(server.publish("nltcs"))
        server.broken = {"nltcs/nltcs.valid.data"}
        with pytest.raises(DatasetError, match="nltcs cannot be fetched"):
            datasets.load("nltcs")
        assert files_in(cache) == ["nltcs.train.data"]
        server.broken = set()
        assert_same(datasets.load("nltcs"), SPLIT)
        assert len(server.asked) == 4  # what was whole is not asked for again

    def test_mends_a_damaged_cache(self, server: Server, known: Any, cache: Path) -> None:
        known(server.publish("nltcs"))
        datasets.load("nltcs")
        (cache / "nltcs" / "nltcs.test.data").write_text("0,1\n")
        assert_same(datasets.load("nltcs"), SPLIT)

    def test_of_what_is_not_there_says_what_to_do(self, server: Server, known: Any, cache: Path) -> None:
        known(server.publish("nltcs"))
        server.pages.clear()
        with pytest.raises(DatasetError, match=r"404.* set LBARN_DATA"):
            datasets.load("nltcs")
        assert files_in(cache) == []

    def test_without_a_network_says_what_to_do(
        self, server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(datasets, "BASE_URL", "http://127.0.0.1:1/")
        with pytest.raises(DatasetError, match=r"put nltcs\.npz, or nltcs\.train\.data.* set LBARN_DATA"):
            datasets.load("nltcs")
        assert files_in(cache) == []

    @pytest.mark.parametrize("name", ["connect4", "mnist", "rcv1", "web"])
    def test_is_not_tried_without_a_checksum(self, server: Server, name: str) -> None:
        with pytest.raises(DatasetError, match=rf"has a checksum.* put {name}\.npz"):
            datasets.load(name)
        assert server.asked == []

    def test_of_dna_warns_that_its_cut_is_not_the_papers(self, server: Server, known: Any) -> None:
        known(server.publish("dna"))
        with pytest.warns(UserWarning, match="cut 1600/400/1186"):
            assert_same(datasets.load("dna"), SPLIT)

    def test_of_the_real_nips_passes_the_real_checksum(self, server: Server, shared_data: Callable[[str], Any]) -> None:
        nips = Split(*(part.unpack() for part in shared_data("nips")))
        server.publish("nips", nips)
        assert_same(datasets.load("nips"), nips)


def test_importing_the_library_imports_neither_what_fetches_nor_torch() -> None:
    code = "import sys, lbarn; assert not {'pooch', 'requests', 'torch'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
