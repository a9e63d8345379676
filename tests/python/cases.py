# SPDX-License-Identifier: MIT
"""The Python package on a real mount: cases.py NAME runs test_NAME. tensors.py has the cases
of tensors, loading and publishing.

tests/mount/python.bash starts the broker and runs each case in a program of its own, whose
folder is the mount. Exit status 77 is a skip, with its reason on the last line.
"""

import ctypes
import errno
import gc
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


def read(path):
    with open(path) as file:
        return file.read()


def bytes_at(name, offset, n):
    with open(f"allocations/{name}/data", "rb", buffering=0) as file:
        file.seek(offset)
        return file.read(n)


def patch(name, offset, data):
    with open(f"allocations/{name}/data", "r+b", buffering=0) as file:
        file.seek(offset)
        file.write(data)


def eventually(holds, seconds=20):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


class raises:
    """with raises(ENOENT, "sentence"): as a regular expression; or an exception's class."""

    def __init__(self, expected, sentence="."):
        self.expected, self.sentence = expected, sentence

    def __enter__(self):
        pass

    def __exit__(self, kind, error, _trace):
        assert error is not None, "nothing was raised"
        if isinstance(self.expected, int):
            if not isinstance(error, gpumem.Error):
                return False
            assert error.errno == self.expected, repr(error)
            said = error.strerror
        else:
            if not isinstance(error, self.expected):
                return False
            said = str(error)
        assert re.search(self.sentence, said), f"{said!r} is not like {self.sentence!r}"
        return True


class skip(Exception):
    pass


def need(module):
    try:
        return __import__(module)
    except ImportError:
        raise skip(f"{module} is not there") from None


def python(code, **settings):
    """Another program: its exit status and what it printed."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return result.returncode, result.stdout


class Gpu:
    """The driver's calls, in the primary context of device 0."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, function, *arguments):
        result = self.cuda[function](*arguments)
        assert result == 0, f"{function}: {result}"

    def write(self, pointer, data):
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(pointer), data, ctypes.c_size_t(len(data)))
        # A GPU may return before a small copy is done.
        self.call("cuCtxSynchronize")

    def read(self, pointer, n):
        data = ctypes.create_string_buffer(n)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(pointer), ctypes.c_size_t(n))
        return data.raw


class FakeTorch:
    """What torch_mempool() asks of torch, as far as it can be had without a GPU."""

    class cuda:
        class memory:
            class CUDAPluggableAllocator:
                def __init__(self, path, malloc, free):
                    library = ctypes.CDLL(path)
                    self.malloc, self.free = library[malloc], library[free]
                    self.malloc.restype = ctypes.c_void_p
                    self.malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
                    self.free.restype = None
                    self.free.argtypes = [ctypes.c_void_p, *self.malloc.argtypes]

                def allocator(self):
                    return self

        class MemPool:
            def __init__(self, allocator):
                self.allocator = allocator

        class use_mem_pool:
            def __init__(self, pool):
                pass

            def __enter__(self):
                pass

            def __exit__(self, *_exception):
                pass


# ---- allocations ----


def test_names_may_have_folders():
    os.makedirs("allocations/a/b")
    made = gpumem.alloc("a/b/x", "4K", kind="host")
    assert made.name == "a/b/x" and made.size == 4096
    patch("a/b/x", 0, b"hello")
    gpumem.alloc("y", "8K", kind="host")
    assert [a.name for a in gpumem.ls()] == ["a/b/x", "y"]
    with gpumem.map("a/b/x") as m:
        assert m.name == "a/b/x"
        assert ctypes.string_at(m.pointer, 5) == b"hello"
    gpumem.free("a/b/x")
    with raises(errno.ENOENT, "there is no allocation a/b/x"):
        gpumem.map("a/b/x")
    with raises(errno.ENOENT, "is not the name of an allocation"):
        gpumem.map("a/../y")
    with raises(errno.ENOENT, "allocations/a/b: No such file"):
        gpumem.Mount().look("a/b")
    assert [a.name for a in gpumem.ls()] == ["y"]


