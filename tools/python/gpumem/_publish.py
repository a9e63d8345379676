# SPDX-License-Identifier: MIT
"""gpumem.publish(): tensors that a program has become an allocation for all programs.

Everything is checked before anything is made. The tensors lie one behind the other, at
multiples of 256 bytes. Those with the same elements (tied weights) are stored once.

Tensors of torch are copied by torch, through views of the mapped allocation. Elements that
the CPU can read go the way that needs no CUDA: into host memory as bytes, into device
memory through `data`.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import os
import sys
from collections.abc import Iterator
from collections.abc import Mapping as Table
from typing import Any, Optional, Union

from . import _tensors
from ._array import contiguous, span
from ._dtype import SIZES, stored
from ._library import Error
from ._load import PART, find
from ._mount import Allocation, Mount, Path, _use, allocation_in
from ._part import Part

_ALIGNMENT = 256


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the elements lie one behind the other, in any order of the dimensions."""
    step = 1
    for stride, n in sorted((stride, n) for stride, n in zip(strides, shape) if n != 1):
        if stride != step:
            return False
        step *= n
    return True


class _Source:
    """A tensor to be published."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # of the copy, in elements
    is_dense: bool  # memory has the elements in the order of the copy
    nbytes: int
    kind: Optional[str] = None
    device: Optional[int] = None  # CUDA's ordinal; None: the CPU can read it

    def _lay_out(self, strides: Optional[tuple[int, ...]]) -> None:
        """Takes over strides of elements that lie one behind the other."""
        self.strides = contiguous(self.shape)
        self.is_dense = False
        if strides is not None and _is_dense(self.shape, strides):
            self.is_dense = True
            # Strides of a single element mean nothing.
            if any(n > 1 and a != b for n, a, b in zip(self.shape, strides, self.strides)):
                self.strides = strides
        self.nbytes = span(self.shape, self.strides) * SIZES[self.dtype]

    def key(self) -> object:
        """Equal for sources with the same elements at the same place."""
        raise NotImplementedError

    def bytes(self) -> memoryview:
        """The elements in the order of memory."""
        raise NotImplementedError


class _Torch(_Source):
    def __init__(self, tensor: Any):
        torch = sys.modules["torch"]
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise TypeError("it is sparse or quantized")
        self.dtype = stored(tensor.dtype)
        if tensor.device.type not in ("cpu", "cuda"):
            raise TypeError(f"it is on device {tensor.device}")
        self.tensor = tensor.detach().resolve_conj().resolve_neg()
        if not self.tensor.data_ptr() and self.tensor.numel():
            raise TypeError(f"{type(tensor).__name__} has no memory of its own")
        self.shape = tuple(tensor.shape)
        self.device = tensor.device.index if tensor.device.type == "cuda" else None
        if isinstance(tensor, torch.nn.Parameter):
            self.kind = "parameter"
        self._lay_out(tuple(self.tensor.stride()))

    def key(self) -> object:
        place = self.tensor.data_ptr() if self.tensor.numel() else id(self)
        return place, self.device, self.dtype, self.shape, tuple(self.tensor.stride())

    def bytes(self) -> memoryview:
        torch = sys.modules["torch"]
        tensor = self.tensor if self.is_dense else self.tensor.contiguous()
        flat = tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)
        memory: Any = (ctypes.c_ubyte * self.nbytes).from_address(flat.data_ptr())
        memory._tensor = flat
        return memoryview(memory).cast("B")


class _Numpy(_Source):
    def __init__(self, array: Any):
        self.dtype = stored(array.dtype)
        self.array = array
        self.shape = array.shape
        strides = [divmod(step, array.itemsize) for step in array.strides]
        self._lay_out(None if any(rest for _, rest in strides) else tuple(n for n, _ in strides))

    def key(self) -> object:
        place = self.array.__array_interface__["data"][0] if self.array.size else id(self)
        return place, None, self.dtype, self.shape, self.array.strides

    def bytes(self) -> memoryview:
        numpy = sys.modules["numpy"]
        array = self.array
        if self.is_dense:  # its dimensions in the order of memory
            order = sorted(range(array.ndim), key=lambda i: -self.strides[i])
            array = array.transpose(order)
        return memoryview(numpy.ascontiguousarray(array).reshape(-1).view("u1"))


def _source(name: object, value: Any) -> _Source:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    try:
        if not isinstance(name, str):
            raise TypeError("its name is not a string")
        if torch is not None and isinstance(value, torch.Tensor):
            return _Torch(value)
        if numpy is not None and isinstance(value, numpy.ndarray):
            return _Numpy(value)
        raise TypeError(f"{type(value).__name__} is not a torch.Tensor and not a numpy.ndarray")
    except TypeError as error:
        raise TypeError(f"{name!r} can't be published: {error}") from None


def _sources(what: Any) -> dict[str, _Source]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(what, torch.nn.Module):
        state = what.state_dict(keep_vars=True)
        found = {name: _source(name, value) for name, value in state.items()}
        for source in found.values():
            source.kind = source.kind or "buffer"
    elif isinstance(what, Table):
        found = {name: _source(name, value) for name, value in what.items()}
    else:
        raise TypeError(f"{type(what).__name__} is not a torch.nn.Module and not a dict of tensors")
    if not found:
        raise ValueError("there is nothing to publish")
    if len(devices := {s.device for s in found.values() if s.device is not None}) > 1:
        raise ValueError(
            f"the tensors are on CUDA's devices {sorted(devices)}: publish an allocation for each"
        )
    return found


def _place(sources: dict[str, _Source]) -> tuple[dict[str, _tensors.Tensor], int]:
    """Offsets of all tensors, and the size of the allocation."""
    tensors: dict[str, _tensors.Tensor] = {}
    first: dict[object, str] = {}
    end = 0
    for name, source in sources.items():
        original = first.setdefault(source.key(), name)
        if original != name:
            tensors[name] = tensors[original]._replace(kind=source.kind, alias=original)
            continue
        tensors[name] = _tensors.Tensor(
            source.dtype, source.shape, source.strides, end, source.nbytes, source.kind
        )
        end += -(-source.nbytes // _ALIGNMENT) * _ALIGNMENT
    return tensors, max(end, 1)


def _device_in_mount(mount: Mount, ordinal: int) -> int:
    """The mount's number of a device that CUDA calls ordinal in this program."""
    uuid = (ctypes.c_ubyte * 16)()
    cuda = ctypes.CDLL("libcuda.so.1")  # torch has loaded it
    device = ctypes.c_int()
    result = cuda.cuDeviceGet(ctypes.byref(device), ordinal)
    result = result or cuda.cuDeviceGetUuid_v2(uuid, device)
    if result:
        raise Error(errno.EIO, f"CUDA does not tell the UUID of device {ordinal} (error {result})")
    text = bytes(uuid).hex()
    wanted = f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    for number in os.listdir(f"{mount.path}/devices"):
        with builtins.open(f"{mount.path}/devices/{number}/uuid") as file:
            if file.read().strip() == wanted:
                return int(number)
    raise Error(errno.ENODEV, f"the mount has no device {wanted}, where the tensors are")


