# SPDX-License-Identifier: MIT
"""DLPack capsules of arrays.

A consumer (torch, numpy, JAX) calls a deleter in any thread, while an exception is on its
way, or after the interpreter has ended: no place to run Python. So the deleters are C's,
in libgpumem. They release a reference to the map and never unmap.

A capsule that nobody consumes has no such deleter. A capsule's destructor would be Python
as well, so capsules are kept here until they have a consumer, or are nobody's.
"""

from __future__ import annotations

import collections
import ctypes
import sys
from ctypes import c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

from ._library import library

if TYPE_CHECKING:
    from ._array import Array

CPU, CUDA = 1, 2
_READ_ONLY = 1  # flag of a versioned tensor


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("byte_offset", c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]
    capsule = b"dltensor"
    free: Any = library.gpumem_dlpack_free


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    ]
    capsule = b"dltensor_versioned"
    free: Any = library.gpumem_dlpack_free_versioned


def _function(function: Any, result: Any, *arguments: Any) -> Any:
    function.restype, function.argtypes = result, arguments
    return function


_malloc = _function(ctypes.CDLL(None).malloc, c_void_p, c_size_t)
_new = _function(ctypes.pythonapi.PyCapsule_New, ctypes.py_object, c_void_p, c_char_p, c_void_p)
_is_valid = _function(ctypes.pythonapi.PyCapsule_IsValid, ctypes.c_int, ctypes.py_object, c_char_p)

# Capsules without a consumer so far, with their record. A thread takes out what it works
# on, so there is no lock.
_offered: collections.deque[tuple[object, Any]] = collections.deque()


def _references(offered: tuple[object, Any]) -> int:
    return sys.getrefcount(offered[0])


# Versions of Python differ in what they count of a call's own references.
_NOBODYS = _references((object(), None))


def sweep() -> None:
    """Forgets capsules that have a consumer, and frees those that nobody has."""
    for _ in range(len(_offered)):
        try:
            offered = _offered.popleft()
        except IndexError:
            break
        managed = offered[1]
        if not _is_valid(offered[0], managed.capsule):
            continue  # a consumer renames it
        if _references(offered) > _NOBODYS:
            _offered.append(offered)
        else:
            type(managed).free(ctypes.addressof(managed))


def offer(array: Array, versioned: bool) -> object:
    """A capsule of the array, for the consumer who calls __dlpack__()."""
    sweep()
    kind: Any = _Versioned if versioned else _Managed
    n = len(array.shape)
    head = ctypes.sizeof(kind)
    address = _malloc(head + 2 * n * ctypes.sizeof(c_int64))
    if not address:
        raise MemoryError
    managed = kind.from_address(address)
    shape, strides = address + head, address + head + n * ctypes.sizeof(c_int64)
    (c_int64 * n).from_address(shape)[:] = list(array.shape)
    (c_int64 * n).from_address(strides)[:] = list(array.strides)
    dtype = array._dtype
    bits = dtype.size * 8
    managed.tensor = _Tensor(
        array.pointer, *array.__dlpack_device__(), n, dtype.code, bits, 1, shape, strides, 0
    )
    managed.deleter = ctypes.cast(kind.free, c_void_p).value
    if versioned:
        managed.major, managed.minor = 1, 0
        managed.flags = 0 if array.writable else _READ_ONLY
    capsule = _new(address, kind.capsule, None)
    managed.context = library.gpumem_ref(array._mapping.map)
    _offered.append((capsule, managed))
    return capsule