def test_an_allocation_is_made_listed_and_freed():
    made = gpumem.alloc("x", "4K", tag="weights", mode=0o640)
    assert (made.name, made.size, made.kind, made.device) == ("x", 4096, "device", 0)
    assert (made.tag, made.mode, made.state) == ("weights", 0o640, "live"), made
    assert made.owner == os.getuid()
    assert made.address == int(read("allocations/x/address"), 16)
    gpumem.alloc("h", 8192, kind="host")
    assert [(a.name, a.size, a.kind, a.device) for a in gpumem.ls()] == [
        ("h", 8192, "host", None),
        ("x", 4096, "device", 0),
    ]
    assert gpumem.ls()[1].status["generation"] == "1"
    gpumem.free("x")
    assert [a.name for a in gpumem.ls()] == ["h"]


# A broker may let characters into a tag at which str.splitlines() splits.
def test_only_newlines_end_the_lines_of_a_status():
    from gpumem._folder import Folder

    ends = "\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
    with tempfile.TemporaryDirectory() as path:
        with open(f"{path}/status", "w", newline="") as file:
            file.write(f"size_bytes 4\ntag a{ends}b\nstate live\n")
        with Folder(path) as folder:
            assert folder.status() == {"size_bytes": "4", "tag": f"a{ends}b", "state": "live"}


def test_a_line_has_its_answer():
    gpumem.alloc("x", 16)
    gpumem.command("control/fill", "x u32:7")
    assert bytes_at("x", 0, 8) == b"\7\0\0\0\7\0\0\0"
    assert gpumem.command("control/alloc", "y 1M\n").startswith("id ")


def test_an_error_has_its_errno_and_the_sentence_of_the_broker():
    with raises(errno.EINVAL, "nonsense"):
        gpumem.alloc("x", "nonsense")
    gpumem.alloc("x", 16)
    with raises(errno.EEXIST, "x"):
        gpumem.alloc("x", 16)
    with raises(errno.ENOENT, "there is no allocation|No such"):
        gpumem.free("nosuch")
    with raises(errno.ENOENT, "nosuch"):
        gpumem.map("nosuch")
    with raises(errno.ENOENT, "is not a mount of gpumemd"):
        gpumem.ls(mount="/nowhere")
    assert issubclass(gpumem.Error, OSError)


def test_a_word_can_not_bring_lines_along():
    with raises(errno.EINVAL, "is not one word"):
        gpumem.alloc("x 16\ny", 16)
    with raises(errno.EINVAL, "is not one word"):
        gpumem.alloc("x", 16, tag="a until=close")
    with raises(errno.EINVAL, "is not one word"):
        gpumem.free("")
    with raises(errno.EINVAL, "is not the name of an allocation"):
        gpumem.map("x\0y")
    with raises(errno.ENOENT, "'../x' is not the name of an allocation"):
        gpumem.map("../x")
    assert gpumem.ls() == []


def test_guarded_memory_is_mapped_from_its_first_byte():
    need("numpy")
    for kind in ("host", "device"):
        gpumem.alloc("x", 5000, kind=kind, guard=1)
        assert gpumem.ls()[0].status["guard"] == "1"
        with open("allocations/x/data", "r+b") as data:
            data.write(b"ab" * 2500)
        with gpumem.map("x", write=True) as m:
            assert m.pointer == m.address and m.size == 5000
            assert (m.pointer + m.size) % 4096 == 0
            if kind == "host":
                a = m.numpy("u8", 5000)
                assert bytes(a[:2]) == b"ab" and bytes(a[-2:]) == b"ab"
                a[-1] = ord("z")
                del a
        if kind == "host":
            assert read("allocations/x/data")[-3:] == "baz"
        gpumem.free("x")


def test_memory_that_cannot_be_leased_says_so():
    for kind in ("managed", "direct", "async"):
        gpumem.alloc(kind, 4096, kind=kind)
        with raises(errno.EOPNOTSUPP, f"kind={kind} can't be leased"):
            gpumem.map(kind)


def test_until_close_ends_with_the_session():
    with gpumem.open(os.environ["GPUMEM_MOUNT"]) as mount:
        assert mount.path == os.environ["GPUMEM_MOUNT"]
        mount.alloc("x", 4096, until="close")
        mount.alloc("y", 4096)
        assert [a.name for a in gpumem.ls(mount=mount)] == ["x", "y"]
    eventually(lambda: [a.name for a in gpumem.ls()] == ["y"])
    with raises(errno.EBADF, "closed"):
        mount.ls()
    mount.close()


