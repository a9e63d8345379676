# SPDX-License-Identifier: MIT
"""Tensors, loading and publishing in Python, on a real mount: tensors.py NAME runs test_NAME,
as cases.py does."""

import builtins
import ctypes
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import gpumem
from cases import bytes_at, eventually, need, patch, python, raises, read, run, skip


def rule(*rules):
    """What the software GPU does wrong from now on: the options of tools/softgpu/options.h."""
    file = re.search(r"control=([^:]*)", os.environ.get("GPUMEM_SOFTGPU", ""))
    if file is None:
        raise skip("needs the software GPU: it can be told to go wrong")
    with open(file[1] + ".new", "w") as new:
        new.write("".join(line + "\n" for line in rules))
    os.rename(file[1] + ".new", file[1])


def by(uid, function):
    """Another user's turn."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            function()
            status = 0
        except BaseException:
            traceback.print_exc()
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def header(rows):
    text = json.dumps(rows).encode()
    return text + b" " * (-len(text) % 8)


def safetensors(path, arrays, **metadata):
    """Writes a file as the library safetensors does: {name: numpy array or (dtype, shape,
    bytes)}. Returns the bytes of all tensors."""
    rows, data = {"__metadata__": metadata} if metadata else {}, b""
    names = {"f4": "F32", "f2": "F16", "i8": "I64", "u1": "U8", "b1": "BOOL"}
    for name, array in arrays.items():
        if not isinstance(array, tuple):
            array = names[array.dtype.str[1:]], array.shape, array.tobytes()
        dtype, shape, content = array
        rows[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = header(rows)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)
    return data


def model(numpy, seed=1):
    random = numpy.random.default_rng(seed)
    return {
        "a.weight": random.random((64, 48), dtype="f4"),
        "a.bias": random.random(48, dtype="f4").astype("f2"),
        "b": random.integers(0, 9, (3, 5)),
        "scalar": numpy.array(2.5, dtype="f4"),
        "mask": numpy.array([True, False]),
    }


def same(numpy, got, expected):
    assert list(got) == list(expected), list(got)
    for name, array in expected.items():
        assert got[name].dtype == array.dtype and got[name].shape == array.shape, name
        assert numpy.array_equal(got[name], array), name


def arrays_of(numpy, m):
    """Copies of all tensors, in device memory as `data` has them."""
    if m.device is None:
        return {name: m[name].numpy().copy() for name in m}
    found = {}
    for name, t in m.tensors.items():
        content = numpy.frombuffer(bytes_at(m.name, t.offset, t.nbytes), m[name].dtype)
        strides = tuple(step * content.itemsize for step in t.strides)
        found[name] = numpy.lib.stride_tricks.as_strided(content, t.shape, strides)
    return found


def upload(name, rows):
    with open(f"allocations/{name}/tensors", "wb") as file:
        file.write(header(rows))


def test_tensors_of_an_allocation_are_arrays():
    numpy = need("numpy")
    gpumem.alloc("h", 4096, kind="host")
    patch("h", 0, numpy.arange(24, dtype="f4").tobytes())
    upload("h", {
        "__metadata__": {"format": "pt"},
        "w": {"dtype": "F32", "shape": [4, 6], "data_offsets": [0, 96], "kind": "parameter"},
        "t": {"dtype": "F32", "shape": [6, 4], "strides": [1, 6], "data_offsets": [0, 96], "alias": "w"},
        "h": {"dtype": "BF16", "shape": [8], "data_offsets": [256, 272], "kind": "buffer"},
        "f": {"dtype": "F8_E4M3", "shape": [2, 2], "data_offsets": [272, 276]},
        "none": {"dtype": "I64", "shape": [0, 3], "data_offsets": [512, 512]},
    })
    with gpumem.map("h", write=True) as m:
        w, t = m.tensors["w"], m.tensors["t"]
        assert (w.dtype, w.shape, w.strides, w.offset, w.nbytes) == ("F32", (4, 6), (6, 1), 0, 96)
        assert (w.kind, w.alias, t.strides, t.alias) == ("parameter", None, (1, 6), "w")
        assert m.metadata == {"format": "pt"} and "w" in m and "x" not in m
        assert list(m) == list(m.keys()) == ["w", "t", "h", "f", "none"]
        a = m["w"].numpy()
        assert a[3, 5] == 23 and a.ctypes.data == m.pointer
        b = m["t"].numpy()
        assert b[5, 3] == 23 and b.strides == (4, 24)
        assert numpy.array_equal(numpy.from_dlpack(m["t"]), a.T)
        assert m["h"].pointer == m.pointer + 256 and m["h"].dtype == "bfloat16"
        assert m["h"].view("u16").numpy().shape == (8,) and m["none"].numpy().shape == (0, 3)
        assert m["f"].view("u8").numpy().sum() == 0
        with raises(TypeError, r"numpy has no bfloat16: take .view\(\"u16\"\)"):
            m["h"].numpy()
        with raises(TypeError, "no strides"):
            m["t"].memoryview()
        with raises(ValueError, "uint8 has 1 bytes, bfloat16 2"):
            m["h"].view("u8")
        with raises(KeyError, "x"):
            m["x"]
        with raises(TypeError, "does not support item assignment"):
            m.tensors["x"] = w
        del a, b


def test_tensors_of_device_memory_have_array_interfaces():
    gpumem.alloc("x", "4M")
    upload("x", {
        "w": {"dtype": "F16", "shape": [4, 6], "data_offsets": [256, 304]},
        "t": {"dtype": "F16", "shape": [6, 4], "strides": [1, 6], "data_offsets": [256, 304]},
    })
    with gpumem.map("x") as m:
        w, t = m["w"].__cuda_array_interface__, m["t"].__cuda_array_interface__
        assert w["data"] == t["data"] == (m.pointer + 256, True) and w["typestr"] == "<f2"
        assert (w["shape"], w["strides"], t["shape"], t["strides"]) == ((4, 6), None, (6, 4), (2, 12))
        assert m["t"].__dlpack_device__() == (2, 0)


def test_an_allocation_without_tensors_says_so():
    gpumem.alloc("h", 4096, kind="host")
    with gpumem.map("h") as m:
        assert dict(m.tensors) == {} == dict(m.metadata) and list(m) == []
        with raises(ValueError, r"h has no tensors: pass a type, as in torch\('f32'\)"):
            m.torch()


def test_tensors_are_those_of_the_mapped_allocation():
    for name in "xyz":
        gpumem.alloc(name, 4096, kind="host")
        upload(name, {"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})
    x, y, z = (gpumem.map(name) for name in "xyz")
    gpumem.free("x")
    with raises(errno.ESTALE, "x has been freed, and its tensors with it"):
        x.tensors
    gpumem.free("y")
    gpumem.alloc("y", 8192, kind="host")
    with raises(errno.ESTALE, "y is another allocation now"):
        y.tensors
    os.rename("allocations/z", "allocations/renamed")
    assert list(z) == ["w"]


def test_a_table_of_tensors_that_lies_is_not_believed():
    from gpumem import _tensors

    def refused(row, sentence="."):
        with raises(ValueError, sentence):
            _tensors.parse(header({"w": row}), 64)

    good = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    _tensors.parse(header({"w": good}), 64)
    refused({**good, "shape": [3]}, r"F32\[3\] are not 8 bytes")
    refused({**good, "shape": [-1]}, "negative")
    refused({**good, "shape": [-1, -2]}, "negative")
    refused({**good, "shape": [2] + [1] * 64}, "65 dimensions")
    refused({**good, "shape": ["2"]})
    refused({**good, "shape": [[2]]})
    refused({**good, "shape": [None]})
    refused({**good, "shape": [1.5]})
    refused({**good, "shape": [True]})
    refused({**good, "shape": 2})
    refused({**good, "strides": [2]}, "are not 8 bytes")
    refused({**good, "strides": [None]})
    refused({**good, "shape": [3, 2], "strides": [-1, 3]})
    refused({**good, "data_offsets": ["0", "8"]})
    refused({**good, "strides": [1, 1]})
    refused({**good, "strides": [-1]})
    refused({**good, "data_offsets": [0, 65]}, "outside of the 64")
    refused({**good, "data_offsets": [8, 0]})
    refused({**good, "data_offsets": [0]})
    refused({"shape": [2], "data_offsets": [0, 8]})
    refused([])
    refused(None)
    for text in (b"[]", b"7", b"{", b"\xff", b'{"__metadata__": 7}', b"[" * 100000):
        with raises(ValueError):
            _tensors.parse(text, 64)


def test_torch_has_all_tensors_by_name():
    torch = need("torch")
    gpumem.alloc("h", 4096, kind="host")
    upload("h", {
        "w": {"dtype": "F32", "shape": [4, 6], "data_offsets": [0, 96]},
        "tied": {"dtype": "F32", "shape": [4, 6], "data_offsets": [0, 96], "alias": "w"},
        "t": {"dtype": "F32", "shape": [6, 4], "strides": [1, 6], "data_offsets": [0, 96]},
        "h": {"dtype": "BF16", "shape": [8], "data_offsets": [256, 272]},
        "m": {"dtype": "BOOL", "shape": [3], "data_offsets": [273, 276]},
        "s": {"dtype": "I64", "shape": [], "data_offsets": [4088, 4096]},
        "none": {"dtype": "F16", "shape": [0, 3], "data_offsets": [4096, 4096]},
    })
    with gpumem.map("h", write=True) as m:
        d = m.torch()
        assert list(d) == list(m.tensors)
        d["w"].copy_(torch.arange(24).view(4, 6))
        assert d["tied"][3, 5] == d["t"][5, 3] == 23 and d["w"].data_ptr() == m.pointer
        assert (d["t"].stride(), d["h"].dtype, d["m"].dtype) == ((1, 6), torch.bfloat16, torch.bool)
        assert d["m"].data_ptr() == m.pointer + 273 and d["s"].shape == () and d["none"].shape == (0, 3)
        assert torch.equal(m["t"].torch(), d["w"].t()) and m["h"].torch().shape == (8,)
    gpumem.collect()
    assert read("leases") != ""
    del d
    gpumem.collect()
    assert read("leases") == ""
    upload("h", {"w": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]}})
    with gpumem.map("h") as m:
        with raises(ValueError, "w: offset 2 is not a multiple of 4"):
            m.torch()


# ---- loading ----


def test_a_file_is_loaded_once_and_then_mapped():
    numpy = need("numpy")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        safetensors(path, model(numpy), format="pt")
        for kind in ("host", "device"):
            name = f"llama-{kind}"
            with gpumem.load(path, name, kind=kind, tag="v1", mode=0o640) as m:
                id = m.id
                assert (m.kind, m.state, m.name, m.writable) == (kind, "live", name, False)
                assert (m.metadata["format"], m.metadata["gpumem.source"]) == ("pt", os.path.realpath(path))
                same(numpy, arrays_of(numpy, m), model(numpy))
            made = next(a for a in gpumem.ls() if a.name == name)
            assert (made.tag, made.mode, made.status["sealed"]) == ("v1", 0o640, "1")
            with gpumem.load(path, name) as m:
                assert m.id == id
                same(numpy, arrays_of(numpy, m), model(numpy))
            status, said = python(
                "import gpumem; m = gpumem.load(%r, %r); assert m.id == %d" % (path, name, id)
            )
            assert (status, said) == (0, "")
        assert [a.name for a in gpumem.ls()] == ["llama-device", "llama-host"]
        with raises(errno.EPERM, "sealed"):
            gpumem.map(name, write=True)
        gpumem.load(os.path.relpath(path), name).close()


def test_a_cell_that_loads_or_publishes_runs_twice():
    numpy = need("numpy")
    arrays = model(numpy)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        safetensors(path, arrays)
        for _ in range(2):
            m = gpumem.load(path, "llama", kind="host")
        same(numpy, arrays_of(numpy, m), arrays)
        for _ in range(2):
            gpumem.publish(arrays, "mine", kind="host")
            n = gpumem.map("mine")
            assert n.state == "live" and n.pointer == n.address
        same(numpy, arrays_of(numpy, n), arrays)
        gpumem.collect()
        assert read("leases").count("\n") == 2
        m.close()
        n.close()
    assert read("leases") == ""


def test_a_path_may_have_any_bytes():
    numpy = need("numpy")
    with tempfile.TemporaryDirectory() as folder:
        path = os.fsencode(folder) + "/a b\tc\nd\\040\\é=#\"'".encode() + b"\xff.safetensors"
        safetensors(path, model(numpy))
        with gpumem.load(os.fsdecode(path), "llama", kind="host") as m:
            same(numpy, arrays_of(numpy, m), model(numpy))


def test_a_container_with_other_files_than_the_brokers_loads():
    numpy = need("numpy")
    if os.getuid() != 0:
        raise skip("needs root: a mount namespace")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        # No shell mounts the folder: shells crash with GCC 12's thread sanitizer preloaded.
        code = (
            "import subprocess, sys; sys.path.insert(0, %r)\n"
            "subprocess.run(['mount', '-t', 'tmpfs', 'none', %r], check=True)\n"
            "import gpumem, numpy, tensors\n"
            "tensors.safetensors(%r, tensors.model(numpy))\n"
            "for kind in ('host', 'device'):\n"
            "    with gpumem.load(%r, kind, kind=kind) as m:\n"
            "        tensors.same(numpy, tensors.arrays_of(numpy, m), tensors.model(numpy))\n"
            % (os.path.dirname(__file__), folder, path, path)
        )
        result = subprocess.run(
            ["unshare", "--mount", sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert (result.returncode, result.stdout) == (0, ""), result
        assert os.listdir(folder) == []


def test_a_file_that_has_changed_is_loaded_again_and_readers_keep_the_old_one():
    numpy = need("numpy")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        safetensors(path, model(numpy))
        with gpumem.load(path, "llama", kind="host") as old:
            times = os.stat(path)
            safetensors(path, model(numpy, seed=2))
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            assert os.stat(path).st_size == times.st_size
            with gpumem.load(path, "llama", kind="host") as new:
                assert new.id != old.id and old.state == "replaced"
                same(numpy, arrays_of(numpy, new), model(numpy, seed=2))
            same(numpy, arrays_of(numpy, old), model(numpy))
        safetensors(f"{folder}/new", model(numpy, seed=3))
        os.rename(f"{folder}/new", path)
        with gpumem.load(path, "llama", kind="host") as newer:
            same(numpy, arrays_of(numpy, newer), model(numpy, seed=3))
        assert [a.name for a in gpumem.ls()] == ["llama"]


def test_programs_that_load_at_once_load_once():
    numpy = need("numpy")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        safetensors(path, {"w": numpy.arange(1 << 20, dtype="f4")})
        rule("delay=cuMemcpyHtoDAsync_v2@*=200ms")
        code = (
            "import gpumem; m = gpumem.load(%r, 'llama')\n"
            "print(m.id, m.tensors['w'].shape[0], m['w'].pointer == m.address)" % path
        )
        programs = [
            subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
            for _ in range(6)
        ]
        said = {program.communicate(timeout=50)[0] for program in programs}
        rule()
        assert len(said) == 1 and said.pop().endswith(f" {1 << 20} True\n"), said
        assert [a.name for a in gpumem.ls()] == ["llama"]
        assert bytes_at("llama", 4 << 18, 4) == numpy.float32(1 << 18).tobytes()


def test_threads_that_load_at_once_load_once():
    numpy = need("numpy")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        safetensors(path, model(numpy))
        maps, failures = [], []

        def work():
            try:
                maps.append(gpumem.load(path, "llama", kind="host", any_address=True))
            except BaseException:
                failures.append(traceback.format_exc())

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures[0]
        assert len({m.id for m in maps}) == 1 and len(maps) == 8
        for m in maps:
            same(numpy, arrays_of(numpy, m), model(numpy))


def test_a_loader_that_is_killed_half_way_leaves_nothing_and_the_next_one_loads():
    numpy = need("numpy")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        safetensors(path, {"w": numpy.arange(4 << 20, dtype="f4")})
        rule("delay=cuMemcpyHtoDAsync_v2@*=300ms")
        code = "import gpumem; gpumem.load(%r, 'llama')" % path
        loader = subprocess.Popen([sys.executable, "-c", code])
        eventually(lambda: os.path.exists("allocations/llama.part"))
        eventually(lambda: "busy" in read("allocations/llama.part/state"))
        loader.kill()
        loader.wait()
        rule()
        with gpumem.load(path, "llama") as m:
            assert m.tensors["w"].shape == (4 << 20,)
            assert bytes_at("llama", 4 * 3145728, 4) == numpy.float32(3145728).tobytes()
        assert [a.name for a in gpumem.ls()] == ["llama"]


def test_ctrl_c_ends_a_load_and_leaves_nothing():
    numpy = need("numpy")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        safetensors(path, {"w": numpy.arange(4 << 20, dtype="f4")})
        rule("delay=cuMemcpyHtoDAsync_v2@*=300ms")
        code = "import gpumem; gpumem.load(%r, 'llama')" % path
        loader = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
        eventually(lambda: os.path.exists("allocations/llama.part"))
        eventually(lambda: "busy" in read("allocations/llama.part/state"))
        loader.send_signal(signal.SIGINT)
        said = loader.communicate(timeout=30)[1]
        rule()
        assert loader.returncode != 0 and "KeyboardInterrupt" in said, said
        eventually(lambda: gpumem.ls() == [])


def test_signals_in_passing_do_not_end_a_load():
    numpy = need("numpy")
    seen = []
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        safetensors(path, {"w": numpy.arange(1 << 18, dtype="f4")})
        rule("delay=cuMemcpyHtoDAsync_v2@*=300ms")
        signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        gpumem.load(path, "llama").close()
        signal.setitimer(signal.ITIMER_REAL, 0)
        rule()
    assert seen and signal.SIGALRM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_loader_that_does_not_end_is_waited_for_as_long_as_one_likes():
    numpy = need("numpy")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        safetensors(path, model(numpy))
        with gpumem.open() as other:
            other.alloc("llama.part", 4096, until="close")
            with raises(errno.ETIMEDOUT, "llama is being loaded by another program, of uid"):
                gpumem.load(path, "llama", timeout=0.1)
            found = []
            waiting = threading.Thread(
                target=lambda: found.append(gpumem.load(path, "llama", kind="host", timeout=None))
            )
            waiting.start()
            time.sleep(0.1)
        waiting.join()
        same(numpy, arrays_of(numpy, found[0]), model(numpy))


def test_the_part_of_a_stranger_is_not_waited_for():
    if os.getuid() != 0:
        raise skip("needs root: several users")

    def refused(path, sentence, **options):
        begin = time.monotonic()
        with raises(errno.EEXIST, sentence):
            gpumem.load(path, "llama", kind="host", timeout=20, **options)
        assert time.monotonic() - begin < 10

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = f"{folder}/model.safetensors"
        content = safetensors(path, {"w": ("U8", [8], b"12345678")})
        by(4001, lambda: os.mkdir("allocations/llama.part"))
        for options in ({}, {"trust": [4001]}):
            by(4002, lambda: refused(path, "llama.part is a folder of uid 4001", **options))
        os.rmdir("allocations/llama.part")

        by(4001, lambda: gpumem.alloc("llama.part", 4096, kind="host"))
        stranger = r"llama.part is there already, and belongs to uid 4001: .*trust=\[4001\]"
        by(4002, lambda: refused(path, stranger))
        refused(path, stranger)

        def timed_out(**options):
            with raises(errno.ETIMEDOUT, "llama is being loaded by another program, of uid 4001"):
                gpumem.load(path, "llama", kind="host", timeout=0.1, **options)

        by(4001, timed_out)
        by(4002, lambda: timed_out(trust=[4001]))
        os.chown(path, 4001, -1)
        by(4002, timed_out)
        os.chown(path, 0, -1)
        os.rmdir("allocations/llama.part")

        # A stranger's follows one that is waited for.
        gpumem.alloc("llama.part", 4096, kind="host")
        by(4001, lambda: gpumem.alloc("other", 4096, kind="host"))

        def follow():
            os.rename("allocations/llama.part", "allocations/old")
            os.rename("allocations/other", "allocations/llama.part")

        following = threading.Timer(0.2, follow)
        following.start()
        try:
            refused(path, stranger)
        except gpumem.Error as error:
            raise AssertionError(error) from None
        following.join()
        # Nothing follows it.
        freeing = threading.Timer(0.2, lambda: os.rmdir("allocations/llama.part"))
        freeing.start()
        with gpumem.load(path, "llama", kind="host", trust=[4001]) as m:
            assert bytes(m.memoryview()) == content
        freeing.join()


def test_a_part_that_vanishes_between_two_looks_is_no_error():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        content = safetensors(path, {"w": ("U8", [8], b"12345678")})
        gpumem.alloc("llama.part", 4096, kind="host")
        alloc = gpumem.Mount.alloc

        def late(mount, *arguments, **keys):
            try:
                return alloc(mount, *arguments, **keys)
            except gpumem.Error:
                os.rmdir("allocations/llama.part")
                raise

        gpumem.Mount.alloc = late
        with gpumem.load(path, "llama", kind="host", timeout=0) as m:
            assert bytes(m.memoryview()) == content


def test_a_file_that_changes_while_it_is_loaded_is_not_published():
    numpy = need("numpy")
    command = gpumem.Mount.command

    def changes(how):
        def changed(mount, file, line):
            answer = command(mount, file, line)
            if file == "control/load":
                how(path)
            return answer

        return changed

    def patched(path):
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\7")

    def replaced(path):
        shutil.copy2(path, path + ".new")
        os.rename(path + ".new", path)

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        for how in (patched, replaced, os.unlink, lambda path: os.truncate(path, 100)):
            safetensors(path, model(numpy))
            gpumem.Mount.command = changes(how)
            with raises(errno.EAGAIN, "model.safetensors has changed while it was loaded: nothing"):
                gpumem.load(path, "llama")
            gpumem.Mount.command = command
            eventually(lambda: gpumem.ls() == [])


def test_another_file_that_is_there_for_a_moment_is_not_loaded():
    """Its folder is renamed, and renamed back."""
    numpy = need("numpy")
    command = gpumem.Mount.command
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/here/model.safetensors"
        for place in ("here", "there"):
            os.mkdir(f"{folder}/{place}")
            safetensors(f"{folder}/{place}/model.safetensors", model(numpy))

        def exchange():
            os.rename(f"{folder}/here", f"{folder}/away")
            os.rename(f"{folder}/there", f"{folder}/here")
            os.rename(f"{folder}/away", f"{folder}/there")

        def exchanged(mount, file, line):
            if file != "control/load":
                return command(mount, file, line)
            exchange()
            try:
                return command(mount, file, line)
            finally:
                exchange()

        gpumem.Mount.command = exchanged
        with raises(errno.ESTALE, "model.safetensors is another file"):
            gpumem.load(path, "llama")
        gpumem.Mount.command = command
        eventually(lambda: gpumem.ls() == [])


def test_a_file_that_shrinks_half_way_is_not_published():
    numpy = need("numpy")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        safetensors(path, {"w": numpy.zeros(64 << 20, dtype="u1")})
        rule("delay=cuMemcpyHtoDAsync_v2@*=200ms")

        def shrink():
            eventually(lambda: os.path.exists("allocations/llama.part/progress"))
            eventually(lambda: read("allocations/llama.part/progress") != "none\n")
            os.truncate(path, 1 << 20)

        shrinking = threading.Thread(target=shrink)
        shrinking.start()
        with raises(errno.EAGAIN, "model.safetensors has changed while it was loaded"):
            gpumem.load(path, "llama")
        shrinking.join()
        rule()
        eventually(lambda: gpumem.ls() == [])
        with raises(ValueError, "is cut off"):
            gpumem.load(path, "llama")


def test_files_that_are_not_safetensors_are_refused():
    numpy = need("numpy")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        whole = safetensors(path, model(numpy)) and open(path, "rb").read()
        rows = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}

        def refused(content, sentence):
            with open(path, "wb") as file:
                file.write(content)
            with raises(ValueError, "model.safetensors is not a safetensors file: .*" + sentence):
                gpumem.load(path, "llama")

        def file_of(rows, data=bytes(8)):
            text = rows if isinstance(rows, bytes) else header(rows)
            return len(text).to_bytes(8, "little") + text + data

        refused(b"", "does not begin with a header.*control/load")
        refused(b"PK\3\4" + bytes(5000), "does not begin with a header")
        refused(b"hello, world\n", "does not begin with a header")
        refused(b"\xff" * 64, "does not begin with a header")
        refused(whole[:100], "does not begin with a header")
        refused(whole[:-1], "is cut off: its tensors end at byte")
        refused(file_of(b"{nonsense}"), "its header is wrong")
        refused(file_of(b"{}      "), "it has no tensors")
        refused(file_of({"w": 7}), "its header is wrong")
        refused(file_of({"w": {**rows["w"], "shape": [3]}}), "are not 8 bytes")
        refused(file_of({"w": {**rows["w"], "shape": [20], "data_offsets": [0, 80]}}), "is cut off")
        with raises(FileNotFoundError):
            gpumem.load(f"{folder}/nosuch", "llama")
        safetensors(path, model(numpy))
        for name in ("../x", "a b", "", ".", "x" * 65):
            with raises(errno.EINVAL, "is not the name of an allocation"):
                gpumem.load(path, name)
            with raises(errno.EINVAL, "is not the name of an allocation"):
                gpumem.publish(model(numpy), name)
        with raises(IsADirectoryError):
            gpumem.load(folder, "llama")
        assert gpumem.ls() == []


def write_file(path, rows, data=b""):
    """Writes a file with a header that may be wrong: rows, or its text."""
    text = rows if isinstance(rows, bytes) else header(rows)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def test_only_a_regular_file_is_loaded():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/fifo"
        os.mkfifo(path)
        signal.alarm(20)
        for path in (path, "/dev/null"):
            with raises(ValueError, f"^{path} is not a regular file"):
                gpumem.load(path, "llama")
        signal.alarm(0)
        assert gpumem.ls() == []


class no_allocation:
    """with no_allocation(): nothing is allocated, not even for a moment."""

    def __enter__(self):
        self.alloc = gpumem.Mount.alloc
        gpumem.Mount.alloc = lambda *_arguments, **_keys: sys.exit("something was allocated")

    def __exit__(self, *_exception):
        gpumem.Mount.alloc = self.alloc


def test_a_header_that_lies_is_refused_before_anything_is_made():
    good = {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}
    deep = b'{"w":' + b"[" * 100000 + b"]" * 100000 + b"}"
    once = json.dumps(good).encode()
    headers = [
        (deep, "its header is wrong"),
        ({"w": {**good, "data_offsets": [0, True]}}, "data_offsets is not a list of whole numbers"),
        ({"w": {**good, "shape": [True]}}, "shape is not a list of whole numbers"),
        ({"w": {**good, "shape": [1 << 64, 0], "data_offsets": [0, 0]}}, "shape is not a list"),
        ({"w": {**good, "strides": [True]}}, "strides is not a list of whole numbers"),
        ({"w": {**good, "shape": {}}}, "shape is not a list of whole numbers"),
        ({"w": {**good, "dtype": 7}}, "dtype is not a string"),
        ({"w": {**good, "kind": 7}}, "kind is not a string"),
        ({"w": {**good, "alias": None}}, "alias is not a string"),
        ({"w": good, "__metadata__": {"a": 7}}, "metadata is not a table of strings"),
        ({"w": good, "__metadata__": [["a", "b"]]}, "metadata is not a table of strings"),
        (b'{"w":' + once + b',"w":' + once + b"}", "'w' is there twice"),
        (b'{"w":{"dtype":"U8",' + once[1:] + b"}", "'dtype' is there twice"),
        (b'{"w":' + once + b',"__metadata__":{"a":"b","a":"b"}}', "'a' is there twice"),
    ]
    for half in ("\ud800", "\udfff", "a\0b"):
        headers += [
            ({half: good}, "can't be stored"),
            ({"w": good, "x": {**good, "alias": half}}, "can't be stored"),
            ({"w": good, "__metadata__": {half: "b"}}, "can't be stored"),
            ({"w": good, "__metadata__": {"a": half}}, "can't be stored"),
        ]
    with tempfile.TemporaryDirectory() as folder, no_allocation():
        path = f"{folder}/model.safetensors"
        for rows, sentence in headers:
            write_file(path, rows, bytes(8))
            with raises(ValueError, "model.safetensors is not a safetensors file: .*" + sentence):
                gpumem.load(path, "llama")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        write_file(path, {"\U0001f600": good, "ü": good, "\ufffd": good}, b"x")
        with gpumem.load(path, "llama", kind="host") as m:
            assert list(m) == ["\U0001f600", "ü", "\ufffd"]


def test_a_file_whose_tensors_are_all_empty_is_loaded():
    numpy = need("numpy")
    arrays = {"a": numpy.empty((0, 3), dtype="f4"), "b": numpy.empty(0, dtype="u1")}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        safetensors(path, arrays)
        for kind in ("host", "device"):
            for _ in range(2):
                with gpumem.load(path, kind, kind=kind) as m:
                    same(numpy, arrays_of(numpy, m), arrays)
                    assert m.size == 1
                    id = m.id
            assert id == int(read(f"allocations/{kind}/id"))


def test_messages_have_only_printable_characters():
    with tempfile.TemporaryDirectory() as folder:
        path = os.fsdecode(os.fsencode(folder) + b"/\x1b]0;x\7\n\xff\xe2\x80\xae\xc3\xbc a'\\.safetensors")
        shown = r"/\x1b]0;x\x07\n\xff\u202eü a'\.safetensors"

        def refused(expected):
            try:
                gpumem.load(path, "llama", kind="host")
            except (ValueError, OSError) as error:
                assert isinstance(error, expected), repr(error)
                said = str(error)
            assert shown in said and said.isprintable(), ascii(said)

        os.mkfifo(path)
        refused(ValueError)
        os.unlink(path)
        for rows in ({}, {"w": 7}, {"w": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}, b"x"):
            write_file(path, rows, bytes(8))
            refused(ValueError)
        safetensors(path, {"w": ("U8", [8], bytes(8))})
        command = gpumem.Mount.command

        def unlinked(mount, file, line):
            answer = command(mount, file, line)
            if file == "control/load":
                os.unlink(path)
            return answer

        gpumem.Mount.command = unlinked
        refused(gpumem.Error)


def test_a_type_that_the_broker_does_not_know_is_refused_and_nothing_is_left():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        safetensors(path, {"w": ("F7", [8], bytes(8))})
        with raises(errno.EINVAL, "tensor 'w'.*F7"):
            gpumem.load(path, "llama")
        eventually(lambda: gpumem.ls() == [])


def test_tensors_at_odd_places_of_a_file_are_moved():
    numpy = need("numpy")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        arrays = {
            "odd": numpy.arange(3, dtype="u1"),
            "w": numpy.arange(6, dtype="f4").reshape(2, 3),
            "none": numpy.empty((0, 2), dtype="f4"),
            "x": numpy.arange(5),
        }
        safetensors(path, arrays)
        with gpumem.load(path, "llama", kind="host") as m:
            assert [t.offset % 256 for t in m.tensors.values()] == [0] * 4
            same(numpy, arrays_of(numpy, m), arrays)


def test_what_was_not_loaded_is_not_replaced():
    numpy = need("numpy")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        safetensors(path, model(numpy))
        gpumem.alloc("mine", 4096)
        patch("mine", 0, b"precious")
        with raises(errno.EEXIST, "mine is there already, and was not loaded by gpumem.load.*gpumem.map"):
            gpumem.load(path, "mine")
        with raises(errno.EEXIST, "mine is there already, and not published"):
            gpumem.publish(model(numpy), "mine")
        assert bytes_at("mine", 0, 8) == b"precious"
        gpumem.publish(model(numpy), "tuned")
        with raises(errno.EEXIST, "tuned is there already, and was not loaded by gpumem.load.*gpumem.map"):
            gpumem.load(path, "tuned")
        assert [a.name for a in gpumem.ls()] == ["mine", "tuned"]


def test_a_name_is_on_one_device():
    numpy = need("numpy")
    if len(os.listdir("devices")) < 2:
        raise skip("needs 2 devices")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        safetensors(path, model(numpy))
        for device in (0, 1):
            with gpumem.load(path, f"llama.{device}", device=device) as m:
                assert m.uuid == read(f"devices/{device}/uuid").strip()
                same(numpy, arrays_of(numpy, m), model(numpy))
            gpumem.load(path, f"llama.{device}", device=device).close()
            gpumem.load(path, f"llama.{device}").close()
        with raises(errno.EEXIST, "llama.1 is there already, on device 1: use a name for each"):
            gpumem.load(path, "llama.1", device=0)
        with raises(errno.EEXIST, "llama.1 is there already, with kind=device"):
            gpumem.load(path, "llama.1", kind="host")


def test_the_word_of_another_user_is_not_taken():
    numpy = need("numpy")
    if os.getuid() != 0:
        raise skip("needs root: several users")

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = f"{folder}/model.safetensors"
        safetensors(path, model(numpy))
        by(4001, lambda: gpumem.load(path, "llama", kind="host", mode=0o644).close())

        def other():
            with raises(errno.EEXIST, r"llama .*belongs to uid 4001.*trust=\[4001\]"):
                gpumem.load(path, "llama")
            with gpumem.load(path, "llama", trust=[4001]) as m:
                same(numpy, arrays_of(numpy, m), model(numpy))

        by(4002, other)
        by(4001, lambda: gpumem.load(path, "mine", kind="host").close())
        by(4002, lambda: raises_eacces(path))
        with raises(errno.EEXIST, "uid 4001"):
            gpumem.load(path, "llama")
        os.chown(path, 4001, -1)  # could have written other bytes into the file, too
        with gpumem.load(path, "llama", kind="host") as m:
            same(numpy, arrays_of(numpy, m), model(numpy))


class exchanged:
    """with exchanged(a, b, n): after n calls that look at a path two folders have each
    other's name, as if their owner had been that fast."""

    def __init__(self, a, b, n):
        self.paths, self.left = [os.fsencode(os.path.abspath(path)) for path in (a, b)], n
        self.places = [(os, "stat"), (os, "open"), (builtins, "open"), (os, "listdir")]
        self.places += [(gpumem.Mount, "command"), (gpumem.Mount, "map")]
        self.swap = ctypes.CDLL(None, use_errno=True).renameat2

    def __enter__(self):
        self.real = [getattr(module, name) for module, name in self.places]
        for (module, name), real in zip(self.places, self.real):
            setattr(module, name, self.then(real))
        return self

    def then(self, real):
        def call(*arguments, **keys):
            result = real(*arguments, **keys)
            self.left -= 1
            if self.left == 0:
                there, here = self.paths
                if self.swap(-100, there, -100, here, 2):  # RENAME_EXCHANGE
                    raise OSError(ctypes.get_errno(), "renameat2")
            return result

        return call

    def __exit__(self, *_exception):
        for (module, name), real in zip(self.places, self.real):
            setattr(module, name, real)


