# SPDX-License-Identifier: MIT
"""gpumem.load(): a safetensors file in the mount, loaded once for all programs.

An allocation comes from a file if it is sealed, so that nobody has changed it since, and
its metadata has the file's identity: device, inode, size, and the times of the last changes
of bytes and inode, which no program can set back. Who published it could have written
anything there, so only the word of certain owners counts.

Of several programs that load the same name the one loads whose allocation NAME.part is made:
the broker makes it once, and frees it when that program ends. The others wait for its end
and look again.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import math
import os
import re
import signal
import stat
import time
from typing import Any, Iterable, Iterator, NamedTuple, Optional, Union

from . import _tensors
from ._dtype import SIZES
from ._folder import Folder, is_allocation
from ._library import Error, printable
from ._map import Map
from ._mount import Mount, Path, _use, command_again
from ._part import Part

SOURCE, VERSION = "gpumem.source", "gpumem.source_version"
PART = ".part"  # of the name of an allocation that is on its way

_PAGE = 256  # tensors that don't lie well in the file begin at multiples of it
_COPIED = 8 << 20  # bytes at a time
_TICK = 0.1  # seconds; no file system counts time more coarsely without saying so
_PASSING = [
    getattr(signal, "SIG" + name)
    for name in ("ALRM", "CHLD", "CONT", "IO", "PROF", "URG", "USR1", "USR2", "VTALRM", "WINCH")
]
_WAIT = 0.02  # seconds between two looks at another loader


def _open_regular(path: str, flags: int) -> int:
    """For open(), which would wait for a writer of a FIFO. open() itself refuses folders."""
    at = os.open(path, flags | os.O_NONBLOCK)
    mode = os.fstat(at).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return at
    os.close(at)
    raise ValueError(f"{printable(path)} is not a regular file: load() has to know its size")


class _File:
    """An open safetensors file."""

    def __init__(self, path: Path):
        self.path = os.path.realpath(path)
        self.opened = builtins.open(self.path, "rb", opener=_open_regular)
        self.status = self._stat()
        # Within one tick of the clock two changes have the same time.
        if 0 <= time.time() - max(self.status.st_ctime, self.status.st_mtime) < _TICK:
            time.sleep(_TICK)
            self.status = self._stat()
        self.version = version(self.status)

    def _stat(self) -> os.stat_result:
        return os.fstat(self.opened.fileno())

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.opened.close()

    def read_header(self) -> None:
        """Raises ValueError for a file that is not a whole safetensors file."""
        size = self.status.st_size
        length = int.from_bytes(self.opened.read(8), "little")
        text = self.opened.read(length) if length <= min(size - 8, _tensors.MAX_BYTES) else b""
        if not text.startswith(b"{"):
            raise self._unfit("it does not begin with a header")
        path = os.fsencode(self.path).decode(errors="replace")  # JSON has characters only
        try:
            table = _tensors.parse(text, math.inf)
            end = max((t.offset + t.nbytes for t in table.tensors.values()), default=0)
            metadata = {**table.metadata, SOURCE: path, VERSION: self.version}
            self.pieces, tensors, self.size = _layout(table.tensors, end)
            self.table = _tensors.text(tensors, metadata)
        except ValueError as error:
            raise self._unfit(f"its header is wrong: {error}") from None
        if not tensors:
            raise self._unfit("it has no tensors")
        self.begin = 8 + length
        if self.begin + end > size:
            raise self._unfit(
                f"it is cut off: its tensors end at byte {self.begin + end}, the file at {size}"
            )

    def _unfit(self, why: str) -> ValueError:
        return ValueError(
            f"{printable(self.path)} is not a safetensors file: {why}. For other files: "
            f"gpumem.alloc() and gpumem.command('control/load', 'NAME path=FILE')"
        )

    def check(self) -> None:
        """Raises an error if it has changed since it was opened, or is another file."""
        try:
            same = version(self._stat()) == self.version == version(os.stat(self.path))
        except OSError:
            same = False
        if not same:
            raise Error(
                errno.EAGAIN,
                f"{printable(self.path)} has changed while it was loaded: nothing is published",
            )


class _Piece(NamedTuple):
    """Bytes of the file that stay together."""

    begin: int  # in the file, from the first tensor
    offset: int  # in the allocation
    length: int


def _layout(
    tensors: Any, size: int
) -> tuple[list[_Piece], dict[str, _tensors.Tensor], int]:
    """As in the file, or, where a tensor lies at no multiple of its element's size, each
    tensor by itself."""
    if all(t.offset % SIZES.get(t.dtype, 1) == 0 for t in tensors.values()):
        return [_Piece(0, 0, size)] if size else [], dict(tensors), size
    pieces, moved, end = [], {}, 0
    for name, tensor in tensors.items():
        pieces.append(_Piece(tensor.offset, end, tensor.nbytes))
        moved[name] = tensor._replace(offset=end)
        end += -(-tensor.nbytes // _PAGE) * _PAGE
    return [piece for piece in pieces if piece.length], moved, end


def version(status: os.stat_result) -> str:
    """What no two contents of a file have in common, as far as the kernel can tell."""
    return (
        f"{status.st_dev}:{status.st_ino} {status.st_size} "
        f"{status.st_mtime_ns} {status.st_ctime_ns}"
    )


class Published(NamedTuple):
    """An allocation that has the name."""

    id: int
    owner: int  # uid
    kind: str
    device: Optional[int]  # None: host memory
    sealed: bool
    table: _tensors.Tensors

    def is_set(self) -> bool:
        """Whether it was published, and may be replaced."""
        return self.sealed and bool(self.table.tensors)


def _published(name: str, folder: Folder) -> Published:
    status = folder.status()
    on, size = status["device"], int(status["size_bytes"])
    return Published(
        id=int(status["id"]),
        owner=int(status["owner"]),
        kind=status["kind"],
        device=None if on == "none" else int(on),
        sealed=status["sealed"] == "1",
        table=_tensors.parse_of(name, folder.read("tensors"), size),
    )


def find(mount: Mount, name: str) -> Optional[Published]:
    """What is published as the name; None: nothing is there.

    Raises EINVAL for what is not a name, and EACCES for what the caller may not read.
    """
    part = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
    if not re.fullmatch(rf"({part}/){{0,8}}{part}", name):
        raise Error(errno.EINVAL, f"{name!r} is not the name of an allocation")
    path = f"{mount.path}/allocations/{name}"
    for _ in range(100):
        try:
            folder = Folder(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Error(error.errno, f"{path}: {error.strerror}") from None
        with folder:
            try:
                if not is_allocation(folder.stat()):
                    return None
                return _published(name, folder)
            except PermissionError:
                owner = folder.stat().st_uid
                raise Error(
                    errno.EACCES,
                    f"{name} is there already, and belongs to uid {owner}: not for reading",
                ) from None
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ESTALE):
                    continue  # freed or replaced meanwhile: look again
                if isinstance(error, Error):
                    raise
                raise Error(error.errno, f"{path}: {error.strerror}") from None
    raise Error(errno.EAGAIN, f"{name} is replaced again and again")


class _Wanted(NamedTuple):
    """Arguments of load()."""

    name: str
    device: Optional[int]
    kind: Optional[str]
    trust: tuple[int, ...]


def _is_believed(owner: int, file: _File, wanted: _Wanted) -> bool:
    """Whether the word of that user is taken for the file."""
    return owner in (os.getuid(), 0, file.status.st_uid, *wanted.trust)


def _match(found: Published, file: _File, wanted: _Wanted) -> bool:
    """Whether it is the file's, and may be taken. Raises EEXIST for what is in the way."""
    name = wanted.name
    if not found.is_set() or VERSION not in found.table.metadata:
        raise Error(
            errno.EEXIST,
            f"{name} is there already, and was not loaded by gpumem.load(): gpumem.map() takes it "
            f"as it is; else free it, or use another name",
        )
    if wanted.kind not in (None, found.kind):
        raise Error(
            errno.EEXIST, f"{name} is there already, with kind={found.kind}: use another name"
        )
    if None not in (wanted.device, found.device) and wanted.device != found.device:
        raise Error(
            errno.EEXIST,
            f"{name} is there already, on device {found.device}: use a name for each device",
        )
    if not _is_believed(found.owner, file, wanted):
        raise Error(
            errno.EEXIST,
            f"{name} is there already, and belongs to uid {found.owner}: take the word of that "
            f"user with trust=[{found.owner}], or use another name",
        )
    return found.table.metadata[VERSION] == file.version