# ---- host memory ----


def test_host_memory_is_numpy():
    numpy = need("numpy")
    gpumem.alloc("h", "1M", kind="host")
    patch("h", 4, b"\1\0\0\0")
    with gpumem.map("h", write=True) as m:
        assert (m.size, m.kind, m.device, m.writable, m.uuid) == (1 << 20, "host", None, True, "")
        assert m.pointer == m.address == int(read("allocations/h/address"), 16)
        a = m.numpy("i32", (512, 512))
        assert a.shape == (512, 512) and a[0, 1] == 1 and a.ctypes.data == m.pointer
        a[511, 511] = -1
        assert m.numpy(numpy.uint8)[-1] == 255
        assert m.numpy(numpy.dtype("float32"), 3, offset=8).shape == (3,)
        assert numpy.asarray(m).nbytes == m.size
        assert numpy.from_dlpack(m.array("f32", (2, 3)))[0, 0] == 0
        del a
    assert bytes_at("h", (1 << 20) - 4, 4) == b"\xff\xff\xff\xff"


def test_host_memory_is_a_memoryview():
    gpumem.alloc("h", 4096, kind="host")
    with gpumem.map("h", write=True) as m:
        m.memoryview()[10:13] = b"abc"
    assert bytes_at("h", 10, 3) == b"abc"
    with gpumem.map("h") as m:
        assert m.memoryview()[10:13] == b"abc" and m.memoryview().readonly


def test_memory_mapped_for_reading_is_not_written():
    numpy = need("numpy")
    gpumem.alloc("h", 4096, kind="host")
    with gpumem.map("h") as m:
        assert not m.writable
        with raises(ValueError, "read-only"):
            m.numpy()[0] = 1
        with raises(BufferError, "for reading only"):
            m.__dlpack__()
        del m
    status, _said = python(
        "import ctypes, gpumem; m = gpumem.map('h'); ctypes.memset(m.pointer, 1, 1)",
        ASAN_OPTIONS="handle_segv=0:detect_leaks=0",
        TSAN_OPTIONS="handle_segv=0",
    )
    assert status == -signal.SIGSEGV
    assert bytes_at("h", 0, 1) == b"\0"


def test_an_array_outlives_the_map():
    numpy = need("numpy")
    gpumem.alloc("h", 4096, kind="host")
    with gpumem.map("h", write=True) as m:
        a = m.numpy("f32")
        b = a[10:20].reshape(2, 5)
    with raises(errno.EBADF, "the map of h has been closed"):
        m.pointer
    del m, a
    gc.collect()
    b[:] = 3
    assert bytes_at("h", 40, 4) == numpy.float32(3).tobytes()
    assert read("leases").count("\n") == 1
    del b
    gpumem.collect()
    assert read("leases") == ""
    gpumem.map("h").close()


def test_an_array_outlives_its_allocation():
    need("numpy")
    gpumem.alloc("h", 4096, kind="host")
    m = gpumem.map("h", write=True)
    a = m.numpy()
    gpumem.free("h")
    assert m.state == "freed"
    a[:] = 7
    m.close()
    assert a.sum() == 7 * 4096


def test_a_consumer_of_dlpack_keeps_the_memory():
    numpy = need("numpy")
    gpumem.alloc("h", 4096, kind="host")
    with gpumem.map("h", write=True) as m:
        patch("h", 0, b"\5")
        a = numpy.from_dlpack(m)
        offered = m.__dlpack__()
    gpumem.collect()
    assert read("leases") != "" and a[0] == 5
    del a
    gpumem.collect()
    assert read("leases") != ""
    del offered
    gpumem.collect()
    assert read("leases") == ""


def test_a_versioned_capsule_says_that_it_is_for_reading():
    gpumem.alloc("h", 4096, kind="host")
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    for write, flags in ((False, 1), (True, 0)):
        with gpumem.map("h", write=write) as m:
            capsule = m.array("bf16", (2, 3), 2).__dlpack__(max_version=(1, 0))
            at = pointer(capsule, b"dltensor_versioned")
            words = (ctypes.c_uint64 * 10).from_address(at)
            assert words[0] == 1 and words[3] == flags
            assert words[4] == m.pointer + 2 and words[5] == 1
            assert words[6] == 2 | (4 << 32) | (16 << 40) | (1 << 48)
            assert list((ctypes.c_int64 * 2).from_address(words[7])) == [2, 3]
            assert list((ctypes.c_int64 * 2).from_address(words[8])) == [3, 1]
            del capsule