def test_the_owner_of_an_allocation_is_never_that_of_another():
    if os.getuid() != 0:
        raise skip("needs root: several users")
    owners = {}
    for folder, uid in (("team", 0), ("team2", 4001)):
        os.mkdir(f"allocations/{folder}")
        gpumem.alloc(f"{folder}/llama", 4096, kind="host", mode="644")
        with open(f"allocations/{folder}/llama/tensors", "wb", buffering=0) as file:
            file.write(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"__metadata__":{"of":"%d"}}' % uid)
        with open(f"allocations/{folder}/llama/owner", "w") as file:
            file.write(str(uid))
        owners[int(read(f"allocations/{folder}/llama/id"))] = uid
    mount = gpumem.Mount()
    folders = "allocations/team", "allocations/team2"
    wrong = []
    for n in range(1, 9):
        with exchanged(*folders, n):
            found = gpumem._load.find(mount, "team/llama")
        if not found.owner == owners[found.id] == int(found.table.metadata["of"]):
            wrong.append(("find", n, found))
        with exchanged(*folders, n):
            looked = [mount.look("team/llama")]
        with exchanged(*folders, n):
            looked += mount.ls()
        wrong += [(n, a) for a in looked if a.owner != owners[int(a.status["id"])]]
    assert not wrong, "\n".join(map(str, wrong))


