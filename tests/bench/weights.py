#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Weights on the GPU, beside the other ways to get them there, in one run.

    python3 tests/bench/weights.py --gpumemd build-release/fuse/gpumemd

on a machine with a GPU, torch and safetensors. Takes library and package from the same build
and checkout, unless GPUMEM_LIBRARY names another. Starts a broker of its own, makes a model of
random bf16 weights as a safetensors file and as one of torch.save(), and lets every arm load
it in turns, each in a fresh process: torch is imported and its context made before the clock
starts, and the files are in the page cache.

    safetensors   safetensors.torch.load_file(device="cuda")
    torch.load    torch.load(mmap=True), each tensor copied to the GPU
    holder        a process that keeps the tensors and hands out CUDA IPC handles (torch's
                  reduce_tensor), as the weight caches of inference servers do
    load          gpumem.load() of a file that the broker does not have
    map           gpumem.map() of one that it has, and .torch()

The caches of inference servers (Dynamo's GMS, the daemons of vLLM and of sglang) are not on
the machines that this runs on, so they are not arms: the holder stands for their way.

Prints a table. A figure that misses its aim, or is worse than its yardstick, is called a
loss. `--only kill` needs neither torch nor a GPU: with --driver software it runs on the
software GPU, whose library must be found (LD_LIBRARY_PATH=build-release/tools/softgpu and
GPUMEM_SOFTGPU with the options of --driver).
"""

import argparse
import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib

ARMS = ("safetensors", "torch.load", "holder", "load", "map")
FIGURES = ("ready", "views", "memory", "matmul", "map", "kill")
NAME = "weights"


def bytes_of(text):
    """A number of bytes: 2G."""
    return int(float(text.rstrip("KMGT")) * 1024 ** ("KMGT".find(text[-1]) + 1))


def rate(size, seconds):
    return f"{size / seconds / 1e9:.1f} GB/s"


def ms(seconds):
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"


# ---- the model ----


def shapes_of(size, n):
    """Names and shapes of about size bytes of bf16 in about n tensors, as of a Llama."""
    layers = max((n - 3) // 9, 1)
    hidden = max(int((size / 2 / (13 * layers + 32)) ** 0.5) // 64 * 64, 64)
    shapes = {"embed_tokens.weight": (16 * hidden, hidden), "lm_head.weight": (16 * hidden, hidden)}
    for i in range(layers):
        for name, rows, columns in (
            ("q_proj", hidden, hidden),
            ("k_proj", hidden // 4, hidden),
            ("v_proj", hidden // 4, hidden),
            ("o_proj", hidden, hidden),
            ("gate_proj", hidden * 7 // 2, hidden),
            ("up_proj", hidden * 7 // 2, hidden),
            ("down_proj", hidden, hidden * 7 // 2),
        ):
            shapes[f"layers.{i}.{name}.weight"] = rows, columns
        shapes[f"layers.{i}.input_norm.weight"] = (hidden,)
        shapes[f"layers.{i}.post_norm.weight"] = (hidden,)
    return {**shapes, "norm.weight": (hidden,)}


def checksum(weights):
    """Reads every element."""
    import torch

    total = torch.zeros((), dtype=torch.int64, device="cuda")
    for tensor in weights.values():
        total += tensor.view(torch.int16).sum(dtype=torch.int64)
    return total.item()


# ---- programs that are started: weights.py --child NAME ARGUMENTS ----


def start_torch():
    import torch

    torch.cuda.init()
    torch.zeros(1, device="cuda").add_(1).item()
    # The checksum's kernels are loaded, too.
    checksum({"w": torch.zeros(64, dtype=torch.bfloat16, device="cuda")})
    torch.cuda.synchronize()
    return torch


def say(**words):
    print(json.dumps(words), flush=True)


def stay():
    """Until the parent lets go, or dies."""
    sys.stdin.read()


def child_make(folder, size, n):
    torch = start_torch()
    from safetensors.torch import save_file

    torch.manual_seed(1)
    weights = {
        name: torch.randn(shape, dtype=torch.bfloat16, device="cuda").cpu()
        for name, shape in shapes_of(int(size), int(n)).items()
    }
    save_file(weights, f"{folder}/model.safetensors", {"format": "pt"})
    torch.save(weights, f"{folder}/model.pt")
    say(
        checksum=checksum({name: w.cuda() for name, w in weights.items()}),
        size=sum(w.nbytes for w in weights.values()),
        n=len(weights),
    )


def child_holder(folder, at):
    torch = start_torch()
    from safetensors.torch import load_file
    from torch.multiprocessing.reductions import reduce_tensor
    import pickle

    weights = load_file(f"{folder}/model.safetensors", device="cuda")
    server = socket.socket(socket.AF_UNIX)
    server.bind(at)
    server.listen()
    say(ready=True)
    while True:
        client, _ = server.accept()
        handles = pickle.dumps({name: reduce_tensor(w) for name, w in weights.items()})
        client.sendall(b"r")
        if client.recv(1):
            client.sendall(len(handles).to_bytes(8, "little") + handles)
        client.close()


def arm_safetensors(folder, _at):
    from safetensors.torch import load_file

    yield
    yield load_file(f"{folder}/model.safetensors", device="cuda")


def arm_torch_load(folder, _at):
    import torch

    yield
    weights = torch.load(f"{folder}/model.pt", mmap=True, map_location="cpu", weights_only=True)
    yield {name: w.cuda() for name, w in weights.items()}


def arm_holder(_folder, at):
    import pickle
    import torch.multiprocessing.reductions

    with socket.socket(socket.AF_UNIX) as server:
        server.connect(at)
        server.recv(1)  # its handles are ready
        yield
        server.sendall(b"g")
        with server.makefile("rb") as file:
            handles = pickle.loads(file.read(int.from_bytes(file.read(8), "little")))
        yield {name: rebuild(*arguments) for name, (rebuild, arguments) in handles.items()}


def arm_load(folder, _at):
    import gpumem

    yield
    yield gpumem.load(f"{folder}/model.safetensors", NAME).torch()


def arm_map(_folder, _at):
    import gpumem

    yield
    yield gpumem.map(NAME).torch()


def child_arm(arm, folder, at, stays=""):
    torch = start_torch()
    steps = {
        "safetensors": arm_safetensors,
        "torch.load": arm_torch_load,
        "holder": arm_holder,
        "load": arm_load,
        "map": arm_map,
        "context": lambda *_: iter((None, {})),
    }[arm](folder, at)
    next(steps)  # its library is imported
    began = time.perf_counter()
    weights = next(steps)
    torch.cuda.synchronize()
    ready = time.perf_counter()
    found = checksum(weights)
    say(ready=ready - began, use=time.perf_counter() - ready, checksum=found)
    if stays:
        stay()


def child_views(n):
    torch = start_torch()
    import gpumem

    n = int(n)
    gpumem.publish(
        {f"w{i}": torch.full((64, 64), i % 100, dtype=torch.bfloat16, device="cuda") for i in range(n)},
        "views",
    )
    ours, hands = [], []
    for _ in range(11):
        with gpumem.map("views") as m:
            began = time.perf_counter()
            found = m.torch()
            ours.append(time.perf_counter() - began)
            rows, memory = dict(m.tensors), m.torch("u8")
            began = time.perf_counter()
            hand = {
                name: memory[t.offset : t.offset + t.nbytes].view(torch.bfloat16).view(t.shape)
                for name, t in rows.items()
            }
            hands.append(time.perf_counter() - began)
            assert all(torch.equal(found[name], hand[name]) for name in list(rows)[:: n // 10])
            del found, hand, memory
    say(first=ours[0], ours=statistics.median(ours), hand=statistics.median(hands))


def child_matmul(n):
    torch = start_torch()
    import gpumem

    n = int(n)
    made = {name: torch.randn(n, n, dtype=torch.bfloat16, device="cuda") for name in ("a", "b")}
    gpumem.publish(made, "matmul")
    leased = gpumem.map("matmul").torch()
    out = torch.empty(n, n, dtype=torch.bfloat16, device="cuda")
    times = {"own": [], "leased": []}
    for i in range(60):
        for which, side in (("own", made), ("leased", leased))[:: 1 if i % 2 else -1]:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(5):
                torch.matmul(side["a"], side["b"], out=out)
            end.record()
            end.synchronize()
            if i >= 10:
                times[which].append(begin.elapsed_time(end) / 5000)
    say(
        own=statistics.median(times["own"]),
        leased=statistics.median(times["leased"]),
        equal=bool(torch.equal(made["a"] @ made["b"], leased["a"] @ leased["b"])),
    )


class Cuda:
    """The driver's calls, in the primary context of device 0."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, function, *arguments):
        result = self.library[function](*arguments)
        if result:
            sys.exit(f"{function}: error {result}")

    def read(self, pointer, n):
        memory = ctypes.create_string_buffer(n)
        self.call("cuMemcpyDtoH_v2", memory, ctypes.c_uint64(pointer), ctypes.c_size_t(n))
        return memory.raw

    def fill(self, pointer, value, n):
        self.call("cuMemsetD8_v2", ctypes.c_uint64(pointer), ctypes.c_ubyte(value), ctypes.c_size_t(n))
        self.call("cuCtxSynchronize")


def bare_map(cuda, mount, name):
    """The least that a program needs: the lease's descriptor is not part of it. Seconds from
    the descriptor to mapped memory."""
    lease = os.open(f"{mount}/allocations/{name}/lease", os.O_RDONLY)
    info = dict(line.split(" ", 1) for line in os.read(lease, 4096).decode().splitlines())
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(info["socket"])
        server.send(info["ticket"].encode())
        (fd,) = socket.recv_fds(server, 1, 1)[1]
    handle, address = ctypes.c_uint64(), ctypes.c_uint64()
    size = ctypes.c_size_t(int(info["mapped_bytes"]))
    access = struct.pack("iii", 1, 0, 3)  # device 0, read and write
    began = time.perf_counter()
    cuda.call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), 1)
    cuda.call(
        "cuMemAddressReserve", ctypes.byref(address), size, ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0)
    )
    cuda.call("cuMemMap", address, size, ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
    cuda.call("cuMemSetAccess", address, size, access, ctypes.c_size_t(1))
    cuda.read(address.value, 4)
    took = time.perf_counter() - began
    cuda.call("cuMemUnmap", address, size)
    cuda.call("cuMemRelease", handle)
    cuda.call("cuMemAddressFree", address, size)
    os.close(fd)
    os.close(lease)
    return took


def child_map(size):
    import gpumem

    cuda = Cuda()
    gpumem.alloc("large", int(size))
    gpumem.map("large").close()  # waits for its zeros
    ours, bare = [], []
    for _ in range(11):
        began = time.perf_counter()
        m = gpumem.map("large")
        cuda.read(m.pointer, 4)
        ours.append(time.perf_counter() - began)
        m.close()
        bare.append(bare_map(cuda, os.environ["GPUMEM_MOUNT"], "large"))
    gpumem.free("large")
    say(ours=statistics.median(ours), first=ours[0], bare=statistics.median(bare))


def child_read(name):
    """Reads for ever."""
    import gpumem

    cuda, m = Cuda(), gpumem.map(name)
    say(ready=True)
    while True:
        cuda.read(m.pointer, min(m.size, 16 << 20))


def child_write(name):
    """Writes for ever, half of the time in its turn."""
    import gpumem

    cuda, m = Cuda(), gpumem.map(name, write=True)
    say(ready=True)
    while True:
        with m.hold(write=True) if random.random() < 0.5 else contextlib.nullcontext():
            cuda.fill(m.pointer, random.randrange(256), m.size)


def child_load(path, name):
    import gpumem

    say(ready=True)
    gpumem.load(path, name).close()
    say(loaded=True)
    stay()


# ---- the parent ----


class Child:
    def __init__(self, what, *arguments):
        self.what = what
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--child", what, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def listen(self):
        """What it says next."""
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"weights: the program {self.what} has failed, exit status {self.process.wait()}")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.end()


