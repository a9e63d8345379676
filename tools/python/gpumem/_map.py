# SPDX-License-Identifier: MIT
"""Maps: leased and mapped allocations.

A Mapping owns a reference of libgpumem to its map. The Map and every Array refer to the
Mapping, so it dies with the last of them, wherever the garbage collector is by then, and
there no GPU may be waited for. So a dead Mapping only leaves its map behind, and the next
map(), close() or collect() unmaps it. Tensors that were made through DLPack have C
references of their own, which keep gpumem_unmap() from unmapping (EBUSY).

The lease lasts as long as the mapping: never is memory mapped that has no lease.
"""

from __future__ import annotations

import collections
import contextlib
import errno
from collections.abc import Callable
from collections.abc import Mapping as Table
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, Iterator, Optional, overload

from . import _array, _dlpack, _tensors
from ._library import FOLLOW, KINDS, STATES, WRITE, Error, Info, check, check_again, library, text

if TYPE_CHECKING:
    from ._mount import Mount

# Maps of dead Mappings, until they are unmapped. A thread takes out the map that it works
# on, so there is no lock.
_left: collections.deque[int] = collections.deque()


def collect() -> None:
    """Unmaps memory that no array uses any more. Waits for the work of its devices."""
    _dlpack.sweep()
    for _ in range(len(_left)):
        try:
            map = _left.popleft()
        except IndexError:
            break
        result = library.gpumem_unmap(map)
        if result == -errno.ECHILD:  # the parent's: here it is only forgotten
            library.gpumem_unref(map)
        elif result < 0:
            _left.append(map)


class Mapping:
    """A map of libgpumem, and what stays the same while it is mapped."""

    def __init__(self, mount: Mount, name: str, flags: int):
        self._map: Any = c_void_p()  # there before the call: Ctrl-C may come right after it
        check_again(
            library.gpumem_map,
            byref(self._map),
            mount._get(),
            text(name, "the name of an allocation"),
            flags,
        )
        info = self.ask()
        self.pointer: int = info.pointer
        self.size: int = info.size
        self.device: Optional[int] = info.device if info.device >= 0 else None
        # of a map for reading, too, that shares the memory of one for writing
        self.writable = bool(flags & WRITE)

    def __del__(self, leave: Callable[[int], None] = _left.append) -> None:
        if self._map.value:
            leave(self._map.value)

    @property
    def map(self) -> int:
        return int(self._map.value)

    def ask(self) -> Info:
        """The information as of now."""
        info = Info()
        check(library.gpumem_info(self._map, byref(info)))
        self.info = info
        return info


