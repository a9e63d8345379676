# SPDX-License-Identifier: MIT
"""Mounts: sessions of libgpumem, lines to the broker, and the list of allocations."""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import dataclasses
import errno
import os
import threading
from collections.abc import Callable
from ctypes import byref, c_void_p
from typing import Iterator, Optional, Union

from ._folder import Folder, is_allocation, keyed
from ._library import ANY_ADDRESS, REGISTER, WRITE, Error, check, library, text
from ._map import Map

Path = Union[str, "os.PathLike[str]"]
Size = Union[int, str]  # bytes, or as the broker reads it: "64M", "1000xf32"

_ANSWER_MAX = 1 << 20


@dataclasses.dataclass(frozen=True)
class Allocation:
    """An allocation at one moment. What the caller may not read is None or empty."""

    name: str
    size: int  # bytes
    owner: int  # uid
    mode: int  # as of chmod(2)
    kind: Optional[str] = None  # device, direct, async, managed or host
    device: Optional[int] = None  # number of the device in the mount; None: host memory
    address: Optional[int] = None
    state: Optional[str] = None  # live, busy or lost
    tag: Optional[str] = None
    status: dict[str, str] = dataclasses.field(default_factory=dict, repr=False)  # all keys


def _allocation(
    name: str, status: dict[str, str], *, size: int, owner: int, mode: int
) -> Allocation:
    known = {key: value for key, value in status.items() if value != "none"}
    return Allocation(
        name=name,
        size=int(known.get("size_bytes", size)),
        owner=int(known.get("owner", owner)),
        mode=mode & 0o666,
        kind=known.get("kind"),
        device=int(known["device"]) if "device" in known else None,
        address=int(known["address"], 0) if "address" in known else None,
        state=known.get("state"),
        tag=known.get("tag"),
        status=status,
    )


def allocation_in(folder: Folder, name: str) -> Allocation:
    """The allocation of a folder, as of now."""
    at = folder.stat()
    try:
        status = folder.status()
    except PermissionError:
        status = {}
    return _allocation(name, status, size=at.st_size, owner=at.st_uid, mode=at.st_mode)


@contextlib.contextmanager
def _errors_of(path: str) -> Iterator[None]:
    """An error of the system becomes a gpumem.Error."""
    try:
        yield
    except Error:
        raise
    except OSError as error:
        raise Error(error.errno, f"{path}: {error.strerror}") from None


def _word(value: object) -> str:
    """An operand of a line."""
    word = os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value)
    if not word or word.split() != [word]:
        raise Error(errno.EINVAL, f"{value!r} is not one word")
    return word