def of_hostile(uid):
    """The paths of a user's allocations that have anything of others; frees all but those."""
    found = []
    for folder, _folders, files in os.walk("allocations"):
        if "status" not in files:
            continue
        status = dict(line.split(" ", 1) for line in read(f"{folder}/status").splitlines())
        with open(f"{folder}/data", "rb", buffering=0) as data:
            changed = any(data.read()) or status["sealed"] == "1" or read(f"{folder}/tensors")
        if int(status["owner"]) == uid and changed:
            found.append(folder)
        else:
            os.rmdir(folder)
    return found


def filled_while_exchanged(fill, done):
    """Calls fill() once for each call that names an allocation, while two folders are
    exchanged right behind that call. In one of them 4001 has an allocation with each name."""
    if os.getuid() != 0:
        raise skip("needs root: several users")
    for folder in ("team", "team2"):
        os.mkdir(f"allocations/{folder}")
    results = set()
    for n in range(1, 40):
        gpumem.alloc("team2/x.part", SIZE, kind="host", mode="666")
        with open("allocations/team2/x.part/owner", "w") as file:
            file.write("4001")
        with exchanged("allocations/team", "allocations/team2", n) as swap:
            try:
                done(fill())
                results.add("done")
            except OSError as error:
                assert error.errno in (errno.ESTALE, errno.ENOENT, errno.ETIMEDOUT, errno.EEXIST), error
                results.add("refused")
        wrong = of_hostile(4001)
        assert not wrong, (n, wrong)
        if swap.left > 0:
            break
    assert results == {"done", "refused"} and swap.left > 0, (results, n)