class Map:
    """An allocation, mapped; see gpumem.map().

    As a context manager it is closed at the end. Arrays may live on: the memory stays
    mapped, and leased, until the last of them is gone. The lease of memory that was left
    to the garbage collector ends with the next call of map(), close() or collect().
    """

    def __init__(self, mount: Mount, name: str, flags: int):
        self._mapping: Optional[Mapping] = None
        self._tensors: Optional[_tensors.Tensors] = None
        collect()
        self._name = name
        self._mount = mount.path
        self._mapping = Mapping(mount, name, flags)

    def __enter__(self) -> Map:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the use of the memory by this object. Waits for the work of the device and
        unmaps, or leaves that to the last array. May be called again."""
        self._mapping = None
        collect()

    def _get(self) -> Mapping:
        if self._mapping is None:
            raise Error(errno.EBADF, f"the map of {self._name} has been closed")
        return self._mapping

    def __repr__(self) -> str:
        if self._mapping is None:
            return f"<gpumem.Map {self._name}, closed>"
        where = "host" if self.device is None else f"device {self.device}"
        return f"<gpumem.Map {self._name}, {self.size} bytes at {self.pointer:#x}, {where}>"

    # ---- what it is ----

    @property
    def pointer(self) -> int:
        """Address of the first byte in this program; a CUdeviceptr for device memory."""
        return self._get().pointer

    @property
    def address(self) -> int:
        """The allocation's address, the same in every program. Equal to `pointer`, unless
        the map was made with any_address."""
        return int(self._get().info.address)

    @property
    def size(self) -> int:
        """Bytes, as allocated."""
        return self._get().size

    @property
    def mapped_size(self) -> int:
        """Mapped bytes: the size, rounded up. Guarded memory ends with them."""
        return int(self._get().info.mapped_size)

    @property
    def device(self) -> Optional[int]:
        """The CUDA ordinal of the device in this program; None: host memory."""
        return self._get().device

    @property
    def uuid(self) -> str:
        """The device's, GPU-...; empty for host memory."""
        return bytes(self._get().info.uuid).decode()

    @property
    def kind(self) -> str:
        """device or host."""
        return KINDS[self._get().info.kind]

    @property
    def writable(self) -> bool:
        """Whether it is mapped for writing."""
        return self._get().writable

    @property
    def id(self) -> int:
        """Number of the allocation, never used again in the mount."""
        return int(self._get().info.id)

    @property
    def name(self) -> str:
        """Name of the allocation, as of now."""
        return bytes(self._get().ask().name).decode()

    @property
    def state(self) -> str:
        """As of now: live, freed (the memory stays while it is mapped), replaced (freed, and
        another was published at its name), ending (the broker has ended; so does it then) or
        suspended."""
        return STATES[self._get().ask().state]

    # ---- tensors ----

    def _table(self) -> _tensors.Tensors:
        if self._tensors is None:
            self._tensors = _tensors.read(self._mount, self.name, self.id, self.size)
        return self._tensors

    @property
    def tensors(self) -> Table[str, _tensors.Tensor]:
        """The tensors that were published here, by name: dtype ("BF16"), shape, strides (in
        elements), offset and nbytes (bytes), kind (parameter, buffer), alias. Empty where
        there are none. Read once, at the first use; ESTALE if the allocation has been freed
        by then."""
        return self._table().tensors

    @property
    def metadata(self) -> Table[str, str]:
        """What else was published with the tensors: the source of gpumem.load() and the
        words of the file."""
        return self._table().metadata

    def __getitem__(self, name: str) -> _array.Array:
        """The tensor of this name: .torch(), .cupy(), .numba() or .numpy() of it."""
        return _tensors.array(self._get(), self.tensors[name])

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def keys(self) -> Any:
        """Names of the tensors."""
        return self.tensors.keys()

    # ---- arrays ----

    def array(self, dtype: Any = "u8", shape: _array.Shape = None, offset: int = 0) -> _array.Array:
        """Elements of the memory.

        dtype   "f32" or "F32", "float32", numpy.float32, torch.float32, ...
        shape   number of elements in each dimension, or one number; None: one dimension,
                as many as there are behind the offset
        offset  bytes before the first element, a multiple of the element's size
        """
        return _array.make(self._get(), dtype, shape, offset)

    def numpy(self, dtype: Any = "u8", shape: _array.Shape = None, offset: int = 0) -> Any:
        """numpy.ndarray in host memory; arguments as for array()."""
        return self.array(dtype, shape, offset).numpy()

    def memoryview(self) -> memoryview:
        """All bytes of host memory."""
        return self.array().memoryview()

    @overload
    def torch(self) -> dict[str, Any]: ...

    @overload
    def torch(self, dtype: Any, shape: _array.Shape = None, offset: int = 0) -> Any: ...

    def torch(self, dtype: Any = None, shape: _array.Shape = None, offset: int = 0) -> Any:
        """Without arguments {name: torch.Tensor}, all tensors that were published here, for
        load_state_dict(..., assign=True). Else a torch.Tensor in device or host memory;
        arguments as for array()."""
        if dtype is not None:
            return self.array(dtype, shape, offset).torch()
        if not self.tensors:
            raise ValueError(f"{self._name} has no tensors: pass a type, as in torch('f32')")
        return _tensors.torch(self._get(), self.tensors)

    def cupy(self, dtype: Any = "u8", shape: _array.Shape = None, offset: int = 0) -> Any:
        """cupy.ndarray in device memory; arguments as for array()."""
        return self.array(dtype, shape, offset).cupy()

    def numba(self, dtype: Any = "u8", shape: _array.Shape = None, offset: int = 0) -> Any:
        """Device array of numba.cuda in device memory; arguments as for array()."""
        return self.array(dtype, shape, offset).numba()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.array().__cuda_array_interface__

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array().__array_interface__

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array().__dlpack_device__()

    def __dlpack__(self, **arguments: Any) -> object:
        return self.array().__dlpack__(**arguments)

    # ---- the order of uses ----

    @contextlib.contextmanager
    def hold(self, write: bool = False, stream: Any = None) -> Iterator[Map]:
        """Takes a place in the broker's order of uses, for reading or for writing, and
        waits for it. Until the end of the `with`, `data`, copies and launches of the
        broker wait, and so do holds of other programs.

        stream  whose queued work counts as in the `with`: a CUstream as a number, or a
                stream of torch, CuPy or numba; None: the default stream
        """
        mapping = self._get()
        handle = stream_handle(stream)
        begun = False
        try:
            check_again(library.gpumem_begin, mapping.map, WRITE if write else 0)
            begun = True
            yield self
        except BaseException as error:
            # Ctrl-C may come between the two lines above. An error of the end (a context
            # that is lost) would hide the first error.
            if begun or not isinstance(error, Error):
                library.gpumem_end(mapping.map, handle)
            raise
        check(library.gpumem_end(mapping.map, handle))

    def suspend(self) -> None:
        """Waits for the work of the device and gives the memory up, not its address.
        Arrays must not be used until resume(). EBUSY while the program has other maps of
        the allocation."""
        mapping = self._get()
        collect()
        check(library.gpumem_suspend(mapping.map))

    def resume(self, follow: bool = False) -> None:
        """Takes the memory again, at the same address: of the same allocation, or with
        follow of the allocation that has the name now."""
        mapping = self._get()
        check_again(library.gpumem_resume, mapping.map, FOLLOW if follow else 0)
        mapping.ask()


def stream_handle(stream: Any) -> Optional[int]:
    """The CUstream of a stream: torch's cuda_stream, CuPy's ptr, numba's handle."""
    for attribute in ("cuda_stream", "ptr", "handle"):
        stream = getattr(stream, attribute, stream)
    stream = getattr(stream, "value", stream)
    if stream is not None and not isinstance(stream, int):
        raise TypeError(f"{stream!r} is not a stream of CUDA")
    return stream
