# SPDX-License-Identifier: MIT
"""Arrays: an element type and a shape over mapped memory, for any framework."""

from __future__ import annotations

import ctypes
import math
import operator
from typing import TYPE_CHECKING, Any, Optional, Sequence, Union

from . import _dlpack
from ._dtype import Dtype, find

if TYPE_CHECKING:
    from ._map import Mapping

Shape = Union[int, Sequence[int], None]


class Array:
    """Elements in mapped memory: contiguous, last index fastest, unless a published
    tensor has strides of its own.

    An Array, and what its methods return, keeps the memory mapped. It speaks the
    protocols `__cuda_array_interface__` (device memory), `__array_interface__` (host
    memory) and DLPack (both). All elements are those of one allocation: nothing is copied.
    """

    def __init__(
        self,
        mapping: Mapping,
        dtype: Dtype,
        shape: tuple[int, ...],
        offset: int,
        strides: Optional[tuple[int, ...]] = None,
    ):
        self._mapping = mapping
        self._dtype = dtype
        self._shape = shape
        self._offset = offset
        self._strides = strides  # in elements; None: contiguous

    @property
    def dtype(self) -> str:
        """Name of the element type, as numpy and torch have it: "float32"."""
        return self._dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements in each dimension."""
        return self._shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance of neighbours in each dimension, in elements."""
        return contiguous(self._shape) if self._strides is None else self._strides

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self._shape) * self._dtype.size

    @property
    def pointer(self) -> int:
        """Address of the first element in this program."""
        return self._mapping.pointer + self._offset

    @property
    def device(self) -> Optional[int]:
        """The CUDA ordinal of the device in this program; None: host memory."""
        return self._mapping.device

    @property
    def writable(self) -> bool:
        """Whether the memory is mapped for writing."""
        return self._mapping.writable

    def __repr__(self) -> str:
        where = "host" if self.device is None else f"device {self.device}"
        return f"<gpumem.Array {self.dtype}{list(self.shape)} at {self.pointer:#x}, {where}>"

    # ---- protocols ----

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.device is None:
            raise AttributeError("host memory has no __cuda_array_interface__")
        pointer = self.pointer if self.nbytes else 0  # as its definition has it
        return {**self._interface(), "data": (pointer, not self.writable), "stream": None}

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self.device is not None:
            raise AttributeError("device memory has no __array_interface__")
        return self._interface()

    def _interface(self) -> dict[str, Any]:
        if self._dtype.typestr is None:
            raise AttributeError(f"array interfaces have no type {self.dtype}")
        return {
            "shape": self.shape,
            "strides": self._byte_strides(),
            "typestr": self._dtype.typestr,
            "data": (self.pointer, not self.writable),
            "version": 3,
        }

    def _byte_strides(self) -> Optional[tuple[int, ...]]:
        if self._strides is None:
            return None
        return tuple(step * self._dtype.size for step in self._strides)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_dlpack.CPU, 0) if self.device is None else (_dlpack.CUDA, self.device)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> object:
        """A capsule for the consumer. The memory is ready for every stream."""
        if copy:
            raise BufferError("gpumem copies nothing: copy the result")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the memory is on DLPack's device {self.__dlpack_device__()}")
        versioned = max_version is not None and max_version[0] >= 1
        if not (versioned or self.writable or self.device is not None):
            raise BufferError(
                "this consumer can't be told that the memory is for reading only: "
                "map it with write=True, or use .numpy()"
            )
        return _dlpack.offer(self, versioned)

    # ---- frameworks ----

    def view(self, dtype: Any) -> Array:
        """The same bytes as elements of another type of the same size."""
        element = find(dtype)
        if element.size != self._dtype.size:
            raise ValueError(
                f"{element.name} has {element.size} bytes, {self.dtype} {self._dtype.size}"
            )
        return Array(self._mapping, element, self._shape, self._offset, self._strides)

    def numpy(self) -> Any:
        """The elements as a numpy.ndarray (host memory)."""
        if self.device is not None:
            raise TypeError("numpy needs host memory (kind=host): use .torch() or .cupy()")
        if self._dtype.typestr is None:
            raise TypeError(f"numpy has no {self.dtype}: {self._instead()}")
        import numpy

        return numpy.asarray(self)

    def memoryview(self) -> memoryview:
        """The bytes as a flat memoryview (host memory)."""
        if self.device is not None:
            raise TypeError("a memoryview needs host memory (kind=host)")
        if self._strides is not None:
            raise TypeError("a memoryview has no strides: use .numpy()")
        memory: Any = (ctypes.c_ubyte * self.nbytes).from_address(self.pointer)
        memory._gpumem = self  # as long as there is a memoryview
        view = memoryview(memory).cast("B")
        return view if self.writable else view.toreadonly()

    def torch(self) -> Any:
        """The elements as a torch.Tensor, on the device or the host.

        torch knows no read-only tensors. A store to memory that is mapped for reading
        fails on a device with CUDA's error 700, and on the host with SIGSEGV.
        """
        import torch

        dtype = torch_dtype(self._dtype)
        if self.device is not None:
            torch.cuda.init()
        # Every version of torch takes bytes; many refuse bf16, fp8 or bool from DLPack.
        flat = Array(self._mapping, find("uint8"), (self._span(),), self._offset)
        tensor = torch.utils.dlpack.from_dlpack(_dlpack.offer(flat, False))
        return tensor.view(dtype).as_strided(self.shape, self.strides)

    def _span(self) -> int:
        """Bytes from the first element to the end of the last."""
        return span(self._shape, self.strides) * self._dtype.size

    def cupy(self) -> Any:
        """The elements as a cupy.ndarray (device memory)."""
        self._need_device("CuPy")
        import cupy

        memory = cupy.cuda.UnownedMemory(self.pointer, self._span(), self, self.device)
        pointer = cupy.cuda.MemoryPointer(memory, 0)
        return cupy.ndarray(self.shape, self.dtype, pointer, strides=self._byte_strides())

    def numba(self) -> Any:
        """The elements as a device array of numba.cuda (device memory)."""
        self._need_device("numba")
        from numba import cuda

        return cuda.as_cuda_array(self)

    def _need_device(self, framework: str) -> None:
        if self.device is None:
            raise TypeError(f"{framework} needs device memory: use .numpy() or .torch()")
        if self._dtype.typestr is None:
            raise TypeError(f"{framework} has no {self.dtype}: {self._instead()}")

    def _instead(self) -> str:
        return f"take .view(\"{'u8' if self._dtype.size == 1 else 'u16'}\") instead"


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of elements without holes, last index fastest, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Number of elements from the first to the end of the last."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(shape, strides))