SIZE = 4096


def test_a_file_is_loaded_into_no_other_allocation():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        content = safetensors(path, {"a": ("U8", [SIZE], b"s" * SIZE)})
        time.sleep(0.1)  # for the clock of the file

        def load():
            return gpumem.load(path, "team/x", kind="host", mode="644", timeout=0)

        def done(m):
            assert bytes(m.memoryview()) == content
            m.close()

        filled_while_exchanged(load, done)
        for team in ("team", "team2"):
            os.rmdir(f"allocations/{team}")
        real = gpumem.Mount.command

        def command(self, file, line):
            if file == "control/load":
                raise gpumem.Error(errno.EXDEV, "a container")
            return real(self, file, line)

        gpumem.Mount.command = command
        filled_while_exchanged(load, done)


def test_tensors_are_published_as_no_other_allocation():
    numpy = need("numpy")
    array = numpy.full(SIZE, 115, dtype="u1")

    def done(allocation):
        assert allocation.owner == 0 and allocation.status["sealed"] == "1", allocation

    filled_while_exchanged(
        lambda: gpumem.publish({"a": array}, "team/x", kind="host", mode="644"), done
    )


def raises_eacces(path):
    with raises(errno.EACCES, "mine is there already, and belongs to uid 4001"):
        gpumem.load(path, "mine")