def test_shapes_and_types_are_checked():
    gpumem.alloc("h", 4098, kind="host")
    with gpumem.map("h") as m:
        for dtype in ("BF16", "bfloat16", "f16"):
            assert m.array(dtype).shape == (2049,)
        assert m.array("f32", ()).shape == () and m.array("f32", ()).nbytes == 4
        assert m.array("F8_E4M3", (2, 0, 3), 4098).nbytes == 0
        assert m.array("f64", (2, 3)).strides == (3, 1)
        with raises(ValueError, "4098 bytes are not a multiple of the 4 of float32"):
            m.array("f32")
        with raises(ValueError, r"float32\[1025\] at offset 0 ends at byte 4100, outside"):
            m.array("f32", 1025)
        with raises(ValueError, "offset 2 is not a multiple of 4"):
            m.array("f32", 1, 2)
        with raises(ValueError, "negative"):
            m.array("f32", (-1, -1))
        with raises(ValueError, "negative"):
            m.array("u8", 1, -1)
        with raises(TypeError, "'float33' is not one of"):
            m.array("float33")
        with raises(TypeError, "float"):
            m.array(float)
        with raises(TypeError, "numpy has no bfloat16"):
            m.numpy("bf16")
        with raises(AttributeError):
            m.__cuda_array_interface__
        for method in (m.cupy, m.numba):
            with raises(TypeError, "needs device memory: use .numpy"):
                method("f32", 1)
        with raises(BufferError, "copies nothing"):
            m.__dlpack__(copy=True)


def test_torch_takes_host_memory():
    torch = need("torch")
    gpumem.alloc("h", 4096, kind="host")
    with gpumem.map("h", write=True) as m:
        t = m.torch("bf16", (2, 4), 16)
        t.fill_(1)
        assert t.dtype == torch.bfloat16 and t.data_ptr() == m.pointer + 16
        assert m.torch(torch.bool, 4).tolist() == [False] * 4
        assert m.torch("f32", (3, 0)).shape == (3, 0)
        assert m.torch("c64", ()).item() == 0
        if not hasattr(torch, "uint16"):
            with raises(TypeError, "this torch .* has no uint16"):
                m.torch("u16")
        assert torch.from_dlpack(m.array("f32", (2, 2))).shape == (2, 2)
    assert bytes_at("h", 16, 2) == b"\x80\x3f"
    gpumem.collect()
    assert read("leases") != ""
    del t
    gpumem.collect()
    assert read("leases") == ""


def test_an_exception_on_its_way_meets_no_deleter():
    numpy = need("numpy")
    gpumem.alloc("h", 4096, kind="host")

    def fail(m):
        consumed = numpy.from_dlpack(m)
        offered = m.__dlpack__()
        raise KeyError("mine")

    with gpumem.map("h", write=True) as m:
        for _ in range(100):
            with raises(KeyError, "mine"):
                fail(m)
    gpumem.collect()
    assert read("leases") == ""


# ---- device memory ----


def test_without_a_driver_the_error_names_that_of_the_mount():
    """As on a machine without a GPU, where the broker has the software GPU."""
    settings = {name: os.environ[name] for name in os.environ if name != "LD_LIBRARY_PATH"}

    def run(code):
        return subprocess.run(
            [sys.executable, "-c", code], env=settings, capture_output=True, text=True
        )

    if run("import ctypes; ctypes.CDLL('libcuda.so.1')").returncode == 0:
        raise skip("the system has a CUDA driver")
    gpumem.alloc("x", 4096)
    said = run("import gpumem; gpumem.map('x')").stderr
    assert re.search(r"can't load .*libcuda\.so\.1.*GPUMEM_DRIVER=.*driver_path", said), said
    settings["GPUMEM_DRIVER"] = read("driver_path").strip()
    mapped = run("import gpumem; print(gpumem.map('x').size)")
    assert mapped.stdout == "4096\n", mapped.stderr


