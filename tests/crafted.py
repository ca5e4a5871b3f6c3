"""Files that were made to do harm: model files, compressed rows and tables with contents that nobody writes, in whole containers."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from mutations import Content, Tensors, mutate_tensors, put_together, take_apart

# ---------------------------------------------------------------------- model files


def craft_model(file: bytes, rng: random.Random) -> bytes:
    """The model file with one thing in it that no fit gives, under a right checksum."""
    content, tensors = take_apart(file)
    rng.choice(_MODELS)(content, tensors, rng)
    return _with_abyss(put_together(content, tensors), rng)


def _somewhere(content: dict[str, Any], key: str, rng: random.Random) -> Any:
    """A part of a header, at any depth, that has the key; the header itself if there is none."""
    found, waiting = [], [content]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict) and key in node:
            found.append(node)
        waiting += node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    return rng.choice(found) if found else content


def _nested(content: Content, tensors: Tensors, rng: random.Random) -> None:
    """Lists in lists, almost as deep as Python can follow."""
    value: Any = 0
    for _ in range(rng.choice([50, 300, 600, 900])):
        value = {"a": value} if rng.random() < 0.5 else [value]
    key = rng.choice(["trials", "search_results", "order", "names", "labels", "random_state", "seed", "x", _ABYSS])
    _somewhere(content, key, rng)[key] = rng.choice([value, [value], [{"a": value}]])


_ABYSS = "as deep as no JSON is read"


def _with_abyss(file: bytes, rng: random.Random) -> bytes:
    """The name replaced by lists in lists that Python could not have written."""
    depth = rng.choice([1000, 100_000])
    text = b'x\\":' + b"[" * depth + b"]" * depth + b',\\"y'
    longer = file.replace(_ABYSS.encode(), text)
    return (int.from_bytes(file[:8], "little") + len(longer) - len(file)).to_bytes(8, "little") + longer[8:]


def _trials(content: Content, tensors: Tensors, rng: random.Random) -> None:
    key = rng.choice(["trials", "search_results"])
    records = [
        "a text", [1], [{}], {}, [{"a": "b"}], [{"a": None}], [{"a": [1, 2]}], [{"a": 1e308}], [{"seconds": 1}], "", 0,
    ]  # fmt: skip
    _somewhere(content, key, rng)[key] = rng.choice(records)


def _numbers(content: Content, tensors: Tensors, rng: random.Random) -> None:
    """A parameter that no fit takes, or only just."""
    key = rng.choice(
        ["max_iter", "learning_rate", "max_leaf_nodes", "seed", "binarize", "random_state", "n_orders", "cap", "sharpen", "merge_rows", "max_step",
         "l2_regularization", "min_gain", "validation_fraction", "n_iter_no_change", "max_features", "split_bits"]
    )  # fmt: skip
    huge = [
        2**70, -(2**70), 10**400, 1e308, -1e308, 5e-324, -0.0, 0, 1, 2**31 - 1, 2**31, 2**63, 2**32 - 1, True, "1", "inf",
    ]  # fmt: skip
    _somewhere(content, key, rng)[key] = rng.choice(huge)


def _weights(content: Content, tensors: Tensors, rng: random.Random) -> None:
    """Shares that are none, or nearly."""
    names = [name for name in tensors if name.endswith(("weights", "class_prior", "base_rates"))]
    if not names:
        return _numbers(content, tensors, rng)
    array = tensors[rng.choice(names)]
    if rng.random() < 0.5:
        array *= rng.choice([1.000005, 1 + 1e-12, 1 - 1e-8, 0.5, -1, np.inf, np.nan, 1e308, 0])
    else:
        array.flat[rng.randrange(array.size)] = rng.choice(
            [0, 1, 5e-324, 1e-320, 1 - 2**-53, 2, -1, np.nan, np.inf, 1.7e308]
        )
    return None


def _deep_tree(content: Content, tensors: Tensors, rng: random.Random) -> None:
    """One tree that splits its last leaf again and again, or its first."""
    networks = [name.removesuffix("tree_counts") for name in tensors if name.endswith("tree_counts")]
    prefix = rng.choice(networks or [""])
    needed = [prefix + name for name in ("tree_counts", "tree_splits", "splits", "gains", "values")]
    if not networks or tensors[needed[0]][-1] == 0:
        return _numbers(content, tensors, rng)
    counts, sizes, splits, gains, values = (tensors[name] for name in needed)
    tree = int(counts[:-1].sum())
    first, old = int(sizes[:tree].sum()), int(sizes[tree])
    n = rng.choice([900, 1100, 5000, 65_534])
    leaves = np.arange(n) if rng.random() < 0.5 else np.zeros(n)
    chain = np.column_stack([leaves, np.zeros(n)]).astype(splits.dtype)
    tensors[needed[1]] = np.concatenate([sizes[:tree], [n], sizes[tree + 1 :]]).astype(sizes.dtype)
    tensors[needed[2]] = np.concatenate([splits[:first], chain, splits[first + old :]])
    tensors[needed[3]] = np.concatenate([gains[:first], np.ones(n, gains.dtype), gains[first + old :]])
    leaf = first + tree
    tensors[needed[4]] = np.concatenate([values[:leaf], np.zeros(n + 1, values.dtype), values[leaf + old + 1 :]])
    return None


def _names(content: Content, tensors: Tensors, rng: random.Random) -> None:
    """Columns as another library would have them."""
    part = _somewhere(content, "columns", rng).get("columns")
    if not isinstance(part, dict) or not isinstance(part.get("dtypes"), list):
        return _numbers(content, tensors, rng)
    part["library"] = rng.choice(["numpy", "pandas", "polars", "pyarrow"])
    kinds = ["bool", "float16", "float128", "float32", "uint64", "int8", ">i4", ">f8", "int128", "uint1", "longdouble"]
    part["dtypes"] = [rng.choice(kinds)] * len(part["dtypes"])
    if part.get("names"):
        odd = ["", "\x1b[2J", "\x00", "\n", "0", 0, -1, 2**70, "a" * 10_000, "\u202e", "\ud800", "NaN", None, True]
        part["names"][rng.randrange(len(part["names"]))] = rng.choice(odd)
    return None


def _gains(content: Content, tensors: Tensors, rng: random.Random) -> None:
    found = [name for name in tensors if name.endswith("gains")]
    if not found:
        return _numbers(content, tensors, rng)
    array = tensors[rng.choice(found)]
    array[...] = np.resize(rng.choice([[3.4e38], [-1], [1, -1], [0], [1e-45], [-3.4e38, 3.4e38]]), array.shape)
    return None


_MODELS: list[Callable[[Content, Tensors, random.Random], None]] = [
    _nested,
    _trials,
    _numbers,
    _numbers,
    _weights,
    _weights,
    _deep_tree,
    _names,
    _gains,
]


# ---------------------------------------------------------------------- compressed rows


def resealed(blob: bytes, n_rows: int, rng: random.Random) -> bytes:
    """Another number of rows, another stream, another fingerprint, under a right checksum."""
    head, stream = bytearray(blob[:48]), bytearray(blob[48:-8])
    action = rng.random()
    if action < 0.4:
        claims = [0, 1, n_rows - 1, n_rows + 1, 2 * n_rows, 10**6, 30_000_000, 2**31, 2**63, 2**64 - 1]
        head[24:32] = rng.choice(claims).to_bytes(8, "little")
    elif action < 0.5:
        head[rng.randrange(48)] ^= 1 << rng.randrange(8)
    if action > 0.35:
        change = rng.randrange(5)
        if change == 0:
            stream += rng.randbytes(rng.choice([4, 8, 40, 4000, 1, 3]))
        elif change == 1:
            del stream[rng.randrange(len(stream) + 1) :]
        elif change == 2:
            stream[:] = bytes(len(stream))
        elif change == 3:
            stream[:] = rng.randbytes(len(stream))
        elif stream:
            stream[rng.randrange(len(stream))] ^= 1 << rng.randrange(8)
    content = bytes(head + stream)
    return content + hashlib.blake2b(content, digest_size=8).digest()


# ---------------------------------------------------------------------- tables


def craft_table(kind: str, content: bytes, rng: random.Random) -> bytes:
    """Another table in the format ``kind``, its archive and checksums in order."""
    return _TABLES[kind](content, rng)


_CELLS = [
    "0", "1", "", "NaN", "nan", "?", "2", "-1", "0.5", "1e400", "-1e400", "1" * 400, "9" * 30, "0x1", "1_000", "true", "False", "inf",
    '"', '"0', '"0"', "'", "\x00", "\ufeff", "\x1b[2J", "é", "a" * 100_000, "0,1", "1;0", "\t", "\r", "\n", "\n\n", "1e-400", "٣", "½",
    "None", "1.0", "01", "+1", " 1", "1 ", "1e0", "a", "b",
]  # fmt: skip


def _csv_text(content: bytes, rng: random.Random) -> bytes:
    lines = [line.split(",") for line in content.decode().splitlines()]
    for _ in range(rng.choice([1, 1, 2, 5])):
        line = rng.choice(lines[: rng.choice([1, 2, len(lines)])])
        action = rng.random()
        if action < 0.7:
            line[rng.randrange(len(line))] = rng.choice(_CELLS)
        elif action < 0.8 and len(line) > 1:
            line.pop()
        elif action < 0.9:
            line.append(rng.choice(_CELLS))
        else:
            line[:] = [rng.choice(_CELLS)] * rng.choice([1, 4, 5, 5000])
    separator, end = rng.choice([",", ",", ",", ";", "\t", " ", "|"]), rng.choice(["\n", "\n", "\r\n", "\r"])
    text = end.join(separator.join(line) for line in lines)
    encoding = rng.choice(["utf-8", "utf-8", "utf-8", "utf-16", "utf-32", "latin-1"])
    return text.encode(encoding, "replace")


def _csv_gz(content: bytes, rng: random.Random) -> bytes:
    text = _csv_text(gzip.decompress(content), rng)
    if rng.random() < 0.2:
        return gzip.compress(text[:20]) + gzip.compress(text[20:])
    return gzip.compress(text) + rng.choice([b"", b"", b"\0" * 8, b"junk"])


def _parquet(content: bytes, rng: random.Random) -> bytes:
    """Columns of every type that Arrow has, and names that are none."""
    kinds: list[Any] = [
        pa.array([0, 1, None]), pa.array(["0", "1", "a"]), pa.array([[0], [1], []]), pa.array([{"a": 1}, None, {"a": 0}]),
        pa.array([b"0", b"1", b"\0"]), pa.array([None, None, None]), pa.array([0, 1, 2], pa.decimal128(38, 10)),
        pa.array([0, 1, 0], pa.timestamp("us")), pa.array(["a", "b", "a"]).dictionary_encode(), pa.array([0.0, 1.0, float("nan")]),
        pa.array([0, 1, 1], pa.float16()), pa.array([0, 1, 1], pa.uint64()), pa.array([2**63, 0, 1], pa.uint64()),
        pa.array([True, False, None]), pa.array([], pa.int8()), pa.array([0, 1, 1], pa.duration("s")),
    ]  # fmt: skip
    first = rng.choice(kinds)
    columns = [first] + [
        rng.choice([own for own in kinds if len(own) == len(first)]) for _ in range(rng.choice([0, 2, 3]))
    ]
    labels = [rng.choice(["a", "b", "", "\x00", "__index_level_0__", "c" * 5000, "a.b", "é"]) for _ in columns]
    stream = io.BytesIO()
    table = pa.Table.from_arrays(columns, labels)
    if rng.random() < 0.3:
        index = rng.choice(["{", "[]", '{"index_columns": 5}', '{"index_columns": [{"kind": "range"}]}', "null", "{}"])
        table = table.replace_schema_metadata({"pandas": index})
    pq.write_table(table, stream, compression=rng.choice(["none", "snappy", "gzip"]), row_group_size=2)
    return stream.getvalue()


def _npy(content: bytes, rng: random.Random) -> bytes:
    """Another header before the same values."""
    shapes = ["(40, 4)", "(2147483647, 4)", "(4, 2147483647)", "(10**9, 10**9)", "(0, 4)", "(40, 0)", "(-1, 4)", "(160,)", "()",
              "(1, 160, 1)", "(9999999999999999999999, 4)", "(40.0, 4)", "[40, 4]", "(True, 160)", "(" * 300 + ")" * 300]  # fmt: skip
    types = ["'|u1'", "'|O'", "'<f8'", "'<c16'", "'|S4'", "'|V8'", "'<U2000000000'", "'|b1'", "'>i2'", "'<f2'", "'<M8[s]'",
             "[('a', '<i8')]", "'float128'", "('|u1', (40, 4))", "None", "1"]  # fmt: skip
    shape, kind = rng.choice([shapes[0], rng.choice(shapes)]), rng.choice([types[0], rng.choice(types)])
    order = rng.choice(["False", "True", "1", "None"])
    head = f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}}}".encode()
    if rng.random() < 0.1:
        head = rng.choice([b"{}", b"[]", b"[" * 5000, b"__import__('os').abort()", b"", head[:-1], b"1" * 60_000])
    version = rng.choice([(1, 0), (1, 0), (2, 0), (3, 0), (9, 9)])
    length = len(head).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + length + head + content[content.index(b"\n") + 1 :]


def _npz(content: bytes, rng: random.Random) -> bytes:
    """Members that are no arrays, arrays that are no tables, names that are no names; checksums of the archive are right."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        member = archive.read("X.npy")
    stream = io.BytesIO()
    with zipfile.ZipFile(
        stream, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
    ) as archive:
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
            name = rng.choice(
                ["X.npy", "X.npy", "x.npy", "X", "../X.npy", ".npy", "shape.npy", "é.npy", "X/", "data.npy"]
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of two of one name
                archive.writestr(name, rng.choice([_npy(member, rng), member, b"", b"junk", bytes(1 << 24)]))
    return stream.getvalue()


def _sparse_npz(content: bytes, rng: random.Random) -> bytes:
    """The arrays of a sparse matrix that do not go together; a matrix of any shape in a few bytes."""
    matrix = sp.load_npz(io.BytesIO(content))
    stream = io.BytesIO()
    if rng.random() < 0.4:
        shapes = [
            (2**31 - 1, 65_535),
            (2**31 - 1, 4),
            (4, 2**31 - 1),
            (2**40, 4),
            (2**20, 4),
            (10**6, 65_535),
            (30_000_000, 65_535),
            (40, 65_535),
            (0, 4),
            (40, 0),
        ]
        kinds: list[Callable[[tuple[int, int]], Any]] = [
            lambda shape: sp.coo_matrix(([1], ([0], [0])), shape=shape) if 0 not in shape else sp.coo_matrix(shape),
            lambda shape: sp.dia_matrix(([[1.0]], [0]), shape=shape) if 0 not in shape else sp.coo_matrix(shape),
        ]
        shape = rng.choice(shapes)
        if shape[1] <= 65_535:
            kinds.append(lambda shape: sp.csc_matrix((np.ones(1), [0], [0] + [1] * shape[1]), shape=shape) if 0 not in shape else sp.coo_matrix(shape))  # fmt: skip
        sp.save_npz(stream, rng.choice(kinds)(shape))
        return stream.getvalue()
    with np.load(io.BytesIO(content)) as arrays:
        parts = dict(arrays)
    if rng.random() < 0.4:
        parts["format"] = np.array(rng.choice(["csr", "csc", "coo", "bsr", "dia", "lil", "xyz", ""]).encode())
    if parts["format"] in (b"coo", b"dia"):
        parts |= {"row": matrix.tocoo().row, "col": matrix.tocoo().col, "offsets": np.array([0])}
    for _ in range(rng.choice([0, 1, 1, 2])):
        try:
            mutate_tensors(parts, rng)
        except (ValueError, TypeError, OverflowError):  # letters are no numbers
            continue
    np.savez(stream, **parts)
    return stream.getvalue()


def _libsvm(content: bytes, rng: random.Random) -> bytes:
    lines = content.decode().splitlines()
    odd = [
        "1:1e400", "1" + "0" * 30 + ":1", "2147483648:1", "65536:1", "4294967297:1", "-1:1", "0:1", "1:", ":1", "1:1 1:1", "3:1 2:1",
        "qid:1", "1:nan", "1:-inf", "a:b", "1:1:1", "# x", "\x00", "é", "1:0x1", "1:" + "1" * 5000, "9" * 5000 + ":1", "1,2 1:1",
        "9223372036854775807:1", "18446744073709551617:1", "1:2", "1:0.5",
    ]  # fmt: skip
    for _ in range(rng.choice([1, 1, 2, 5])):
        i = rng.randrange(len(lines))
        words = lines[i].split(" ")
        words[rng.randrange(len(words))] = rng.choice(odd)
        lines[i] = " ".join(words)
    return "\n".join(lines).encode()


_TABLES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "csv": _csv_text,
    "csv.gz": _csv_gz,
    "parquet": _parquet,
    "npy": _npy,
    "npz": _npz,
    "sparse npz": _sparse_npz,
    "libsvm": _libsvm,
}