# ---- publishing ----


def test_arrays_of_numpy_are_published():
    numpy = need("numpy")
    whole = numpy.arange(40, dtype="f4").reshape(5, 8)
    arrays = {
        **model(numpy),
        "empty": numpy.empty((0, 3), dtype="f2"),
        "fortran": numpy.asfortranarray(whole),
        "permuted": numpy.arange(24, dtype="i4").reshape(2, 3, 4).transpose(1, 2, 0),
        "column": whole[:, 2],
        "backwards": whole[::-1],
        "spread": numpy.broadcast_to(numpy.float32(3), (2, 2)),
        "c64": numpy.array([1 + 2j], dtype="c8"),
        "whole": whole,
        "tied": whole,
        "single": whole[2:3],
    }
    for kind in ("host", "device"):
        made = gpumem.publish(
            arrays, kind, kind=kind, tag="v1", mode=0o644, metadata={"step": "7"}
        )
        assert (made.name, made.kind, made.tag, made.mode) == (kind, kind, "v1", 0o644)
        assert made.status["sealed"] == "1"
        with gpumem.map(kind) as m:
            same(numpy, arrays_of(numpy, m), arrays)
            assert m.metadata == {"step": "7"}
            assert {t.offset % 256 for t in m.tensors.values()} == {0}
            assert (m.tensors["tied"].alias, m.tensors["tied"].offset) == ("whole", m.tensors["whole"].offset)
            assert m.tensors["fortran"].strides == (1, 5)
            assert m.tensors["permuted"].strides == (4, 1, 12)
            assert m.tensors["column"].strides == (1,) and m.tensors["single"].strides == (8, 1)
            assert m.tensors["backwards"].strides == (8, 1)
            with raises(ValueError, "read-only"):
                if kind == "host":
                    m["whole"].numpy()[0] = 1
                else:
                    raise ValueError("read-only")
        with raises(PermissionError, "not permitted"):
            patch(kind, 0, b"x")
    assert [a.name for a in gpumem.ls()] == ["device", "host"]