def test_device_memory_has_the_same_address_in_every_program():
    gpu = Gpu()
    gpumem.alloc("x", "64M")
    with gpumem.map("x", write=True) as m:
        assert (m.kind, m.device, m.size) == ("device", 0, 64 << 20)
        assert m.uuid == read("devices/0/uuid").strip()
        assert m.pointer == m.address == int(read("allocations/x/address"), 16)
        interface = m.__cuda_array_interface__
        assert interface["data"] == (m.pointer, False) and interface["typestr"] == "|u1"
        assert interface["shape"] == (64 << 20,) and interface["version"] == 3
        assert m.array("f32", (4, 4), 64).__cuda_array_interface__["data"][0] == m.pointer + 64
        assert m.__dlpack_device__() == (2, 0)
        gpu.write(m.pointer + 5, b"hello")
        status, said = python(
            "import sys; sys.argv = ['', '']; sys.path.insert(0, %r)\n"
            "import cases, gpumem; gpu = cases.Gpu(); m = gpumem.map('x')\n"
            "assert m.pointer == %d and not m.writable\n"
            "assert m.__cuda_array_interface__['data'][1]\n"
            "assert gpu.read(m.pointer + 5, 5) == b'hello'\n"
            "gpu.cuda.cuMemcpyHtoD_v2(m.pointer, b'x', 1) == 1 or sys.exit(9)"
            % (os.path.dirname(__file__), m.pointer)
        )
        assert status == 0, said
    assert bytes_at("x", 5, 5) == b"hello"
    with raises(TypeError, "numpy needs host memory"):
        with gpumem.map("x") as m:
            m.numpy()
    gpumem.collect()  # the frames of the exception held the array
    assert read("leases") == ""


def test_device_memory_is_unmapped_at_the_next_call_and_can_be_mapped_again():
    gpu = Gpu()
    gpumem.alloc("x", "4M")
    for round in range(20):
        m = gpumem.map("x", write=True)
        gpu.write(m.pointer, bytes([round]))
        a = m.array("f32", 4)
        del m
        assert gpu.read(a.pointer, 1) == bytes([round])
        del a
    gpumem.collect()
    assert read("leases") == ""


def test_a_device_capsule_keeps_the_memory():
    gpu = Gpu()
    gpumem.alloc("x", "4M")
    with gpumem.map("x") as m:
        pointer = m.pointer
        capsule = m.__dlpack__(stream=None)
    gpumem.collect()
    gpu.read(pointer, 4)
    m = gpumem.map("x")
    assert m.pointer == pointer
    m.close()
    gpu.read(pointer, 4)
    del capsule
    gpumem.map("x").close()
    assert read("leases") == ""


def test_a_cell_that_maps_runs_twice():
    for kind in ("host", "device"):
        gpumem.alloc("x", 4096, kind=kind)
        for write in (False, True, True):
            m = None  # a map for reading is closed before one for writing
            m = gpumem.map("x", write=write)
            m = gpumem.map("x", write=write)
            assert m.pointer == m.address
        gpumem.collect()
        assert read("leases").count("\n") == 1
        n = gpumem.map("x", write=True)
        n = None
        m.suspend()
        m.resume()
        del m, n
        gpumem.collect()
        assert read("leases") == ""
        gpumem.free("x")


def test_a_second_map_has_no_more_access_than_it_asks_for():
    need("numpy")
    gpumem.alloc("h", 4096, kind="host")
    with gpumem.map("h", write=True) as m, gpumem.map("h") as n:
        assert (m.writable, n.writable) == (True, False)
        m.numpy()[0] = 5
        assert n.numpy()[0] == 5 and n.pointer == m.pointer
        with raises(ValueError, "read-only"):
            n.numpy()[0] = 1
        with raises(errno.EBUSY, "close the other maps first"):
            m.suspend()
    with gpumem.map("h"):
        with raises(errno.EADDRINUSE, "close that map first, or .*any_address=True"):
            gpumem.map("h", write=True)


def test_a_map_outlives_another_of_the_same_memory():
    gpu = Gpu()
    gpumem.alloc("x", 4096)
    m = gpumem.map("x", write=True)
    with gpumem.map("x") as n:
        array = n.array("u8")
    gpu.write(m.pointer, b"\7")
    m.close()
    assert gpu.read(array.pointer, 1) == b"\7"
    assert read("leases").count("\n") == 1
    del array
    gpumem.collect()
    assert read("leases") == ""


