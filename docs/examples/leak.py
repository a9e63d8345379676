# SPDX-License-Identifier: MIT
"""Ten steps of a job that forgets to free one of its two buffers, for gpumem-trace."""
import ctypes

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    error = getattr(cuda, name)(*args)
    if error:
        raise SystemExit(f"{name}: error {error}")


def allocate(size):
    pointer = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
    return pointer


context = ctypes.c_void_p()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
for step in range(10):
    batch, activations = allocate(4 << 20), allocate(1 << 20)
    call("cuMemFree_v2", batch)
