"""Damaged model files: random bytes, and files that were changed on purpose and have a right checksum again."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from lbarn._network import container

Content = dict[str, Any]
Tensors = dict[str, NDArray[Any]]

NASTY: list[Any] = [
    None, True, False, -1, 0, 1, 2, 7, 65_536, 2**31, 2**63, 2**64, 10**400, -(10**30), 0.5, -0.0, 1e308, 5e-324, float("nan"),
    float("inf"), "", "auto", "individual", "common", "entropy-increasing", "numpy", "pandas", "polars", "pyarrow", "dask",
    "bool", "float16", "object", "O", "U", "S2000000000", "2000000000f8", "(1000,1000)f8", "f8,f8", "M8[s]", "complex64", "V9",
    "\ud800", "\x00", "\n", "x" * 5000, [], [[]], [0], ["a"], [None], [0, 1, 2, 3], [3, 2, 1, 0], ["a", "b", "c", "a"],
    ["a", "b", "c", "d"], [0.5] * 4, list(range(3000)), {}, {"a": 1}, [[[[[[[[]]]]]]]],
]  # fmt: skip

NUMBERS = [0, 1, -1, 2, 3, 5, 255, 65_535, 2**31 - 1, -(2**31), 2**62, -(2**63), np.nan, np.inf, -np.inf, 1e300, -0.7]


def take_apart(file: bytes) -> tuple[Content, Tensors]:
    """Description and arrays of a model file."""
    length = int.from_bytes(file[:8], "little")
    content = json.loads(json.loads(file[8 : 8 + length])["__metadata__"]["lbarn"])
    return content, load(file)


def put_together(content: Content, tensors: Tensors) -> bytes:
    """A file with a right checksum, where there can be one."""
    content = {name: value for name, value in content.items() if name != "checksum"}
    try:
        content["checksum"] = container._checksum(content, tensors)
    except (ValueError, RecursionError):
        content["checksum"] = ""
    return save(tensors, {"lbarn": json.dumps(content)})


# ---------------------------------------------------------------------- bytes


def flip(file: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice([1, 1, 2, 8])):
        file[rng.randrange(len(file))] ^= 1 << rng.randrange(8)


def overwrite(file: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice([1, 4, 16])):
        file[rng.randrange(len(file))] = rng.choice([0, 0x20, 0x22, 0x30, 0x5C, 0x7B, 0x7D, 0xFF, rng.randrange(256)])


def truncate(file: bytearray, rng: random.Random) -> None:
    del file[rng.randrange(len(file)) :]


def extend(file: bytearray, rng: random.Random) -> None:
    file.extend(rng.randbytes(rng.choice([1, 8, 1000])))


def splice(file: bytearray, rng: random.Random) -> None:
    """A piece of the file in another place, replacing what is there or between it."""
    start, at, size = rng.randrange(len(file)), rng.randrange(len(file)), rng.choice([1, 8, 64, 512])
    piece = file[start : start + size]
    file[at : at + (len(piece) if rng.random() < 0.5 else 0)] = piece


def cut(file: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(file))
    del file[at : at + rng.choice([1, 8, 64])]


def another_length(file: bytearray, rng: random.Random) -> None:
    """The first eight bytes tell how long the safetensors header is."""
    length = int.from_bytes(file[:8], "little")
    wrong = rng.choice([0, 1, length - 1, length + 1, length * 2, 2**31, 2**40, 2**63, 2**64 - 1, rng.randrange(2**64)])
    file[:8] = (wrong % 2**64).to_bytes(8, "little")


BYTES: list[Callable[[bytearray, random.Random], None]] = [
    flip,
    overwrite,
    truncate,
    extend,
    splice,
    cut,
    another_length,
]


def mutate_bytes(file: bytes, rng: random.Random) -> bytes:
    changed = bytearray(file)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if changed:
            rng.choice(BYTES)(changed, rng)
    return bytes(changed)


# ---------------------------------------------------------------------- meaning


def mutate_description(content: Content, rng: random.Random) -> None:
    """One value somewhere in the JSON replaced, removed, added or moved."""
    places: list[tuple[Any, Any]] = []

    def collect(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                collect(node[key])

    collect(content)
    node, key = rng.choice(places)
    action = rng.random()
    if action < 0.7:
        node[key] = copy.deepcopy(rng.choice(NASTY))
    elif action < 0.8:
        del node[key]
    elif action < 0.9:
        other, other_key = rng.choice(places)
        node[key] = copy.deepcopy(other[other_key]) if other_key in other or isinstance(other, list) else None
    elif isinstance(node, dict):
        node[rng.choice(["n_jobs", "verbose", "max_iter", "kind", "x", "trimmed"])] = copy.deepcopy(rng.choice(NASTY))
    else:
        node.append(copy.deepcopy(rng.choice(NASTY)))


def mutate_tensors(tensors: Tensors, rng: random.Random) -> None:
    """One array with other values, another type, another shape, or none."""
    name = rng.choice(sorted(tensors))
    array = tensors[name].copy()
    action = rng.random()
    with np.errstate(all="ignore"):
        if action < 0.5 and array.size:
            for _ in range(rng.choice([1, 1, 3])):
                value = rng.choice([*NUMBERS, rng.randrange(2**16)])
                array.flat[rng.randrange(array.size)] = np.array(value).astype(array.dtype)
        elif action < 0.6:
            array = np.full_like(array, np.array(rng.choice(NUMBERS)).astype(array.dtype))
        elif action < 0.7:
            array = array.astype(rng.choice(["i8", "u8", "i4", "u2", "i1", "f4", "f8", "f2", "?"]))
        elif action < 0.8:
            shapes = [(-1,), (1, -1), (-1, 1), (1, 1, -1), (*array.shape[::-1],)]
            array = array.reshape(rng.choice(shapes))
        elif action < 0.88:
            array = array[: rng.randrange(len(array) + 1)] if array.ndim else array
        elif action < 0.94:
            array = np.concatenate([array, array[: rng.choice([1, 2])]]) if array.ndim else array
        elif action < 0.97:
            array = np.zeros(rng.choice([(), (0,), (0, 2), (5, 0)]), array.dtype)
    if action >= 0.97:
        del tensors[name]
        if rng.random() < 0.5:
            tensors["unheard of"] = array
    else:
        tensors[name] = np.ascontiguousarray(array).reshape(array.shape)


def mutate_meaning(file: bytes, rng: random.Random) -> bytes:
    content, tensors = take_apart(file)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if rng.random() < 0.5 or not tensors:
            mutate_description(content, rng)
        else:
            mutate_tensors(tensors, rng)
    return put_together(content, tensors)
