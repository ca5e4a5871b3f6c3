"""The public binary sets that density estimators are compared on, from a folder of the user's or fetched and cached."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from lbarn.errors import DatasetError

if TYPE_CHECKING:
    import pooch

__all__ = ["BASE_URL", "DEBD", "PAPER", "Bits", "Split", "load", "names"]

Bits = NDArray[np.uint8]

BASE_URL = "https://raw.githubusercontent.com/arranger1044/DEBD/850908666388f1b1c766a304b37dae14613f1e51/datasets/"

PAPER = ("adult", "connect4", "dna", "mnist", "mushrooms", "nips", "ocr_letters", "rcv1", "web")
DEBD = (
    *("nltcs", "msnbc", "kdd", "plants", "baudio", "jester", "bnetflix", "accidents", "tretail", "pumsb_star"),
    *("dna", "kosarek", "msweb", "book", "tmovie", "cwebkb", "cr52", "c20ng", "bbc", "ad"),
)
_CHECKSUMS = Path(__file__).with_name("datasets-sha256.txt")  # of those that have all three parts at BASE_URL


class Split(NamedTuple):
    """Rows of 0 and 1, one byte each."""

    train: Bits
    valid: Bits
    test: Bits


def names() -> tuple[str, ...]:
    """The sets that are known: those of Goessling's Table 1, then the other ones of the twenty of DEBD.

    Examples
    --------
    >>> names()[:4]
    ('adult', 'connect4', 'dna', 'mnist')
    """
    return tuple(dict.fromkeys(PAPER + DEBD))


def load(name: str, *, folder: str | os.PathLike[str] | None = None) -> Split:
    """A set by its name.

    It is read from ``folder`` if that holds it, else fetched from DEBD, checked by its SHA-256, and cached.

    Parameters
    ----------
    name : str
        One of ``names()``, or any set that is in the folder.
    folder : path, default=None
        Where the user keeps sets; None means the environment variable LBARN_DATA, if it is set. A set is one file
        ``NAME.npz``, or ``NAME.train.data``, ``NAME.valid.data`` and ``NAME.test.data``, which may be in a folder NAME.

    Raises
    ------
    DatasetError
        If the set is neither there nor to be fetched, or its files do not hold what they should.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in Split._fields:
    ...         _ = Path(folder, f"tiny.{part}.data").write_text("0,1,1\\n1,0,0\\n")
    ...     load("tiny", folder=folder).train
    array([[0, 1, 1],
           [1, 0, 0]], dtype=uint8)
    """
    where = folder or os.environ.get("LBARN_DATA")
    if where is not None:
        if not Path(where).is_dir():
            raise DatasetError(
                f"{where} is no folder: {'folder' if folder else 'LBARN_DATA'} names one that holds sets"
            )
        if (found := _in_folder(name, Path(where))) is not None:
            return found
    return _fetched(name)


def _in_folder(name: str, folder: Path) -> Split | None:
    packed = folder / f"{name}.npz"
    if packed.exists():
        return _unpacked(packed)
    for home in (folder, folder / name):
        paths = [home / f"{name}.{part}.data" for part in Split._fields]
        if paths[0].exists():
            return _texts(paths)
    return None


def _fetched(name: str) -> Split:
    if name not in names():
        raise DatasetError(f"no set {name!r} is known, nor is it in LBARN_DATA; known are {', '.join(names())}")
    by_hand = (
        f"put {name}.npz, or {name}.train.data, {name}.valid.data and {name}.test.data (a row a line, 0 and 1 separated by "
        "commas), into a folder and set LBARN_DATA to it"
    )
    source = _source()
    paths = [f"{name}/{name}.{part}.data" for part in Split._fields]
    if paths[0] not in source.registry:
        raise DatasetError(
            f"no public file of {name} has a checksum that is known here, so it is not fetched: {by_hand}"
        )
    if name == "dna":
        warnings.warn(
            "this dna is DEBD's, cut 1600/400/1186; that of the paper is cut 1400/600/1186 and cannot be fetched: "
            f"{by_hand}",
            stacklevel=3,
        )
    try:
        fetched = [Path(source.fetch(path)) for path in paths]
    except (OSError, ValueError) as error:  # pooch: no connection, or another checksum
        raise DatasetError(f"{name} cannot be fetched from {source.base_url} ({error}): {by_hand}") from error
    return _texts(fetched)


def _texts(paths: Sequence[Path]) -> Split:
    return _checked(Split(*(_text(path) for path in paths)), paths[0])


def _text(path: Path) -> Bits:
    """A row a line, values separated by commas, as in DEBD, or by blanks, as in the MNIST of the NADE papers."""
    try:
        with path.open() as lines:
            commas = "," in lines.readline()
        return np.loadtxt(path, np.uint8, delimiter="," if commas else None, ndmin=2, comments=None)
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error


def _unpacked(path: Path) -> Split:
    """``train``, ``valid`` and ``test``, eight values to a byte along axis 1, and ``dim``, the number of columns."""
    try:
        with path.open("rb") as file, np.load(file) as z:
            return _checked(
                Split(*(np.unpackbits(z[part], axis=1, count=int(z["dim"])) for part in Split._fields)), path
            )
    except (OSError, KeyError, TypeError, BadZipFile) as error:
        raise DatasetError(f"{path} holds no packed set: {error}") from error


def _checked(split: Split, path: Path) -> Split:
    widths = {part.shape[1] for part in split}
    if len(widths) > 1 or not all(part.size for part in split):
        shapes = ", ".join(f"{name} {part.shape}" for name, part in split._asdict().items())
        raise DatasetError(f"{path}: the three parts do not fit each other: {shapes}")
    if max(part.max() for part in split) > 1:
        raise DatasetError(f"{path}: a set holds 0 and 1 only")
    return split


def _source() -> pooch.Pooch:
    """DEBD at a fixed commit, with the checksums of that commit's files."""
    import pooch

    source = pooch.create(path=pooch.os_cache("lbarn"), base_url=BASE_URL, registry=None)
    source.load_registry(_CHECKSUMS)
    return source
