#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Python package with torch, CuPy, numba, safetensors and transformers on a real GPU.

    GPUMEM_LIBRARY=build/broker/client/libgpumem.so.0 PYTHONPATH=tools/python \\
        python3 tests/gpu/python.py MOUNT

TAP on stdout; a framework that is not installed is a skip. Makes and frees allocations
called python-test*.
"""

import errno
import gc
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback

if __name__ == "__main__":
    os.environ["GPUMEM_MOUNT"] = os.path.abspath(sys.argv[1])

import gpumem

NAME = "python-test"
MODEL = "python-test-model"
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


def start(code):
    """Another program, with torch."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import gpumem, torch\n{code}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def child(code):
    """Another program, with torch: its exit status and words."""
    program = start(code)
    said = program.communicate(timeout=300)[0]
    return program.returncode, said


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


def test_a_thousand_tensors_by_name_take_less_than_20_ms():
    torch = need("torch")
    w = torch.arange(1000, device="cuda", dtype=torch.bfloat16)
    gpumem.publish({f"layers.{i}.weight": w[i : i + 1].expand(8, 64) for i in range(1000)}, MODEL)
    gpumem.map(MODEL).torch()  # its device has been used
    gpumem.collect()
    began = time.perf_counter()
    m = gpumem.map(MODEL)
    mapped = time.perf_counter()
    d = m.torch()
    taken = time.perf_counter() - mapped
    print(f"# map: {(mapped - began) * 1000:.2f} ms, 1000 tensors: {taken * 1000:.2f} ms")
    assert taken < 0.020, taken
    assert all(torch.equal(d[f"layers.{i}.weight"], w[i].expand(8, 64)) for i in (0, 1, 999))


def of_every_type(torch):
    """Tensors of all types and layouts, by name."""
    found = {}
    for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
                 "float16", "bfloat16", "float32", "float64", "complex64", "float8_e4m3fn",
                 "float8_e5m2", "float8_e8m0fnu"):
        if dtype := getattr(torch, name, None):
            bits = torch.randint(0, 2, (3, 8, dtype.itemsize), dtype=torch.uint8, device="cuda")
            found[name] = bits.view(dtype).view(3, 8)
    whole = torch.rand(6, 8, device="cuda")
    return {**found, "whole": whole, "tied": whole, "row": whole[2], "column": whole[:, 2],
            "transposed": whole.clone().t(), "spread": whole[0, 0].expand(2, 2),
            "empty": whole[:0], "scalar": whole[1, 1], "on the host": torch.rand(3, 4).t(),
            "last": torch.rand(2, 4, 6, 8, device="cuda").contiguous(memory_format=torch.channels_last)}


def assert_same(torch, got, expected):
    assert list(got) == list(expected)
    for name, tensor in expected.items():
        a, b = got[name], tensor.cuda()
        assert a.is_cuda and (a.dtype, a.shape) == (b.dtype, b.shape), name
        assert torch.equal(a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8)), name


def test_tensors_of_every_type_are_published():
    torch = need("torch")
    tensors = of_every_type(torch)
    for kind in ("device", "host"):
        gpumem.publish(tensors, MODEL, kind=kind)
        with gpumem.map(MODEL) as m:
            d = m.torch()
            assert_same(torch, {name: t.cuda() for name, t in d.items()}, tensors)
            assert (m.tensors["tied"].alias, d["tied"].data_ptr()) == ("whole", d["whole"].data_ptr())
            assert d["transposed"].stride() == (1, 8) and d["column"].stride() == (1,)
            assert d["last"].is_contiguous(memory_format=torch.channels_last)
            assert {t.offset % 256 for t in m.tensors.values()} == {0}
            assert all(torch.equal(m[n].torch().view(-1).view(torch.uint8), d[n].view(-1).view(torch.uint8))
                       for n in ("bool", "bfloat16", "float8_e4m3fn", "whole"))
            del d
        gpumem.collect()


def test_a_model_with_a_meta_tensor_is_refused():
    torch = need("torch")
    for bad in (torch.rand(2, device="meta"), torch.rand(2, dtype=torch.complex128, device="cuda")):
        try:
            gpumem.publish({"w": torch.ones(2, device="cuda"), "bad": bad}, MODEL)
        except TypeError as error:
            assert "'bad' can't be published" in str(error)
        else:
            raise AssertionError("published")
    assert MODEL not in [a.name for a in gpumem.ls()]