def ask(what, *arguments):
    child = Child(what, *arguments)
    try:
        return child.listen()
    finally:
        child.end()


class Broker:
    """A broker on a mount point of its own."""

    def __init__(self, gpumemd, driver, folder):
        self.mount = f"{folder}/mnt"
        os.mkdir(self.mount)
        option = ["--driver", driver] if driver else []
        # A worker that ended meanwhile would change the memory in use.
        option += ["--worker-idle", "3600"]
        self.process = subprocess.Popen([gpumemd, "-f", *option, self.mount])
        while not os.path.exists(f"{self.mount}/version"):
            if self.process.poll() is not None:
                sys.exit("weights: the broker did not start")
            time.sleep(0.02)
        os.environ["GPUMEM_MOUNT"] = self.mount

    def status(self):
        with open(f"{self.mount}/status") as file:
            return dict(line.rstrip("\n").split(" ", 1) for line in file)

    def end(self):
        self.process.terminate()
        self.process.wait()


def used():
    """Bytes in use on the GPU, by everybody; 0 without one."""
    if not shutil.which("nvidia-smi"):
        return 0
    command = ["nvidia-smi", "-i", "0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.check_output(command, text=True)) << 20


class Table:
    def __init__(self):
        self.rows = []

    def add(self, figure, yardstick, aim, got, met=None):
        verdict = {None: "", True: "met", False: "LOSS"}[met]
        self.rows.append((figure, yardstick, aim, got, verdict))
        print(f"# {figure}: {got} (yardstick {yardstick}; aim {aim}) {verdict}", file=sys.stderr)

    def show(self):
        print("| figure | yardstick in the same run | aim | got | |")
        print("|---|---|---|---|---|")
        for row in self.rows:
            print(f"| {' | '.join(row)} |")


def free(name):
    import gpumem

    if name in (a.name for a in gpumem.ls()):
        gpumem.free(name)


def measure_ready(table, options, folder, made):
    """Every arm in turns."""
    at = f"{folder}/holder"
    holder = Child("holder", folder, at)
    holder.listen()
    found = {arm: [] for arm in ARMS}
    for _ in range(options.rounds):
        for arm in ARMS:
            if arm == "load":
                free(NAME)
            answer = ask("arm", arm, folder, at)
            if answer["checksum"] != made["checksum"]:
                sys.exit(f"weights: {arm} has other weights")
            found[arm].append(answer)
    holder.kill()
    ready = {arm: statistics.median(a["ready"] for a in found[arm]) for arm in ARMS}
    use = {arm: statistics.median(a["use"] for a in found[arm]) for arm in ARMS}
    size = made["size"]
    files = min(ready["safetensors"], ready["torch.load"])
    what = f"weights ready in a new process, {size / 1e9:.1f} GB, {made['n']} tensors"
    for arm in ("safetensors", "torch.load", "holder"):
        words = f"{ms(ready[arm])} ({rate(size, ready[arm])}), first use {ms(use[arm])}"
        table.add(f"{what}: {arm}", "", "", words)
    table.add(
        f"{what}: gpumem.map and .torch()",
        f"holder {ms(ready['holder'])}, the better of the files {ms(files)}",
        "8 ms",
        f"{ms(ready['map'])}, first use {ms(use['map'])}",
        ready["map"] <= 0.008 and ready["map"] < ready["holder"],
    )
    table.add(
        f"{what}: gpumem.load, not in the broker yet",
        f"safetensors {rate(size, ready['safetensors'])}, torch.load {rate(size, ready['torch.load'])}",
        "30 GB/s, 4x safetensors",
        f"{rate(size, ready['load'])} ({ms(ready['load'])}), {ready['safetensors'] / ready['load']:.1f}x, "
        f"first use {ms(use['load'])}",
        size / ready["load"] >= 30e9 and ready["safetensors"] >= 4 * ready["load"],
    )


def measure_views(table, options, folder, made):
    got = ask("views", 1000)
    free("views")
    table.add(
        "1000 tensors as torch tensors, the table read",
        f"the same views by hand {ms(got['hand'])}",
        "20 ms, 1.5x",
        f"{ms(got['ours'])}, {got['ours'] / got['hand']:.2f}x; the first time {ms(got['first'])}",
        got["first"] <= 0.020 and got["ours"] <= 1.5 * got["hand"],
    )


def measure_memory(table, options, folder, made):
    free(NAME)
    ask("arm", "load", folder, "")
    free(NAME)
    time.sleep(1)
    base = used()
    child = Child("arm", "context", folder, "", "stays")
    child.listen()
    context = used() - base
    child.end()
    ask("arm", "load", folder, "")
    for arm in ("map", "safetensors"):
        said = []
        for n in (1, 2, 4):
            children = [Child("arm", arm, folder, "", "stays") for _ in range(n)]
            for child in children:
                child.listen()
            said.append((n, used() - base))
            for child in children:
                child.end()
        own = made["size"] if arm == "map" else 0
        each = [(total - own) / n for n, total in said]
        words = ", ".join(f"{n}: {total / 2**30:.2f} GiB" for n, total in said)
        most = max(each) if arm == "map" else None
        table.add(
            f"memory of 1, 2, 4 processes with the {made['size'] / 2**30:.2f} GiB: {arm}",
            f"a context alone {context / 2**20:.0f} MiB",
            "once, and a context each" if most else "",
            words + (f"; beside the weights at most {most / 2**20:.0f} MiB each" if most else ""),
            None if most is None else most <= 1.1 * context + (64 << 20),
        )


def measure_matmul(table, options, folder, made):
    got = ask("matmul", 8192)
    free("matmul")
    ratio = got["leased"] / got["own"]
    table.add(
        "bf16 matmul 8192, leased / own memory",
        f"own {ms(got['own'])}",
        "1.00 ± 0.01, equal results",
        f"{ratio:.3f}{'' if got['equal'] else ', OTHER RESULTS'}",
        abs(ratio - 1) <= 0.01 and got["equal"],
    )


def measure_map(table, options, folder, made):
    free(NAME)
    got = ask("map", options.map)
    table.add(
        f"gpumem.map() of {options.map / 2**30:.0f} GiB, to the first bytes read",
        f"bare import and map {ms(got['bare'])}",
        "2.5 ms",
        f"{ms(got['ours'])}; the first time {ms(got['first'])}",
        got["ours"] <= 0.0025,
    )


def plain_model(path, size):
    """A safetensors file without torch."""
    rows, n = {}, 16
    each = size // n // 4096 * 4096
    for i in range(n):
        rows[f"w{i}"] = {"dtype": "U8", "shape": [each], "data_offsets": [i * each, (i + 1) * each]}
    text = json.dumps(rows).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        left = n * each
        while left:
            left -= file.write(random.Random(left).randbytes(min(left, 1 << 20)))


def digest(name):
    """Of all bytes, read through the mount."""
    found = 0
    with open(f"{os.environ['GPUMEM_MOUNT']}/allocations/{name}/data", "rb", buffering=0) as file:
        while piece := file.read(4 << 20):
            found = zlib.crc32(piece, found)
    return found


def eventually(what, holds, seconds=30):
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return [what]
        time.sleep(0.01)
    return []


def measure_kill(table, options, folder, made):
    import gpumem

    size, path = options.kill_size, f"{folder}/kill.safetensors"
    plain_model(path, size)
    gpumem.load(path, "loaded").close()
    began = time.monotonic()
    gpumem.load(path, "kept").close()
    loads = time.monotonic() - began
    gpumem.free("loaded")
    expected = digest("kept")
    gpumem.alloc("written", size)
    gpumem.command("control/fill", "written u8:7")
    filled = digest("written")
    broker = options.broker
    at_rest, used_at_rest = broker.status(), used()
    names = lambda: {a.name for a in gpumem.ls()}
    lost, halves = [], 0
    for _ in range(options.kill):
        children = [Child("read", "kept"), Child("write", "written"), Child("load", path, "loaded")]
        for child in children:
            child.listen()
        time.sleep(random.random() * 2 * loads)
        random.shuffle(children)
        for child in children:
            child.kill()
        lost += eventually("leases", lambda: broker.status()["leases"] == at_rest["leases"])
        lost += eventually("part", lambda: "loaded.part" not in names())
        halves += "loaded" not in names()
        with gpumem.load(path, "loaded") as m:
            lost += [] if len(m.tensors) == 16 else ["tensors"]
        lost += [] if digest("loaded") == expected else ["loaded"]
        lost += [] if digest("kept") == expected else ["kept"]
        gpumem.command("control/fill", "written u8:7")
        lost += [] if digest("written") == filled else ["written"]
        gpumem.free("loaded")
    for key in ("bytes", "device_bytes", "leased_bytes", "freed_leased_bytes"):
        lost += eventually(key, lambda: broker.status()[key] == at_rest[key])
    lost += eventually("memory of the GPU", lambda: used() <= used_at_rest + (64 << 20))
    free("kept")
    free("written")
    table.add(
        f"kill -9 of a reader, a loader and a writer at once, {options.kill} rounds of {size >> 20} MiB",
        f"{halves} loads were cut off",
        "0 lost: all checksums, memory back",
        f"{len(lost)} lost" + (f": {', '.join(sorted(set(lost)))}" if lost else ""),
        not lost,
    )


def main():
    parser = argparse.ArgumentParser(description="weights on the GPU, by gpumem and otherwise")
    parser.add_argument("--gpumemd", default="build-release/fuse/gpumemd", help="the broker")
    parser.add_argument("--driver", help="the broker's driver (libcuda.so.1)")
    parser.add_argument("--folder", default="/tmp", help="of the model's files: twice its size")
    parser.add_argument("--size", type=bytes_of, default="2G", help="bytes of the model (2G)")
    parser.add_argument("--tensors", type=int, default=291, help="how many, about (291)")
    parser.add_argument("--rounds", type=int, default=4, help="of all arms (4)")
    parser.add_argument("--map", type=bytes_of, default="64G", help="bytes to be mapped (64G)")
    parser.add_argument("--kill", type=int, default=100, help="rounds of kill -9 (100)")
    parser.add_argument("--kill-size", type=bytes_of, default="256M", help="bytes there (256M)")
    parser.add_argument("--only", action="append", choices=FIGURES, help="figures (all)")
    options = parser.parse_args()
    only = options.only or FIGURES
    build = os.path.dirname(os.path.dirname(os.path.abspath(options.gpumemd)))
    package = os.path.abspath(f"{os.path.dirname(__file__)}/../../tools/python")
    os.environ.setdefault("GPUMEM_LIBRARY", f"{build}/broker/client/libgpumem.so.0")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    sys.path.insert(0, package)
    table = Table()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        options.broker = Broker(os.path.abspath(options.gpumemd), options.driver, folder)
        try:
            made = None
            if {"ready", "memory"} & set(only):
                made = ask("make", folder, options.size, options.tensors)
                for file in ("model.safetensors", "model.pt"):
                    with open(f"{folder}/{file}", "rb", buffering=0) as opened:
                        while opened.read(1 << 24):
                            pass
            for figure in only:
                globals()[f"measure_{figure}"](table, options, folder, made)
        finally:
            options.broker.end()
    table.show()
    return 1 if any(row[4] == "LOSS" for row in table.rows) else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        globals()[f"child_{sys.argv[2]}"](*sys.argv[3:])
    else:
        sys.exit(main())