class Mount:
    """A mount of gpumemd, and this program's session with it.

    Allocations made with until="close" end with close(), or with the program.
    """

    def __init__(self, path: Optional[Path] = None):
        self._session = c_void_p()
        check(library.gpumem_open(byref(self._session), None if path is None else text(path, "a path")))
        self.path: str = os.fsdecode(library.gpumem_path(self._session))

    def __enter__(self) -> Mount:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __del__(self, close: Callable[[c_void_p], None] = library.gpumem_close) -> None:
        if self._session.value:
            close(self._session)

    def __repr__(self) -> str:
        return f"<gpumem.Mount {self.path}>"

    def close(self) -> None:
        """Ends the session. Its maps stay. May be called again."""
        session, self._session = self._session, c_void_p()
        library.gpumem_close(session)

    def _get(self) -> c_void_p:
        if not self._session.value:
            raise Error(errno.EBADF, "the mount has been closed")
        return self._session

    def command(self, file: str, line: str) -> str:
        """As gpumem.command()."""
        answer = ctypes.create_string_buffer(_ANSWER_MAX)
        bytes_of_line = text(line, "a line")
        if not bytes_of_line.endswith(b"\n"):
            bytes_of_line += b"\n"
        check(
            library.gpumem_command(
                self._get(), text(file, "the name of a file"), bytes_of_line, answer, _ANSWER_MAX
            )
        )
        return answer.value.decode(errors="replace")

    def write(
        self, file: str, data: bytes, opener: Optional[Callable[[str, int], int]] = None
    ) -> None:
        """Writes a whole file, as `cp` does: `tensors`, or the image of a module.

        opener  as of open()
        """
        self._get()
        path = f"{self.path}/{file}"
        try:
            with builtins.open(path, "wb", buffering=0, opener=opener) as opened:
                left = memoryview(data)
                while left:
                    left = left[opened.write(left) :]
        except OSError as error:
            raise Error(error.errno, self._sentence(file, error)) from None

    def _sentence(self, file: str, error: OSError) -> str:
        """The broker's, from `errors`, about this thread's last use of the file."""
        name = errno.errorcode.get(error.errno or 0, "")
        own = [f"pid={threading.get_native_id()}", file, name]
        said = []
        try:
            with builtins.open(f"{self.path}/errors", errors="replace") as errors:
                for line in errors:
                    # The first words are the broker's own; root's lines have a uid.
                    words = line.rstrip("\n").split(" ")
                    at = 2 if words[1].startswith("uid=") else 1
                    if words[at : at + 3] == own:
                        said.append(" ".join(words[at + 3 :]))
        except OSError:
            pass
        return said[-1] if said else f"{self.path}/{file}: {error.strerror}"

    def alloc(
        self,
        name: str,
        size: Size,
        *,
        kind: Optional[str] = None,
        device: Optional[int] = None,
        stream: Optional[str] = None,
        attach: Optional[str] = None,
        tag: Optional[str] = None,
        mode: Union[int, str, None] = None,
        until: Optional[str] = None,
        map: Optional[str] = None,
        guard: Optional[int] = None,
    ) -> Allocation:
        """As gpumem.alloc()."""
        keys = {
            "kind": kind,
            "device": device,
            "stream": stream,
            "attach": attach,
            "tag": tag,
            "mode": f"{mode:o}" if isinstance(mode, int) else mode,
            "until": until,
            "map": map,
            "guard": guard,
        }
        words = [_word(name), _word(size)]
        words += [f"{key}={_word(value)}" for key, value in keys.items() if value is not None]
        status = keyed(self.command("control/alloc", " ".join(words)))
        # Its name may be another's by now: there is nothing to be looked at.
        bits = int(keys["mode"] or "600", 8)
        size, owner = int(status["size_bytes"]), int(status["owner"])
        return _allocation(name, status, size=size, owner=owner, mode=bits)

    def free(self, name: str) -> None:
        """As gpumem.free()."""
        self.command("control/free", _word(name))

    def look(self, name: str) -> Allocation:
        """The allocation of this name, as of now."""
        path = f"{self.path}/allocations/{name}"
        with _errors_of(path), Folder(path) as folder:
            return allocation_in(folder, name)

    def ls(self) -> list[Allocation]:
        """As gpumem.ls()."""
        self._get()
        return self._ls("")

    def _ls(self, inside: str) -> list[Allocation]:
        """The allocations in a folder, `` or `a/`, and in the folders in it."""
        folder = f"{self.path}/allocations"
        found = []
        with _errors_of(f"{folder}/{inside}"):
            names = sorted(os.listdir(f"{folder}/{inside}"))
        for name in names:
            name = inside + name
            path = f"{folder}/{name}"
            try:
                with _errors_of(path), Folder(path) as opened:
                    if is_allocation(opened.stat()):
                        found.append(allocation_in(opened, name))
                    elif os.access(path, os.R_OK | os.X_OK):
                        found += self._ls(f"{name}/")
            except Error as error:
                # It may have been freed since listdir().
                if error.errno not in (errno.ENOENT, errno.ESTALE):
                    raise
        return found

    def map(
        self, name: str, write: bool = False, *, any_address: bool = False, register: bool = False
    ) -> Map:
        """As gpumem.map()."""
        self._get()
        flags = WRITE if write else 0
        flags |= ANY_ADDRESS if any_address else 0
        flags |= REGISTER if register else 0
        return Map(self, name, flags)