def test_what_cannot_be_published_is_refused_before_anything_is_made():
    numpy = need("numpy")
    good = {"w": numpy.zeros(4, dtype="f4")}
    for value, sentence in (
        (numpy.zeros(4, dtype="c16"), "'x' can't be published: complex128 is not one of"),
        (numpy.zeros(4, dtype=">f4"), "'x' can't be published: .*is not one of"),
        (numpy.array(["a"]), "is not one of"),
        (numpy.array([{}]), "is not one of"),
        ([1, 2], "'x' can't be published: list is not a torch.Tensor and not a numpy.ndarray"),
        (None, "NoneType"),
    ):
        with raises(TypeError, sentence):
            gpumem.publish({**good, "x": value}, "llama")
    with raises(TypeError, "7 can't be published: its name is not a string"):
        gpumem.publish({7: good["w"]}, "llama")
    with raises(TypeError, "list is not a torch.nn.Module and not a dict of tensors"):
        gpumem.publish([good["w"]], "llama")
    with raises(ValueError, "nothing to publish"):
        gpumem.publish({}, "llama")
    for half in ("\ud800", "a\0b"):
        with raises(ValueError, "can't be stored"):
            gpumem.publish({half: good["w"]}, "llama")
        with raises(ValueError, "can't be stored"):
            gpumem.publish(good, "llama", metadata={"step": half})
    with raises(TypeError, "metadata is a dict of strings"):
        gpumem.publish(good, "llama", metadata={"step": 7})
    assert gpumem.ls() == []