def test_segments_of_torch_have_the_name_of_the_pool():
    sys.modules["torch"] = FakeTorch
    gpu = Gpu()
    os.environ["GPUMEM_TORCH_NAME"] = "mine"
    with raises(KeyError, "mine"):
        with gpumem.torch_mempool("kv") as pool:
            pointer = pool.allocator.malloc(2 << 20, 0, None)
            assert [(a.name, a.size) for a in gpumem.ls()] == [("kv.0", 2 << 20)]
            assert gpumem.ls()[0].address == pointer
            gpu.write(pointer, b"\5")
            raise KeyError("mine")
    assert os.environ.pop("GPUMEM_TORCH_NAME") == "mine"
    assert bytes_at("kv.0", 0, 1) == b"\5"
    with gpumem.torch_mempool() as pool:
        other = pool.allocator.malloc(2 << 20, 0, None)
        assert "GPUMEM_TORCH_NAME" not in os.environ
        assert any(a.name.startswith(f"torch-{os.getpid()}.") for a in gpumem.ls())
    pool.allocator.free(pointer, 2 << 20, 0, None)
    pool.allocator.free(other, 2 << 20, 0, None)
    assert gpumem.ls() == []


def test_a_map_can_be_closed_twice_and_by_the_garbage_collector():
    gpumem.alloc("x", "4M")
    m = gpumem.map("x")
    m.close()
    m.close()
    assert "closed" in repr(m)
    m = gpumem.map("x")
    m.itself = m
    del m
    gc.collect()
    gpumem.collect()
    assert read("leases") == ""


def test_a_map_says_when_its_allocation_is_freed_or_has_another_name():
    gpumem.alloc("x", "4M")
    with gpumem.map("x") as m:
        assert (m.state, m.name) == ("live", "x")
        os.rename("allocations/x", "allocations/y")
        assert (m.state, m.name) == ("live", "y")
        gpumem.free("y")
        assert m.state == "freed"


def test_suspended_memory_comes_back_at_the_same_pointer():
    gpu = Gpu()
    gpumem.alloc("x", "4M")
    with gpumem.map("x", write=True) as m:
        pointer = m.pointer
        m.suspend()
        assert m.state == "suspended" and read("leases") == ""
        gpumem.command("control/fill", "x u8:9")
        m.resume()
        assert m.pointer == pointer and gpu.read(pointer, 1) == b"\x09"
        m.suspend()
        gpumem.free("x")
        with raises(errno.ESTALE):
            m.resume()
        gpumem.alloc("x", "4M")
        with raises(errno.ESTALE, "another allocation"):
            m.resume()
        m.resume(follow=True)
        assert gpu.read(pointer, 1) == b"\0"


# ---- the order of uses ----


def test_a_hold_orders_programs_and_lines():
    gpu = Gpu()
    gpumem.alloc("x", 4096)
    with gpumem.map("x", write=True) as m:
        with m.hold(write=True):
            filler = threading.Thread(target=gpumem.command, args=("control/fill", "x u8:9"))
            filler.start()
            eventually(lambda: "busy" in read("allocations/x/state"))
            gpu.write(m.pointer, b"\7")
            assert gpu.read(m.pointer, 1) == b"\7"
            with raises(errno.EBUSY):
                with m.hold():
                    pass
        filler.join()
        assert gpu.read(m.pointer, 1) == b"\x09"


def test_a_thread_that_waits_for_its_line_delays_no_other_thread():
    gpumem.alloc("x", 4096)
    gpumem.alloc("y", 4096)
    os.mkdir("streams/s")
    with gpumem.map("x", write=True) as m:
        with m.hold(write=True):
            filler = threading.Thread(target=gpumem.command, args=("control/fill", "x u8:9"))
            filler.start()
            eventually(lambda: "busy" in read("allocations/x/state"))
            gpumem.command("control/fill", "y u8:8 stream=s")
            gpumem.alloc("z", 4096)
        filler.join()
    assert bytes_at("x", 0, 1) == b"\x09" and bytes_at("y", 0, 1) == b"\x08"


