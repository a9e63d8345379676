# SPDX-License-Identifier: MIT
"""Types of elements, by the names that gpumem, safetensors, numpy and torch give them."""

from __future__ import annotations

from typing import NamedTuple, Optional


class Dtype(NamedTuple):
    name: str  # numpy's and torch's
    size: int  # bytes
    code: int  # DLDataTypeCode of DLPack
    typestr: Optional[str]  # of the array interfaces; None: they have no such type


_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_E4M3FN, _E5M2, _E8M0 = 10, 12, 14

_DTYPES = {
    dtype.name: dtype
    for dtype in (
        Dtype("bool", 1, _BOOL, "|b1"),
        Dtype("int8", 1, _INT, "|i1"),
        Dtype("uint8", 1, _UINT, "|u1"),
        Dtype("int16", 2, _INT, "<i2"),
        Dtype("uint16", 2, _UINT, "<u2"),
        Dtype("int32", 4, _INT, "<i4"),
        Dtype("uint32", 4, _UINT, "<u4"),
        Dtype("int64", 8, _INT, "<i8"),
        Dtype("uint64", 8, _UINT, "<u8"),
        Dtype("float16", 2, _FLOAT, "<f2"),
        Dtype("bfloat16", 2, _BFLOAT, None),
        Dtype("float32", 4, _FLOAT, "<f4"),
        Dtype("float64", 8, _FLOAT, "<f8"),
        Dtype("complex64", 8, _COMPLEX, "<c8"),
        Dtype("complex128", 16, _COMPLEX, "<c16"),
        Dtype("float8_e4m3fn", 1, _E4M3FN, None),
        Dtype("float8_e5m2", 1, _E5M2, None),
        Dtype("float8_e8m0fnu", 1, _E8M0, None),
    )
}

_SHORT = {
    "i8": "int8",
    "u8": "uint8",
    "i16": "int16",
    "u16": "uint16",
    "i32": "int32",
    "u32": "uint32",
    "i64": "int64",
    "u64": "uint64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "f8_e4m3": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
    "f8_e8m0": "float8_e8m0fnu",
}

# The names of safetensors files and of `tensors`, by the name above.
_STORED = {"bool": "BOOL", **{name: short.upper() for short, name in _SHORT.items()}}

# Bytes of an element, by the same names.
SIZES = {stored: _DTYPES[name].size for name, stored in _STORED.items()}


def find(dtype: object) -> Dtype:
    """The type called "f32" or "F32", "float32", numpy.float32 or torch.float32.

    Raises TypeError for any other.
    """
    name = dtype
    if not isinstance(name, str):
        name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = name.rpartition(".")[2].lower()
    found = _DTYPES.get(_SHORT.get(name, name))
    if found is None or getattr(dtype, "byteorder", "=") == ">":
        raise TypeError(f"{dtype!r} is not one of {', '.join((*_SHORT, *_DTYPES))}")
    return found


def stored(dtype: object) -> str:
    """The name that safetensors files and `tensors` have for a type: "BF16".

    Raises TypeError for a type that they have no name for.
    """
    name = find(dtype).name
    if name not in _STORED:
        raise TypeError(f"{name} is not one of {', '.join(_STORED)}")
    return _STORED[name]
