# SPDX-License-Identifier: MIT
"""Tensors of an allocation: its file `tensors`, which is the header of a safetensors file.

Offsets count from the first byte of the allocation, and the broker checks them when the
file is written. They are checked here again, because numpy and CuPy believe what they are
told.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Mapping as Table
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from ._array import Array, contiguous, make, span, torch_dtype
from ._dtype import SIZES, find
from ._folder import Folder
from ._library import Error

if TYPE_CHECKING:
    from ._map import Mapping

METADATA = "__metadata__"
MAX_BYTES = 64 << 20  # of the text
RANK_MAX = 64  # numpy overruns its stack with more

_NUMBER_MAX = (1 << 63) - 1  # the least number that the broker refuses
_UNSTORED = re.compile("[\0\ud800-\udfff]")  # NUL and halves of UTF-16


class Tensor(NamedTuple):
    """Where a tensor is, and of what type."""

    dtype: str  # as safetensors names it: BF16
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    offset: int  # bytes from the start of the allocation
    nbytes: int
    kind: Optional[str] = None  # parameter, buffer, or not known
    alias: Optional[str] = None  # the tensor that has the same memory


class Tensors(NamedTuple):
    """The whole file."""

    tensors: Table[str, Tensor]
    metadata: Table[str, str]


def _refuse_fraction(number: str) -> Any:
    raise ValueError(f"{number} is not a whole number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object, each of which is there once."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"{twice!a} is there twice")
    return found


def _numbers(row: dict[str, Any], key: str) -> tuple[int, ...]:
    """A list as the broker takes it: true is no number there."""
    found = row[key]
    if not isinstance(found, list) or any(type(n) is not int or n >= _NUMBER_MAX for n in found):
        raise ValueError(f"{key} is not a list of whole numbers")
    return tuple(found)


def _tensor(row: dict[str, Any], size: float) -> Tensor:
    for key in ("dtype", "kind", "alias"):
        if not isinstance(row.get(key, ""), str):
            raise ValueError(f"{key} is not a string")
    dtype, shape = row["dtype"], _numbers(row, "shape")
    begin, end = _numbers(row, "data_offsets")
    if len(shape) > RANK_MAX:
        raise ValueError(f"{len(shape)} dimensions, more than the {RANK_MAX} of any array")
    if "strides" in row:
        strides = _numbers(row, "strides")
        if len(strides) != len(shape):
            raise ValueError(f"{len(strides)} strides for {len(shape)} dimensions")
        n = span(shape, strides)
    else:
        strides = (shape[1], 1) if len(shape) == 2 else contiguous(shape)
        n = math.prod(shape)
    if begin < 0 or (shape and (min(shape) < 0 or min(strides) < 0)):
        raise ValueError("a number is negative")
    if not begin <= end <= size:
        raise ValueError(f"bytes {begin} to {end} are outside of the {size} that are there")
    if dtype in SIZES and n * SIZES[dtype] != end - begin:
        raise ValueError(f"{dtype}{list(shape)} are not {end - begin} bytes")
    return Tensor(dtype, shape, strides, begin, end - begin, row.get("kind"), row.get("alias"))


def parse(text: bytes, size: float) -> Tensors:
    """The tensors of a header, in memory of size bytes (math.inf: of any size).

    Raises ValueError for what is not a header, or lies.
    """
    try:
        rows = (
            json.loads(text, parse_float=_refuse_fraction, object_pairs_hook=_once)
            if text.strip()
            else {}
        )
        metadata = rows.pop(METADATA, {})
        if not isinstance(metadata, dict) or not all(isinstance(w, str) for w in metadata.values()):
            raise ValueError("the metadata is not a table of strings")
        tensors = {name: _tensor(row, size) for name, row in rows.items()}
        return Tensors(MappingProxyType(tensors), MappingProxyType(metadata))
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not a table of tensors ({error!r})") from None


def text(tensors: Table[str, Tensor], metadata: Table[str, str]) -> bytes:
    """The header of tensors. Raises ValueError for a name or word that is not UTF-8."""
    aliases = (tensor.alias or "" for tensor in tensors.values())
    for word in (*tensors, *aliases, *metadata, *metadata.values()):
        if _UNSTORED.search(word):
            raise ValueError(f"{word!a} can't be stored: it has a NUL or half of a character")
    rows: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    for name, tensor in tensors.items():
        row: dict[str, Any] = {
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": (tensor.offset, tensor.offset + tensor.nbytes),
        }
        if tensor.strides != contiguous(tensor.shape):
            row["strides"] = tensor.strides
        if tensor.kind is not None:
            row["kind"] = tensor.kind
        if tensor.alias is not None:
            row["alias"] = tensor.alias
        rows[name] = row
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=False).encode()


def read(mount: str, name: str, id: int, size: int) -> Tensors:
    """The tensors of the allocation that has this name and this number."""
    path = f"{mount}/allocations/{name}"
    try:
        with Folder(path) as folder:
            if int(folder.read("id")) != id:
                raise Error(errno.ESTALE, f"{name} is another allocation now than the mapped one")
            found = folder.read("tensors")
    except Error:
        raise
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE) and not os.path.exists(path):
            raise Error(errno.ESTALE, f"{name} has been freed, and its tensors with it") from None
        raise Error(error.errno, f"{path}/tensors: {error.strerror}") from None
    return parse_of(name, found, size)


def parse_of(name: str, text: bytes, size: int) -> Tensors:
    """The tensors of an allocation of that size, from its file."""
    try:
        return parse(text, size)
    except ValueError as error:
        raise Error(errno.EINVAL, f"tensors of {name}: {error}") from None


def array(mapping: Mapping, tensor: Tensor) -> Array:
    """A tensor of mapped memory."""
    if tensor.strides == contiguous(tensor.shape):
        return make(mapping, tensor.dtype, tensor.shape, tensor.offset)
    length = span(tensor.shape, tensor.strides)
    first = make(mapping, tensor.dtype, length, tensor.offset)  # checks
    return Array(mapping, first._dtype, tensor.shape, tensor.offset, tensor.strides)


def torch(mapping: Mapping, tensors: Table[str, Tensor]) -> dict[str, Any]:
    """All tensors as views of a single torch.Tensor: some microseconds each."""
    memory = make(mapping, "uint8", mapping.size, 0).torch()
    bases: dict[str, tuple[Any, int]] = {}
    found = {}
    for name, (dtype, shape, strides, offset, _nbytes, _kind, _alias) in tensors.items():
        if dtype not in bases:
            element = find(dtype)
            whole = mapping.size - mapping.size % element.size
            bases[dtype] = memory[:whole].view(torch_dtype(element)), element.size
        base, size = bases[dtype]
        if offset % size:
            raise ValueError(f"{name}: offset {offset} is not a multiple of {size} ({dtype})")
        found[name] = base.as_strided(shape, strides, offset // size)
    return found