def test_a_hold_ends_with_an_exception_and_keeps_it():
    gpumem.alloc("x", 4096)
    with gpumem.map("x", write=True) as m:
        with raises(KeyError, "mine"):
            with m.hold(write=True):
                raise KeyError("mine")
        with raises(errno.ENOENT, "nosuch"):
            with m.hold(write=True):
                gpumem.map("nosuch")
        gpumem.command("control/fill", "x u8:9")
    with gpumem.map("x") as m:
        with raises(errno.EACCES, "hold w"):
            with m.hold(write=True):
                pass
        with m.hold(), m.hold.__get__(gpumem.map("x", any_address=True))():
            m.close()
    gpumem.collect()
    assert read("leases") == ""


def test_streams_of_all_frameworks_have_their_handle():
    from gpumem._map import stream_handle

    class Torch:
        cuda_stream = 5

    class Cupy:
        ptr = 6

    class Numba:
        handle = ctypes.c_void_p(7)

    class NumbaDefault:
        handle = ctypes.c_void_p(0)

    assert [stream_handle(s) for s in (None, 4, Torch(), Cupy(), Numba())] == [None, 4, 5, 6, 7]
    assert not stream_handle(NumbaDefault())
    with raises(TypeError, "is not a stream"):
        stream_handle("5")


def test_ctrl_c_ends_a_wait_and_leaves_nothing():
    gpumem.alloc("x", 4096)
    holder = gpumem.map("x", write=True)
    main = threading.get_ident()

    def interrupt():
        eventually(lambda: read("leases").count("\n") == 2)
        time.sleep(0.05)
        signal.pthread_kill(main, signal.SIGINT)

    with holder.hold(write=True):
        interrupter = threading.Thread(target=interrupt)
        interrupter.start()
        with raises(KeyboardInterrupt, ""):
            gpumem.map("x", any_address=True)
        interrupter.join()
    holder.close()
    assert read("leases") == ""


def test_a_signal_with_a_handler_of_its_own_does_not_end_a_wait():
    gpumem.alloc("x", 4096)
    holder = gpumem.map("x", write=True)
    main = threading.get_ident()
    seen = []
    signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))

    def interrupt():
        eventually(lambda: read("leases").count("\n") == 2)
        for _ in range(5):
            signal.pthread_kill(main, signal.SIGUSR1)
            time.sleep(0.02)
        hold.__exit__(None, None, None)

    hold = holder.hold(write=True)
    hold.__enter__()
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with gpumem.map("x", any_address=True):
        assert seen
    interrupter.join()


# ---- processes and threads ----


def test_threads_map_and_drop_at_the_same_time():
    need("numpy")
    for i in range(4):
        gpumem.alloc(f"h{i}", 65536, kind="host")
    failures = []

    def work(i):
        try:
            for round in range(50):
                own = round % 2 == 0
                with gpumem.map(f"h{i % 4}", write=True, any_address=own) as m:
                    a = m.numpy("i32", 16)
                    capsule = m.__dlpack__()
                a[i] = round
                with raises(errno.ENOENT, f"nosuch{i}"):
                    gpumem.map(f"nosuch{i}")
                assert a[i] == round
                del a, capsule
        except BaseException:
            failures.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    gpumem.collect()
    assert read("leases") == ""


def test_a_child_after_fork_has_its_own_session():
    numpy = need("numpy")
    gpumem.alloc("h", 4096, kind="host")
    m = gpumem.map("h", write=True)
    a = m.numpy()
    left = gpumem.map("h", any_address=True)
    del left
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with raises(errno.ECHILD, "h is mapped in the parent only"):
                m.state
            with gpumem.map("h", write=True, any_address=True) as own:
                own.numpy()[1] = 8
            m.close()
            del a, m
            gc.collect()
            gpumem.collect()
            gpumem.alloc("c", 4096, until="close")
            status = 0
        except BaseException:
            traceback.print_exc()
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert m.state == "live" and a[1] == 8
    eventually(lambda: [x.name for x in gpumem.ls()] == ["h"])
    assert read("leases").count("\n") == 2
    m.close()
    del a
    gpumem.collect()
    assert read("leases") == ""


