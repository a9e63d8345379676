# SPDX-License-Identifier: MIT
"""libgpumem through ctypes: its functions, its records, its errors."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Union

NAME = "libgpumem.so.0"

WRITE, ANY_ADDRESS, REGISTER, FOLLOW = 1, 2, 4, 8
KINDS = ("device", "host")
STATES = ("live", "freed", "ending", "suspended", "replaced")


class Error(OSError):
    """What failed: `errno`, and in `strerror` the sentence of the broker or the library."""


class Info(ctypes.Structure):
    """struct gpumem_info of gpumem.h."""

    _fields_ = [
        ("pointer", c_void_p),
        ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("mapped_size", ctypes.c_uint64),
        ("id", ctypes.c_uint64),
        ("generation", ctypes.c_uint32),
        ("device", c_int),
        ("uuid", ctypes.c_char * 48),
        ("name", ctypes.c_char * 585),
        ("kind", ctypes.c_uint8),
        ("state", ctypes.c_uint8),
        ("writable", ctypes.c_uint8),
    ]


_FUNCTIONS = {
    "gpumem_open": (c_int, POINTER(c_void_p), c_char_p),
    "gpumem_path": (c_char_p, c_void_p),
    "gpumem_close": (None, c_void_p),
    "gpumem_command": (c_int, c_void_p, c_char_p, c_char_p, c_void_p, c_size_t),
    "gpumem_map": (c_int, POINTER(c_void_p), c_void_p, c_char_p, c_uint),
    "gpumem_ref": (c_void_p, c_void_p),
    "gpumem_unref": (c_void_p, c_void_p),
    "gpumem_unmap": (c_int, c_void_p),
    "gpumem_info": (c_int, c_void_p, POINTER(Info)),
    "gpumem_begin": (c_int, c_void_p, c_uint),
    "gpumem_end": (c_int, c_void_p, c_void_p),
    "gpumem_suspend": (c_int, c_void_p),
    "gpumem_resume": (c_int, c_void_p, c_uint),
    "gpumem_dlpack_free": (None, c_void_p),
    "gpumem_dlpack_free_versioned": (None, c_void_p),
    "gpumem_error": (c_char_p,),
}


def _load() -> ctypes.CDLL:
    path = os.environ.get("GPUMEM_LIBRARY") or NAME
    try:
        library = ctypes.CDLL(path)
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
    except (OSError, AttributeError) as error:
        raise ImportError(
            f"the Python package gpumem needs the library {NAME} "
            f"({error}): install gpumem (`meson install -C build`, then `ldconfig`), or "
            f"set GPUMEM_LIBRARY to the path of the library",
            name="gpumem",
            path=path,
        ) from error
    return library


library = _load()


def check(result: int) -> None:
    """Raises the failure of the call that this thread has just made."""
    if result < 0:
        raise Error(-result, library.gpumem_error().decode(errors="replace"))


def check_again(function: Callable[..., int], *arguments: object) -> None:
    """Calls a function that waits. A signal ends the wait: after its handler, which may
    raise (KeyboardInterrupt), the wait begins again."""
    while (result := function(*arguments)) == -errno.EINTR:
        pass
    check(result)


def printable(path: Union[str, bytes]) -> str:
    """A path for a message: characters that are not printable are escaped."""
    known = os.fsencode(path).decode(errors="backslashreplace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in known)


def text(value: object, what: str) -> bytes:
    """A string for C."""
    encoded = os.fsencode(value) if isinstance(value, (str, bytes, os.PathLike)) else b"\0"
    if b"\0" in encoded:
        raise Error(errno.EINVAL, f"{value!r} is not {what}")
    return encoded
