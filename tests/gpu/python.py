#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Python package with torch, CuPy and numba on a real GPU.

    GPUMEM_LIBRARY=build/broker/client/libgpumem.so.0 PYTHONPATH=tools/python \\
        python3 tests/gpu/python.py MOUNT

TAP on stdout; a framework that is not installed is a skip. Makes and frees allocations
called python-test*.
"""

import errno
import gc
import os
import subprocess
import sys
import time
import traceback

if __name__ == "__main__":
    os.environ["GPUMEM_MOUNT"] = os.path.abspath(sys.argv[1])

import gpumem

NAME = "python-test"
N = 1 << 20


class Skip(Exception):
    pass


def need(module):
    try:
        return __import__(module)
    except ImportError:
        raise Skip(f"{module} is not there") from None


def leases():
    with open(f"{os.environ['GPUMEM_MOUNT']}/allocations/{NAME}/leases") as file:
        return file.read()


def child(code):
    """Another program, with torch: its exit status and words."""
    result = subprocess.run(
        [sys.executable, "-c", f"import gpumem, torch\n{code}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return result.returncode, result.stdout


def test_torch_has_the_pointer_and_another_program_sees_its_stores():
    torch = need("torch")
    with gpumem.map(NAME, write=True) as m:
        t = m.torch("f32", (1024, 1024))
        assert t.is_cuda and t.data_ptr() == m.pointer == m.address
        assert not t.any().item()
        t.copy_(torch.arange(N, dtype=torch.float32, device="cuda").view(1024, 1024))
        torch.cuda.synchronize()
        status, said = child(
            f"m = gpumem.map('{NAME}'); t = m.torch('f32', {N})\n"
            f"assert t.data_ptr() == {m.pointer}\n"
            f"assert torch.equal(t, torch.arange({N}, dtype=torch.float32, device='cuda'))\n"
        )
        assert status == 0, said
        del t


def test_every_type_of_torch():
    torch = need("torch")
    with gpumem.map(NAME, write=True) as m:
        for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16",
                     "float32", "float64", "complex64", "float8_e4m3fn", "float8_e5m2"):
            t = m.torch(getattr(torch, name), (2, 3), 256)
            assert (t.dtype, t.shape) == (getattr(torch, name), (2, 3)), name
            assert t.data_ptr() == m.pointer + 256
        assert m.torch("f32", (0, 4)).shape == (0, 4)
        del t


def test_torch_takes_dlpack_and_the_array_interface():
    torch = need("torch")
    with gpumem.map(NAME, write=True) as m:
        a = m.array("f32", (4, 8), 64)
        for t in (torch.from_dlpack(a), torch.as_tensor(a, device="cuda")):
            assert t.data_ptr() == m.pointer + 64 and t.shape == (4, 8)
        del a, t


def test_frameworks_have_one_memory():
    torch, cupy = need("torch"), need("cupy")
    with gpumem.map(NAME, write=True) as m:
        t, c = m.torch("f32", N), m.cupy("f32", N)
        assert c.data.ptr == t.data_ptr() == m.pointer
        t.fill_(2)
        torch.cuda.synchronize()
        assert float(c.sum()) == 2 * N
        c[5] = 7
        cupy.cuda.Device(0).synchronize()
        assert t[5].item() == 7
        assert cupy.from_dlpack(m.array("f32", 8)).data.ptr == m.pointer
        assert cupy.asarray(m.array("f32", 8)).data.ptr == m.pointer
        del t, c


def test_numba_has_the_same_memory():
    torch = need("torch")
    need("numba")
    with gpumem.map(NAME, write=True) as m:
        t, n = m.torch("i32", N), m.numba("i32", N)
        assert n.device_ctypes_pointer.value == t.data_ptr() == m.pointer
        t.fill_(3)
        torch.cuda.synchronize()
        assert n[10:12].copy_to_host().tolist() == [3, 3]
        del t, n


def test_arrays_of_every_framework_outlive_the_map():
    for framework in ("torch", "cupy", "numba"):
        try:
            __import__(framework)
        except ImportError:
            continue
        with gpumem.map(NAME, write=True) as m:
            a = getattr(m, framework)("i32", 64)
        gpumem.collect()
        assert leases(), framework
        assert int(a[3]) == int(a[3]), framework
        del a
        gc.collect()
        gpumem.collect()
        assert not leases(), framework


def test_a_map_for_reading_is_not_written():
    need("torch")
    before = gpumem.command("control/fill", f"{NAME} u8:7")
    status, said = child(
        f"m = gpumem.map('{NAME}'); t = m.torch('u8')\n"
        "assert t[9].item() == 7\n"
        "t.fill_(1); torch.cuda.synchronize()\n"
    )
    assert status != 0 and "illegal memory access" in said, said
    with gpumem.map(NAME) as m:
        assert m.torch("u8")[9].item() == 7


def test_a_hold_with_a_stream_ends_when_the_work_is_done():
    torch = need("torch")
    stream = torch.cuda.Stream()
    with gpumem.map(NAME, write=True) as m:
        t = m.torch("u8")
        with torch.cuda.stream(stream), m.hold(write=True, stream=stream):
            torch.cuda._sleep(500_000_000)
            t.fill_(5)
        began = time.monotonic()
        gpumem.command("control/fill", f"{NAME} u8:6 length=1")
        waited = time.monotonic() - began
        assert t[:2].tolist() == [6, 5]
        print(f"# the fill waited {waited * 1000:.0f} ms")
        del t


def test_suspend_gives_the_memory_up_and_tensors_come_back():
    torch = need("torch")
    with gpumem.map(NAME, write=True) as m:
        t = m.torch("u8")
        t.fill_(4)
        m.suspend()
        assert not leases()
        m.resume()
        assert t[17].item() == 4
        del t


def test_host_memory_that_is_registered():
    torch = need("torch")
    gpumem.alloc(NAME + "-host", 1 << 20, kind="host")
    try:
        with gpumem.map(NAME + "-host", write=True, register=True) as m:
            t = m.torch("u8")
            t.fill_(3)
            assert t.cuda()[100].item() == 3
            del t
    finally:
        gpumem.free(NAME + "-host")


def test_a_thousand_tensors():
    torch = need("torch")
    with gpumem.map(NAME) as m:
        m.torch("f32", 16)
        began = time.perf_counter()
        all = [m.torch("f32", (4, 4), i * 256) for i in range(1000)]
        taken = time.perf_counter() - began
        print(f"# 1000 tensors: {taken * 1000:.2f} ms")
        del all


def test_a_pool_of_torch_is_in_the_mount():
    torch = need("torch")
    if not hasattr(torch.cuda, "MemPool"):
        raise Skip("this torch has no MemPool")
    with gpumem.torch_mempool("python-test-kv") as pool:
        t = torch.full((1 << 24,), 9, dtype=torch.uint8, device="cuda")
    assert "python-test-kv.0" in [a.name for a in gpumem.ls()]
    outside = torch.zeros(1 << 24, dtype=torch.uint8, device="cuda")
    assert len([a for a in gpumem.ls() if a.name.startswith("python-test-kv")]) == 1
    status, said = child("assert gpumem.map('python-test-kv.0').torch('u8')[99].item() == 9")
    assert status == 0, said
    del t, outside, pool
    gc.collect()
    torch.cuda.empty_cache()
    left = [a.name for a in gpumem.ls() if a.name.startswith("python-test-kv")]
    print(f"# segments after empty_cache: {left}")


def test_a_program_ends_well_with_tensors_alive():
    need("torch")
    status, said = child(
        f"m = gpumem.map('{NAME}', write=True); t = m.torch('f32'); torch.kept = t\n"
        "c = torch.from_dlpack(m.array('u8', 4)); g = m.__dlpack__(); print('end')\n"
    )
    assert (status, said) == (0, "end\n"), (status, said)


def main():
    tests = [(n, f) for n, f in globals().items() if n.startswith("test_")]
    print(f"1..{len(tests)}")
    failed = 0
    for number, (name, test) in enumerate(tests, 1):
        line = f"{number} - {name.removeprefix('test_')}"
        gpumem.alloc(NAME, 4 * N)
        try:
            test()
            print(f"ok {line}", flush=True)
        except Skip as reason:
            print(f"ok {line} # SKIP {reason}", flush=True)
        except Exception:
            failed += 1
            print(f"not ok {line}\n# " + traceback.format_exc().replace("\n", "\n# "), flush=True)
        finally:
            gpumem.free(NAME)
            gpumem.collect()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