def _copies(
    sources: dict[str, _Source], tensors: dict[str, _tensors.Tensor]
) -> Iterator[tuple[str, _Source, _tensors.Tensor]]:
    for name, tensor in tensors.items():
        if tensor.alias is None and tensor.nbytes:
            yield name, sources[name], tensor


def _uses_torch(source: _Source, kind: Optional[str]) -> bool:
    """Whether torch can copy it there: to and from a device it needs CUDA."""
    if not isinstance(source, _Torch):
        return False
    return source.device is not None or kind == "device" and sys.modules["torch"].cuda.is_available()


def _fill(
    part: Part, kind: Optional[str], sources: dict[str, _Source], tensors: dict[str, _tensors.Tensor]
) -> None:
    """Copies the elements. Nothing is mapped any more when it returns."""
    by_torch, by_bytes = {}, []
    for name, source, tensor in _copies(sources, tensors):
        if _uses_torch(source, kind):
            by_torch[name] = source, tensor
        else:
            by_bytes.append((source, tensor))
    if by_torch:
        _fill_by_torch(part, by_torch)
    if not by_bytes:
        return
    with part.data() as data:
        for source, tensor in by_bytes:
            left = source.bytes()
            data.seek(tensor.offset)
            while left:
                left = left[data.write(left) :]
        os.fsync(data.fileno())


