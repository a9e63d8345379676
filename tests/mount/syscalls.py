"""Exact system calls for the mount suite: `show(os.write, fd, b"...")` prints what the
call returned, or the name of its error."""
import ctypes
import errno
import mmap
import os
import select
import signal
import sys
import time


def attempt(call, *args):
    try:
        return call(*args)
    except OSError as error:
        return errno.errorcode[error.errno]


def show(call, *args):
    result = attempt(call, *args)
    if isinstance(result, bytes):
        result = result.decode(errors="backslashreplace").rstrip("\n")
    print(result, flush=True)


def control(verb):
    return os.open(f"control/{verb}", os.O_RDWR)


def answer(fd):
    """What reads give until end of file."""
    text = b""
    while True:
        part = os.read(fd, 4096)
        if not part:
            return text.decode()
        text += part


def become(uid):
    """From here on as another user, who need not be able to start Python."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


libc = ctypes.CDLL(None, use_errno=True)


def raw(call, *args):
    """One system call as it is, without Python's own retry after EINTR."""
    result = call(*args)
    return result if result >= 0 else errno.errorcode[ctypes.get_errno()]


def raw_write(fd, text):
    return raw(libc.write, fd, text, len(text))


def raw_read(fd, size):
    return raw(libc.read, fd, ctypes.create_string_buffer(size), size)