def _map_published(
    mount: Mount, file: _File, wanted: _Wanted, options: dict[str, bool]
) -> Optional[Map]:
    while (found := find(mount, wanted.name)) and _match(found, file, wanted):
        try:
            mapped = mount.map(wanted.name, **options)
        except Error as error:
            if error.errno in (errno.ENOENT, errno.ESTALE):
                continue
            raise
        if mapped.id == found.id:
            mapped._tensors = found.table
            return mapped
        mapped.close()
    return None


def _path_word(path: str) -> str:
    """A path as an operand: what is not a plain character is a backslash with its number."""
    plain = range(0x21, 0x7F)
    return "".join(
        chr(byte) if byte in plain and byte != 0x5C else f"\\{byte:03o}" for byte in os.fsencode(path)
    )


def _copy(file: _File, part: Part, piece: _Piece) -> None:
    """What control/load does, a tenth as fast."""
    file.opened.seek(file.begin + piece.begin)
    with part.data() as data:
        data.seek(piece.offset)
        left = piece.length
        while left:
            bytes = memoryview(file.opened.read(min(left, _COPIED)))
            if not bytes:
                break  # it has been cut off, and check() sees that
            left -= len(bytes)
            while bytes:
                bytes = bytes[data.write(bytes) :]
        os.fsync(data.fileno())


