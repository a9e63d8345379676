# A MemPool of PyTorch on the memory of a mount:
#
#     GPUMEM_LIBGPUMEM=build-release/broker/client/libgpumem.so.0 python3 tests/gpu/torch_pool.py MOUNT
#
# on a machine with a GPU and PyTorch, where gpumemd serves MOUNT. Speaks TAP.
import gc
import os
import subprocess
import sys

mount = os.path.abspath(sys.argv[1])
os.environ["GPUMEM_MOUNT"] = mount
os.environ["GPUMEM_TORCH_NAME"] = "pool"

import torch

library = os.environ.get("GPUMEM_LIBGPUMEM", "libgpumem.so.0")
cases = []


def case(function):
    cases.append(function)
    return function


def segments():
    return sorted(name for name in os.listdir(mount + "/allocations")
                  if name.startswith("pool."))


def read(name, file):
    with open(f"{mount}/allocations/{name}/{file}") as opened:
        return opened.read().strip()


def data(name, length):
    with open(f"{mount}/allocations/{name}/data", "rb", buffering=0) as opened:
        return opened.read(length)


allocator = torch.cuda.memory.CUDAPluggableAllocator(
    library, "gpumem_torch_malloc", "gpumem_torch_free")


def pool():
    return torch.cuda.MemPool(allocator.allocator())


@case
def a_tensor_of_a_pool_is_an_allocation_of_the_mount():
    made = pool()
    with torch.cuda.use_mem_pool(made):
        tensor = torch.full((64 << 20,), 7, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    names = segments()
    assert len(names) == 1, names
    address, size = int(read(names[0], "address"), 0), int(read(names[0], "size_bytes"))
    assert address <= tensor.data_ptr() < address + size, (hex(tensor.data_ptr()), hex(address))
    offset = tensor.data_ptr() - address
    assert data(names[0], offset + 4096)[offset:] == b"\7" * 4096
    del tensor, made
    gc.collect()
    torch.cuda.empty_cache()
    assert segments() == [], segments()


@case
def a_line_changes_what_a_tensor_reads():
    made = pool()
    with torch.cuda.use_mem_pool(made):
        tensor = torch.zeros(32 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    with open(mount + "/control/fill", "w") as control:
        control.write(segments()[0] + " u8:9\n")
    assert int(tensor[0]) == 9 and int(tensor[-1]) == 9
    del tensor, made
    gc.collect()
    torch.cuda.empty_cache()


@case
def work_that_is_queued_is_done_before_its_memory_goes():
    for _ in range(20):
        made = pool()
        with torch.cuda.use_mem_pool(made):
            matrix = torch.ones(4096, 4096, device="cuda")
        for _ in range(20):
            product = matrix @ matrix
        del matrix, made
        gc.collect()
        torch.cuda.empty_cache()
        assert float(product[0, 0]) == 4096
        del product
    assert segments() == [], segments()


@case
def what_does_not_fit_is_out_of_memory_and_no_more():
    made = pool()
    try:
        with torch.cuda.use_mem_pool(made):
            torch.empty(1 << 48, dtype=torch.uint8, device="cuda")
        raise AssertionError("256 TiB fit")
    except torch.cuda.OutOfMemoryError:
        pass
    assert float(torch.ones(4, device="cuda").sum()) == 4


@case
def a_process_that_is_killed_leaves_nothing():
    script = f"""
import os, signal, torch
allocator = torch.cuda.memory.CUDAPluggableAllocator(
    {library!r}, "gpumem_torch_malloc", "gpumem_torch_free")
made = torch.cuda.MemPool(allocator.allocator())
with torch.cuda.use_mem_pool(made):
    tensor = torch.ones(64 << 20, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
assert any(n.startswith("pool.") for n in os.listdir({mount!r} + "/allocations"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", script], check=False)
    assert ended.returncode == -9, ended.returncode
    for _ in range(500):
        if not segments():
            return
        torch.cuda._sleep(10_000_000)
        torch.cuda.synchronize()
    raise AssertionError(segments())


failed = 0
print(f"1..{len(cases)}")
for number, function in enumerate(cases, 1):
    try:
        function()
        print(f"ok {number} - {function.__name__}", flush=True)
    except Exception as error:  # each case is told, whatever broke
        failed += 1
        print(f"not ok {number} - {function.__name__}\n# {type(error).__name__}: {error}", flush=True)
sys.exit(failed > 0)