def command_again(mount: Mount, file: str, line: str) -> str:
    """Begins a line again that a signal has ended, after the signal's handler, which may
    raise (KeyboardInterrupt)."""
    while True:
        try:
            return mount.command(file, line)
        except Error as error:
            if error.errno != errno.EINTR:
                raise


# Sessions of the functions below, by process and path.
_mounts: dict[tuple[int, str], Mount] = {}


def open(path: Optional[Path] = None) -> Mount:
    """Opens the mount at a path, with a session of its own.

    path  None: $GPUMEM_MOUNT, else the only mount of root's, or of the user's own, that the
          user may enter
    """
    return Mount(path)


def _use(mount: Union[Mount, Path, None]) -> Mount:
    if isinstance(mount, Mount):
        return mount
    path = os.environ.get("GPUMEM_MOUNT", "") if mount is None else os.fspath(mount)
    found = _mounts.get((os.getpid(), path))
    return found or _mounts.setdefault((os.getpid(), path), Mount(path or None))


def map(
    name: str,
    write: bool = False,
    *,
    any_address: bool = False,
    register: bool = False,
    mount: Union[Mount, Path, None] = None,
) -> Map:
    """Leases an allocation of kind device or host and maps it into this program.

    name         of the allocation
    write        maps for writing too; else a store fails (CUDA's error 700, SIGSEGV)
    any_address  makes a map of its own, and accepts another address than the allocation's
    register     host memory: page-locks it for use by the GPU

    An allocation that is mapped already is shared: the new Map has the same pointer, and
    the last one that is closed unmaps.

    Waits for earlier writes. Errors: ENOENT; EACCES (its mode or `map` does not let this
    user); EOPNOTSUPP (memory of this kind can't be leased); EADDRINUSE (it is mapped for
    less: close that map first, or see any_address);
    ENODEV (the device is hidden from this program); EIO (the driver failed).
    """
    return _use(mount).map(name, write, any_address=any_address, register=register)


def ls(*, mount: Union[Mount, Path, None] = None) -> list[Allocation]:
    """The allocations, by name."""
    return _use(mount).ls()


def alloc(
    name: str,
    size: Size,
    *,
    kind: Optional[str] = None,
    device: Optional[int] = None,
    stream: Optional[str] = None,
    attach: Optional[str] = None,
    tag: Optional[str] = None,
    mode: Union[int, str, None] = None,
    until: Optional[str] = None,
    map: Optional[str] = None,
    guard: Optional[int] = None,
    mount: Union[Mount, Path, None] = None,
) -> Allocation:
    """Allocates memory, which reads as zeros.

    name    [A-Za-z0-9_][A-Za-z0-9_.-]{0,63}, not in use, in a folder FOLDER/NAME
    size    bytes, or as the broker reads it: "64M", "1.5G" is not one, "1000xf32"
    kind    device (None), direct, async, managed or host
    device  number in the mount, as nvidia-smi counts (None: 0)
    stream  kind=async: made on it; kind=managed: attached to it
    attach  kind=managed: global or host
    tag     a word of the user's
    mode    rights of others, as of chmod(2): 0o640 or "640" (None: 0600)
    until   "close": ends with the session (Mount.close()), or with this program
    map     who may map device memory: writers (None) or readers
    guard   1: an access behind its end faults; 2: before its start, too

    Errors: EEXIST; EINVAL; ENOMEM.
    """
    return _use(mount).alloc(
        name,
        size,
        kind=kind,
        device=device,
        stream=stream,
        attach=attach,
        tag=tag,
        mode=mode,
        until=until,
        map=map,
        guard=guard,
    )


def free(name: str, *, mount: Union[Mount, Path, None] = None) -> None:
    """Frees an allocation, after its last use. Where it is mapped, the memory stays."""
    _use(mount).free(name)


def command(file: str, line: str, *, mount: Union[Mount, Path, None] = None) -> str:
    """Writes a line to a file of the mount, as in command("control/fill", "x f32:1.5").

    Returns the answer, at most 1 MiB. The mount's README has every file and every line.
    """
    return _use(mount).command(file, line)