def test_what_is_published_again_replaces_and_readers_keep_the_old_one():
    numpy = need("numpy")
    gpumem.publish(model(numpy), "llama", kind="host")
    with gpumem.map("llama") as old:
        assert old.tensors
        gpumem.publish(model(numpy, seed=2), "llama", kind="host")
        assert old.state == "replaced"
        same(numpy, arrays_of(numpy, old), model(numpy))
        with gpumem.map("llama", any_address=True) as new:
            same(numpy, arrays_of(numpy, new), model(numpy, seed=2))


def test_a_publication_that_fails_leaves_nothing():
    numpy = need("numpy")
    write = gpumem.Mount.write

    def fail(*_arguments):
        raise KeyError("mine")

    gpumem.Mount.write = fail
    for kind in ("host", "device"):
        with raises(KeyError, "mine"):
            gpumem.publish(model(numpy), "llama", kind=kind)
        eventually(lambda: gpumem.ls() == [])
    gpumem.Mount.write = write
    with raises(errno.ENOMEM):
        gpumem.publish({"w": numpy.broadcast_to(numpy.float32(1), (1 << 40,))}, "llama")
    eventually(lambda: gpumem.ls() == [])
    gpumem.alloc("llama.part", 4096)
    with raises(errno.EEXIST, "llama.part"):
        gpumem.publish(model(numpy), "llama")