def torch_dtype(dtype: Dtype) -> Any:
    """torch's own object for a type."""
    import torch

    found = getattr(torch, dtype.name, None)
    if found is None:
        raise TypeError(f"this torch ({torch.__version__}) has no {dtype.name}")
    return found


def make(mapping: Mapping, dtype: Any, shape: Shape, offset: int) -> Array:
    """Checks that the elements are inside of the allocation."""
    element = find(dtype)
    offset = operator.index(offset)
    if shape is None:
        n, rest = divmod(mapping.size - offset, element.size)
        if rest:
            raise ValueError(
                f"{mapping.size - offset} bytes are not a multiple of the {element.size} "
                f"of {element.name}: pass a shape"
            )
        shape = (n,)
    numbers: Any = (shape,) if hasattr(shape, "__index__") else shape
    lengths = tuple(map(operator.index, numbers))
    if offset < 0 or min(lengths, default=0) < 0:
        raise ValueError(f"shape {lengths} at offset {offset}: negative")
    if (end := offset + math.prod(lengths) * element.size) > mapping.size:
        raise ValueError(
            f"{element.name}{list(lengths)} at offset {offset} ends at byte {end}, outside "
            f"of the allocation's {mapping.size}"
        )
    if (mapping.pointer + offset) % element.size:
        raise ValueError(f"offset {offset} is not a multiple of {element.size} ({element.name})")
    return Array(mapping, element, lengths, offset)