@contextlib.contextmanager
def _passing_signals_wait() -> Iterator[None]:
    """A signal ends a load, which then begins anew. Those that programs get in passing, as
    of a timer, would let no load come to its end, so they wait. Ctrl-C does not."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _fill(mount: Mount, file: _File, name: str, part: Part) -> None:
    """Fills the part, and publishes it."""
    path = _path_word(file.path)
    # The path may lead to another file for a moment: whoever owns a folder on the way can
    # rename it and rename it back.
    file_id = f"{file.status.st_dev}:{file.status.st_ino}"
    for piece in file.pieces:
        line = (
            f"{part.name} id={part.id} path={path} file_id={file_id} offset={piece.offset} "
            f"file_offset={file.begin + piece.begin} length={piece.length}"
        )
        try:
            with _passing_signals_wait():
                command_again(mount, "control/load", line)
        except Error as error:
            if error.errno != errno.EXDEV:
                file.check()
                raise
            # In a container the broker sees other files than this program.
            _copy(file, part, piece)
    file.check()
    part.write_tensors(file.table)
    part.publish(name)


def _look_at_part(mount: Mount, part: str) -> Optional[os.stat_result]:
    """Looks at the object called so, once: size and owner belong together. None: there is none."""
    path = f"{mount.path}/allocations/{part}"
    try:
        return os.stat(path, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):
            return None
        raise Error(error.errno, f"{path}: {error.strerror}") from None


def _wait(mount: Mount, file: _File, wanted: _Wanted, part: str, until: float) -> None:
    """Waits for the end of another program's part. Raises EEXIST for a folder, and for the
    part of a user whose allocation would not be taken afterwards."""
    name = wanted.name
    while at := _look_at_part(mount, part):
        owner = at.st_uid
        if not is_allocation(at):
            raise Error(
                errno.EEXIST,
                f"{part} is a folder of uid {owner}, and {name} can't be loaded under that "
                f"name: remove the folder, or use another name",
            )
        if not _is_believed(owner, file, wanted):
            raise Error(
                errno.EEXIST,
                f"{part} is there already, and belongs to uid {owner}: wait for that user and "
                f"take the user's word with trust=[{owner}], or use another name",
            )
        if time.monotonic() >= until:
            raise Error(
                errno.ETIMEDOUT,
                f"{name} is being loaded by another program, of uid {owner}, which has not "
                f"finished in time: {mount.path}/allocations/{part}/progress says how far it is",
            )
        time.sleep(_WAIT)


def load(
    path: Path,
    name: str,
    *,
    device: Optional[int] = None,
    kind: Optional[str] = None,
    tag: Optional[str] = None,
    mode: Union[int, str, None] = None,
    map: Optional[str] = None,
    timeout: Optional[float] = 600,
    trust: Iterable[int] = (),
    any_address: bool = False,
    register: bool = False,
    mount: Union[Mount, Path, None] = None,
) -> Map:
    """Maps the tensors of a safetensors file, for reading. Loads them into the mount if they
    are not there yet; they stay there until they are freed.

    path         of the file
    name         of the allocation
    device       number in the mount (None: where the name is, else 0). Each device needs a
                 name of its own
    kind, tag, mode, map
                 as for alloc(), if the file is loaded now
    timeout      seconds to wait for another program that is loading the same name, if the
                 word of its user is taken; None: for ever
    trust        uids: users whose word is taken for the file that they have loaded, beside
                 the caller, root and the owner of the file
    any_address, register
                 as for map()

    The name is taken as it is where it was loaded from this very file, unchanged since; what
    was loaded from another file or an older version is replaced, and stays for the programs
    that have it mapped.

    Errors: ValueError (not a safetensors file); OSError of the file; EEXIST (the name, or
    NAME.part, is something else, or another user's); ETIMEDOUT; EAGAIN (the file has changed
    while it was loaded: nothing is published); ENOMEM; those of map().
    """
    used, part = _use(mount), name + PART
    options = {"any_address": any_address, "register": register}
    until = float("inf") if timeout is None else time.monotonic() + timeout
    wanted = _Wanted(name, device, kind, tuple(trust))
    while True:
        with _File(path) as file:
            if mapped := _map_published(used, file, wanted, options):
                return mapped
            file.read_header()
            # What this session has made ends with it, unless it is published.
            with Mount(used.path) as session:
                try:
                    made = session.alloc(
                        part,
                        max(file.size, 1),
                        kind=kind,
                        device=device,
                        tag=tag,
                        mode=mode,
                        map=map,
                        until="close",
                    )
                except Error as error:
                    if error.errno != errno.EEXIST:
                        raise
                else:
                    # Another program may have published it since the look above.
                    found = find(used, name)
                    if not (found and _match(found, file, wanted)):
                        with Part(session, made) as opened:
                            _fill(session, file, name, opened)
                    continue
        _wait(used, file, wanted, part, until)