def test_a_model_of_torch_is_published():
    torch = need("torch")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(4, 6, bias=False)
            self.last = torch.nn.Linear(4, 6, bias=False)
            self.last.weight = self.first.weight
            self.register_buffer("steps", torch.tensor(3))
            self.register_buffer("own", torch.ones(3), persistent=False)
            self.bf = torch.nn.Parameter(torch.rand(4, 6).bfloat16().t())
            self.part = torch.nn.Parameter(torch.rand(4, 6)[:, 2:4])

    model = Model()
    for kind in ("host", "device"):
        gpumem.publish(model, kind, kind=kind)
        with gpumem.map(kind) as m:
            rows = m.tensors
            assert list(rows) == list(model.state_dict())
            assert rows["last.weight"].alias == "first.weight" and rows["last.weight"].kind == "parameter"
            assert (rows["steps"].kind, rows["bf"].strides, rows["part"].strides) == ("buffer", (1, 6), (2, 1))
            if kind == "host":
                for name, tensor in m.torch().items():
                    assert torch.equal(tensor, model.state_dict()[name]), name
                    assert tensor.dtype == model.state_dict()[name].dtype
            else:
                half = bytes_at(kind, rows["bf"].offset, 48)
                assert half == bytes(model.bf.detach().t().contiguous().view(torch.uint8).numpy())
    for tensor, sentence in (
        (torch.rand(2, device="meta"), "it is on device meta"),
        (torch.rand(2, 2).to_sparse(), "sparse or quantized"),
        (torch.quantize_per_tensor(torch.rand(2), 0.1, 0, torch.qint8), "sparse or quantized"),
        (torch.rand(2).to(torch.complex128), "complex128"),
    ):
        with raises(TypeError, f"'w' can't be published: .*{sentence}"):
            gpumem.publish({"w": tensor}, "llama")
    gpumem.publish({"z": torch.rand(3).to(torch.complex64).conj()}, "z", kind="host")
    assert [a.name for a in gpumem.ls()] == ["device", "host", "z"]


if __name__ == "__main__":
    run(globals())