def test_a_program_that_is_killed_leaves_no_lease():
    gpumem.alloc("h", 4096, kind="host")
    gpumem.alloc("x", "4M")
    code = (
        "import gpumem, os, signal\n"
        "with gpumem.map('h', write=True) as m, gpumem.map('x', write=True) as n:\n"
        "    gpumem.alloc('temporary', 4096, until='close')\n"
        "    with m.hold(write=True), n.hold(write=True):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert python(code)[0] == -signal.SIGKILL
    eventually(lambda: read("leases") == "")
    eventually(lambda: [a.name for a in gpumem.ls()] == ["h", "x"])
    patch("h", 0, b"\1")
    gpumem.free("x")


def test_a_program_may_end_with_everything_open():
    need("numpy")
    gpumem.alloc("h", 4096, kind="host")
    gpumem.alloc("x", "4M")
    code = (
        "import gpumem, numpy, sys\n"
        "m = gpumem.map('h', write=True); a = m.numpy(); b = numpy.from_dlpack(m)\n"
        "n = gpumem.map('x'); c = n.__dlpack__(); v = m.memoryview()\n"
        "hold = n.hold(); hold.__enter__()\n"
        "class Last:\n"
        "    def __init__(self): self.kept = (m, a, b, n, c, v, hold)\n"
        "    def __del__(self): self.kept[1][0] = 3; self.kept[0].close()\n"
        "sys.last = Last(); sys.last.loop = sys.last\n"
        "d = gpumem.map('h', any_address=True).numpy()\n"
        "gpumem.alloc('temporary', 4096, until='close')\n"
        "print('end')\n"
    )
    assert python(code) == (0, "end\n")
    eventually(lambda: read("leases") == "")
    eventually(lambda: [a.name for a in gpumem.ls()] == ["h", "x"])


def test_a_machine_without_libgpumem_says_what_to_install():
    status, said = python("import gpumem", GPUMEM_LIBRARY="libnosuch.so.0")
    assert status == 1
    assert "ImportError: the Python package gpumem needs the library libgpumem.so.0" in said, said
    assert "install gpumem" in said and "libnosuch.so.0" in said


def test_pip_installs_the_package_without_a_network():
    settings = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.environ["PYTHONPATH"], f"{folder}/source")
        tools = "import setuptools, pip, wheel"
        found = subprocess.run([sys.executable, "-c", tools], env=settings, capture_output=True, text=True)
        if found.returncode:
            raise skip(found.stderr.splitlines()[-1])
        pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-build-isolation"]
        subprocess.run(
            [*pip, "--no-cache-dir", "--quiet", "--target", f"{folder}/installed", f"{folder}/source"],
            env={**settings, "HOME": folder, "PIP_ROOT_USER_ACTION": "ignore"},
            cwd=folder,
            check=True,
        )
        shutil.rmtree(f"{folder}/source")
        code = "import gpumem; gpumem.alloc('x', 16); print(gpumem.__file__)"
        status, said = python(code, PYTHONPATH=f"{folder}/installed")
        assert (status, said) == (0, f"{folder}/installed/gpumem/__init__.py\n"), said
        assert os.path.exists(f"{folder}/installed/gpumem/py.typed")
    assert [a.name for a in gpumem.ls()] == ["x"]


def test_the_import_brings_no_framework_along():
    status, said = python(
        "import sys, gpumem; print([m for m in ('torch', 'numpy', 'cupy', 'numba') if m in sys.modules])"
    )
    assert (status, said) == (0, "[]\n")


def test_another_users_allocation_shows_what_may_be_known():
    if os.getuid() != 0:
        raise skip("needs root: several users")
    gpumem.alloc("x", 4096, kind="host")
    gpumem.alloc("open", 4096, kind="host", mode="644")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(4001)
            os.setuid(4001)
            shown = {a.name: a for a in gpumem.ls()}
            assert (shown["x"].size, shown["x"].owner, shown["x"].kind) == (4096, 0, None)
            assert shown["open"].kind == "host" and shown["open"].mode == 0o644
            with raises(errno.EACCES):
                gpumem.map("x")
            with raises(errno.EACCES):
                gpumem.map("open", write=True)
            gpumem.map("open").close()
            with raises(errno.EPERM):
                gpumem.free("open")
            status = 0
        except BaseException:
            traceback.print_exc()
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def run(tests):
    """Runs the case named on the command line."""
    try:
        tests["test_" + sys.argv[1]]()
    except skip as reason:
        print(reason)
        sys.exit(77)


if __name__ == "__main__":
    run(globals())
