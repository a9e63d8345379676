# SPDX-License-Identifier: MIT
"""PyTorch's memory pools on a mount."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator, Optional

from ._library import library

# torch calls it as long as any of its memory is left, so it lives as long as the program.
_allocator: Optional[Any] = None


def _get_allocator() -> Any:
    global _allocator
    if _allocator is None:
        import torch

        _allocator = torch.cuda.memory.CUDAPluggableAllocator(
            library._name, "gpumem_torch_malloc", "gpumem_torch_free"
        )
    return _allocator


@contextlib.contextmanager
def torch_mempool(tag: Optional[str] = None) -> Iterator[Any]:
    """What torch allocates in this thread within the `with` is allocated in the mount.

        with gpumem.torch_mempool("kv"):
            cache = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")

    Each segment of torch is an allocation: TAG.0, TAG.1, ...; None: torch-PID.0, ...
    Tensors outlive the `with`, and the allocations end with the program. The mount is that
    of gpumem.map() without `mount`. The tag is of the whole program: threads that use two
    tags at once mix the names.

    Yields the torch.cuda.MemPool. Its memory goes back to the mount when its tensors and
    the pool are gone and torch empties its cache (torch.cuda.empty_cache()).
    """
    import torch

    pool = torch.cuda.MemPool(_get_allocator().allocator())
    before = os.environ.get("GPUMEM_TORCH_NAME")
    if tag is not None:
        os.environ["GPUMEM_TORCH_NAME"] = tag
    try:
        with torch.cuda.use_mem_pool(pool):
            yield pool
    finally:
        if before is not None:
            os.environ["GPUMEM_TORCH_NAME"] = before
        else:
            os.environ.pop("GPUMEM_TORCH_NAME", None)