def _fill_by_torch(part: Part, copies: dict[str, tuple[Any, _tensors.Tensor]]) -> None:
    torch = sys.modules["torch"]
    with part.map() as mapped, torch.no_grad():
        devices = {mapped.device, *(source.device for source, _ in copies.values())} - {None}
        for device in devices:  # streams other than the current one may be at work on them
            torch.cuda.synchronize(device)
        views = _tensors.torch(mapped._get(), {name: tensor for name, (_, tensor) in copies.items()})
        try:
            for name, (source, _) in copies.items():
                views[name].copy_(source.tensor)
            for device in devices:
                torch.cuda.synchronize(device)
        finally:
            del views  # a view would keep the lease, and what is leased is not sealed


def publish(
    what: Any,
    name: str,
    *,
    kind: Optional[str] = None,
    device: Optional[int] = None,
    tag: Optional[str] = None,
    mode: Union[int, str, None] = None,
    map: Optional[str] = None,
    metadata: Optional[Table[str, str]] = None,
    mount: Union[Mount, Path, None] = None,
) -> Allocation:
    """Copies tensors into the mount, as an allocation that nobody can change any more.

    what         a torch.nn.Module (its state_dict()), or a dict of torch.Tensor and
                 numpy.ndarray by name
    name         of the allocation; what was published as it before is replaced, and stays
                 for the programs that have it mapped
    kind         device (None) or host
    device       number in the mount (None: where the tensors are, else 0)
    tag, mode, map
                 as for alloc()
    metadata     words to be kept with the tensors

    Tensors begin at multiples of 256 bytes. Elements that lie one behind the other keep
    their strides, others become contiguous. Names of the same tensor share its memory.

    gpumem.map(name).torch() is the state_dict() in another program.

    Errors: TypeError (what is not such a tensor, or of a type that safetensors does not
    have) and ValueError (nothing there, tensors on several devices, or a name or word with a
    NUL or half of a character), before anything is made; EEXIST (the name is
    something else); ENOMEM; ENODEV; those of map().
    """
    used, part = _use(mount), name + PART
    sources = _sources(what)
    words = _words(metadata)
    tensors, size = _place(sources)
    table = _tensors.text(tensors, words)
    found = find(used, name)
    if found and not found.is_set():
        raise Error(
            errno.EEXIST, f"{name} is there already, and not published: free it, or use another name"
        )
    ordinals = [s.device for s in sources.values() if s.device is not None]
    if device is None and ordinals and kind in (None, "device"):
        device = _device_in_mount(used, ordinals[0])
    with Mount(used.path) as session:  # what it has made ends with it, unless it is published
        made = session.alloc(
            part, size, kind=kind, device=device, tag=tag, mode=mode, map=map, until="close"
        )
        with Part(session, made) as opened:
            _fill(opened, made.kind, sources, tensors)
            opened.write_tensors(table)
            opened.publish(name)
            return allocation_in(opened.folder, name)


def _words(metadata: Optional[Table[str, str]]) -> dict[str, str]:
    words = dict(metadata or {})
    if not all(isinstance(word, str) for pair in words.items() for word in pair):
        raise TypeError("metadata is a dict of strings")
    return words
