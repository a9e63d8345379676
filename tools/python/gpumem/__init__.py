# SPDX-License-Identifier: MIT
"""Memory of a gpumem mount in a Python program.

    import gpumem

    gpumem.alloc("x", "64M")
    with gpumem.map("x", write=True) as m:
        t = m.torch("f32", (4096, 4096))    # or .cupy(), .numba(); host memory: .numpy()
        t.fill_(1)

    m = gpumem.load("model.safetensors", "llama")   # the first program loads, others map
    model.load_state_dict(m.torch(), assign=True)
    gpumem.publish(model, "llama-tuned")

The pointer is the same in every program, and nothing is copied. Arrays keep their memory
mapped: after the `with` a map ends with its last array.

Every size and offset is in bytes. Functions that take `mount` use the mount at that path;
None is $GPUMEM_MOUNT, else the only mount of root's, or of the user's own, that the user may
enter. Errors are `gpumem.Error`, an OSError with the errno and the sentence of the broker.

The module needs libgpumem.so.0 (installed with gpumem) and nothing else. torch, CuPy,
numba and numpy are imported by the methods that make their arrays.
"""

from __future__ import annotations

from ._array import Array
from ._library import Error
from ._load import load
from ._map import Map, collect
from ._mount import Allocation, Mount, alloc, command, free, ls, map, open
from ._publish import publish
from ._tensors import Tensor
from ._torch import torch_mempool

__all__ = [
    "Allocation",
    "Array",
    "Error",
    "Map",
    "Mount",
    "Tensor",
    "alloc",
    "collect",
    "command",
    "free",
    "load",
    "ls",
    "map",
    "open",
    "publish",
    "torch_mempool",
]

__version__ = "0.1.0"