def test_tensors_by_name_for_cupy_and_numba():
    torch, cupy = need("torch"), need("cupy")
    need("numba")
    w = torch.rand(4, 6, device="cuda")
    gpumem.publish({"w": w, "t": w.clone().t(), "h": w.bfloat16()}, MODEL)
    with gpumem.map(MODEL) as m:
        assert cupy.array_equal(m["w"].cupy(), cupy.asarray(w)) and m["w"].cupy().data.ptr == m["w"].pointer
        assert cupy.array_equal(m["t"].cupy(), cupy.asarray(w).T) and m["t"].cupy().strides == (4, 24)
        assert cupy.array_equal(cupy.from_dlpack(m["t"]), cupy.asarray(w).T)
        assert m["w"].numba().copy_to_host().tolist() == w.tolist()
        assert m["t"].numba().copy_to_host().tolist() == w.t().tolist()
        assert m["h"].view("u16").cupy().shape == (4, 6)
        assert torch.equal(torch.from_dlpack(m["t"]), w.t())
        assert torch.equal(m["t"].torch(), w.t())


def test_a_file_of_safetensors_is_loaded_once():
    torch = need("torch")
    need("safetensors")
    from safetensors.torch import load_file, save_file

    tensors = {n: t.contiguous().clone() for n, t in of_every_type(torch).items()}
    for name in ("complex64", "float8_e8m0fnu"):  # not in every version of safetensors
        tensors.pop(name, None)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        save_file(tensors, path, {"format": "pt"})
        with gpumem.load(path, MODEL) as m:
            assert_same(torch, m.torch(), load_file(path))
            id = m.id
        code = f"m = gpumem.load({path!r}, {MODEL!r}); assert m.id == {id} and len(m.torch()) == {len(tensors)}"
        assert child(code) == (0, "")
        save_file({"w": torch.ones(3)}, path)
        with gpumem.load(path, MODEL) as m:
            assert m.id != id and m.torch()["w"].tolist() == [1, 1, 1]


LLAMA = """
import time, torch, transformers
def build():
    torch.set_default_dtype(torch.bfloat16)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=8000, hidden_size=512, intermediate_size=1408, num_hidden_layers=4,
        num_attention_heads=8, num_key_value_heads=2, tie_word_embeddings=True)).eval()
    torch.set_default_dtype(torch.float32)
    model.tie_weights()
    return model
def logits(model):
    ids = torch.arange(64, device="cuda").view(2, 32) * 7 % 8000
    with torch.no_grad():
        return model(input_ids=ids).logits
"""


def test_a_model_of_transformers_is_published_by_one_process_and_used_by_two_others():
    torch = need("torch")
    need("transformers")
    with tempfile.TemporaryDirectory() as folder:
        first = (
            f"{LLAMA}\ntorch.manual_seed(1); model = build().cuda()\n"
            f"torch.save(logits(model), '{folder}/logits')\n"
            f"gpumem.publish(model, {MODEL!r})\n"
        )
        status, said = child(first)
        assert status == 0, said
        second = (
            f"{LLAMA}\nmodel = build(); torch.zeros(1).cuda()\n"
            f"began = time.perf_counter(); m = gpumem.map({MODEL!r})\n"
            "model.load_state_dict(m.torch(), assign=True); taken = time.perf_counter() - began\n"
            "model.cuda()  # its buffers that are not published\n"
            "inside = range(m.pointer, m.pointer + m.size)\n"
            "assert all(p.data_ptr() in inside for p in model.parameters())\n"
            "assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()\n"
            f"assert torch.equal(logits(model), torch.load('{folder}/logits'))\n"
            "print(f'{m.size >> 20} MiB ready after {taken * 1000:.1f} ms', end='')\n"
        )
        programs = [start(second) for _ in range(2)]
        for program in programs:
            said = program.communicate(timeout=300)[0]
            assert program.returncode == 0, said
            print(f"# a model of transformers: {said.splitlines()[-1]}")


def test_the_snippets_of_the_documentation_run():
    torch = need("torch")
    need("safetensors")
    from safetensors.torch import save_file

    with open(f"{os.path.dirname(os.path.abspath(__file__))}/../../docs/python.md") as file:
        blocks = re.findall(r"(?:^    .+\n|^\n(?=    ))+", file.read(), re.MULTILINE)
    assert len(blocks) >= 7, blocks
    model = torch.nn.Linear(8, 8)
    known = {"torch": torch, "model": model, "tensor": torch.ones(3), "array": need("numpy").ones(3)}
    before, here = {a.name for a in gpumem.ls()}, os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            save_file(model.state_dict(), "model.safetensors")
            for block in map(textwrap.dedent, blocks):
                block = block.replace("/mnt/gpu", os.environ["GPUMEM_MOUNT"])
                if "cupy" in block:  # "another program"
                    del known["m"], known["t"]
                if "m.hold" in block:
                    known["m"] = gpumem.map("x", write=True, any_address=True)
                    known["t"] = known["m"].torch("f32")
                exec(compile(block, f"docs/python.md: {block}", "exec"), known)
        finally:
            os.chdir(here)
            known.clear()
            gc.collect()
            for name in {a.name for a in gpumem.ls()} - before:
                if not name.startswith("kv."):
                    gpumem.free(name)


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
            for a in gpumem.ls():
                if a.name in (NAME, MODEL):
                    gpumem.free(a.name)
            gpumem.collect()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
