#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kills and upgrades the broker many times beside a program that computes in leased memory.

    GPUMEMD=build-release/fuse/gpumemd python3 tests/gpu/deaths.py \\
        [--deaths N] [--upgrades N] [--other FOLDER] [--held SIZE]

--deaths N: the broker is killed N times (10). --upgrades N: then it is upgraded N times (2),
in turns to the build in FOLDER and back (to the same build). --held SIZE of device memory,
for each of 8 allocations, is held all the while (2M). GPUMEM_DRIVER is the driver (software).

A program computes throughout in a lease: PyTorch on the GPU where both are, else Python in
host memory. After each death ids, addresses and bytes are compared. Speaks TAP; the comments
have the times from a kill to the next line that was answered and to the next allocation. At
the end the keeper and the broker are killed together, and all memory must be free.
"""
import argparse
import ctypes
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = ("fuse/gpumemd", "broker/worker/gpumem-worker", "tools/softgpu/libcuda.so.1")

COMPUTE = """
import sys, gpumem
m = gpumem.map("computed", write=True)
if m.device is None:
    array = m.memoryview().cast("i")
    smallest, largest = min, max
    def add():
        for i in range(len(array)):
            array[i] += 1
else:
    import torch
    array = m.torch("i32", (16 << 20,))
    smallest, largest = torch.min, torch.max
    def add(): array.add_(1)
address, n, end = m.address, 0, []
import signal
signal.signal(signal.SIGTERM, lambda *_: end.append(1))
print("begun", flush=True)
while not end:
    add()
    n += 1
    assert int(smallest(array)) == int(largest(array)) == n, n
assert m.state == "live" and m.address == address
print(n, flush=True)
"""


class Failed(Exception):
    pass


def check(true, sentence):
    if not true:
        raise Failed(sentence)


def eventually(condition, sentence, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < deadline, sentence)
        time.sleep(0.001)


class Session:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.mount = folder + "/mnt"
        self.driver = os.environ.get("GPUMEM_DRIVER", "software")
        self.software = self.driver.startswith("software")
        self.build = os.path.dirname(os.path.dirname(os.path.realpath(os.environ["GPUMEMD"])))
        self.program = folder + "/installed/fuse/gpumemd"
        self.patterns = {}
        self.before = {}

    def install(self, build):
        """As a package does: the files of a build, each by a rename."""
        for part in PARTS:
            path = f"{self.folder}/installed/{part}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.exists(f"{build}/{part}"):
                shutil.copy(f"{build}/{part}", path + ".new")
                os.rename(path + ".new", path)

    def file(self, path):
        with open(f"{self.mount}/{path}") as opened:
            return opened.read().strip()

    def say(self, control, line):
        with open(f"{self.mount}/control/{control}", "w") as opened:
            opened.write(line + "\n")

    def said(self):
        with open(self.folder + "/stderr") as opened:
            return opened.read()

    def device_memory_used(self):
        memory = (ctypes.c_ulonglong * 3)()
        check(self.nvml.nvmlDeviceGetMemoryInfo(self.device, memory) == 0, "NVML does not answer")
        return memory[2]

    def start(self):
        if self.software:
            self.driver += f":machine=deaths-{os.getpid()}:memory=1G"
        else:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
            self.device = ctypes.c_void_p()
            self.nvml.nvmlInit_v2()
            self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))
            self.used_before = self.device_memory_used()
        os.mkdir(self.mount)
        self.install(self.build)
        self.start_broker()
        self.free_before = self.free()

    def free(self):
        return os.statvfs(self.mount).f_bfree

    def start_broker(self):
        with open(self.folder + "/stderr", "w") as stderr:
            self.keeper = subprocess.Popen([self.program, "-f", "--keep", "--driver", self.driver, self.mount],
                                           stdin=subprocess.DEVNULL, stderr=stderr)
        eventually(lambda: os.path.exists(self.mount + "/version"), "the broker does not start")

    def allocate(self):
        size = self.arguments.held
        for i in range(8):
            self.say("alloc", f"held.{i} {size}")
            self.say("fill", f"held.{i} u32:{0x01010101 * (i + 1)}")
            self.patterns[f"held.{i}"] = bytes([i + 1]) * (1 << 20)
        self.say("alloc", "shared 1M kind=host")
        self.patterns["shared"] = os.urandom(1 << 20)
        with open(self.mount + "/allocations/shared/data", "r+b", buffering=0) as data:
            data.write(self.patterns["shared"])
        computed = "4K kind=host" if self.software or not has_torch() else "64M"
        self.say("alloc", "computed " + computed)
        self.before = self.objects()

    def objects(self):
        return {name: [self.file(f"allocations/{name}/{file}") for file in ("id", "address", "size_bytes", "kind", "state")]
                for name in sorted(os.listdir(self.mount + "/allocations"))}

    def compute(self):
        environment = dict(os.environ, GPUMEM_MOUNT=self.mount)
        environment.setdefault("PYTHONPATH", os.path.join(HERE, "../../tools/python"))
        library = environment.setdefault("GPUMEM_LIBRARY", self.build + "/broker/client/libgpumem.so.0")
        # A library built with a sanitizer needs the sanitizer's own library loaded first.
        needed = subprocess.run(["ldd", library], stdout=subprocess.PIPE, text=True, check=True).stdout
        environment["LD_PRELOAD"] = " ".join(re.findall(r"=> (\S*/lib(?:a|ub|t)san\S*)", needed))
        environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        self.program_with_a_lease = subprocess.Popen([sys.executable, "-c", COMPUTE], env=environment,
                                                     stdout=subprocess.PIPE, text=True)
        check(self.program_with_a_lease.stdout.readline() == "begun\n", "the program with a lease does not begin")

    def check_all(self, turn):
        after = self.objects()
        check(after == self.before, f"objects differ: {after} {self.before}")
        check(self.program_with_a_lease.poll() is None, "the program with a lease has ended")
        for i, (name, pattern) in enumerate(self.patterns.items()):
            size = int(self.before[name][2])
            offset = ((turn * 7919 + i) << 20) % size
            with open(f"{self.mount}/allocations/{name}/data", "rb", buffering=0) as data:
                check(os.pread(data.fileno(), 1 << 20, offset) == pattern, f"{name} has other bytes at {offset}")

    def has_standby(self):
        return subprocess.run(["pgrep", "-x", "-P", str(self.keeper.pid), "gpumemd-standby"],
                              stdout=subprocess.DEVNULL).returncode == 0

    def die(self, turn):
        """Returns the seconds to the next line that is answered and to the next allocation."""
        eventually(self.has_standby, "there is no standby")
        pid = int(self.file("pid"))
        begin = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        self.say("synchronize", "default")
        answered = time.monotonic() - begin
        self.say("alloc", "next 4K")
        allocated = time.monotonic() - begin
        check(int(self.file("pid")) != pid, "the same broker")
        self.say("free", "next")
        self.check_all(turn)
        return answered, allocated

    def upgrade(self, turn):
        self.install(self.arguments.other if turn % 2 == 0 and self.arguments.other else self.build)
        pid, before = self.file("pid"), self.said()
        begin = time.monotonic()
        self.keeper.send_signal(signal.SIGHUP)
        eventually(lambda: self.said() != before and self.said().endswith("\n"), "the keeper says nothing")
        took = time.monotonic() - begin
        check(": upgraded: " in self.said()[len(before):], self.said()[len(before):])
        check(self.file("pid") != pid, "the same broker")
        self.check_all(turn)
        return took

    def stop_computing(self):
        self.program_with_a_lease.send_signal(signal.SIGTERM)
        said = self.program_with_a_lease.communicate(timeout=60)[0]
        check(self.program_with_a_lease.returncode == 0, "the program with a lease failed")
        print(f"# the program with a lease computed {said.strip()} times")

    def check_every_byte(self):
        for name, pattern in self.patterns.items():
            with open(f"{self.mount}/allocations/{name}/data", "rb", buffering=0) as data:
                for offset in range(0, int(self.before[name][2]), 1 << 20):
                    check(data.read(1 << 20) == pattern, f"{name} has other bytes at {offset}")

    def end(self):
        pid = int(self.file("pid"))
        begin = time.monotonic()
        self.keeper.kill()
        os.kill(pid, signal.SIGKILL)
        self.keeper.wait()
        if not self.software:
            eventually(lambda: self.device_memory_used() <= self.used_before, "memory is held after the end of both")
            print(f"# all memory was free {(time.monotonic() - begin) * 1e3:.0f} ms after the end of keeper and broker")
        subprocess.run(["umount", self.mount] if os.geteuid() == 0 else ["fusermount3", "-u", self.mount], check=True)
        self.start_broker()
        # The last workers may still be ending.
        eventually(lambda: not self.software or self.free() == self.free_before, "memory is held after the end of both")
        self.keeper.terminate()
        check(self.keeper.wait(timeout=30) == 0, "the next broker does not end")


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def figures(what, seconds):
    values = [value * 1e3 for value in seconds]
    print(f"# {what}: median {statistics.median(values):.1f} ms, {min(values):.1f} to {max(values):.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deaths", type=int, default=10)
    parser.add_argument("--upgrades", type=int, default=2)
    parser.add_argument("--other")
    parser.add_argument("--held", default="2M")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="gpumem.")
    session = Session(arguments, folder)
    died, failed = [], 0

    def deaths():
        for turn in range(arguments.deaths):
            died.append(session.die(turn))
        figures("from a kill to the next answered line", [a for a, _ in died])
        figures("from a kill to the next allocation", [b for _, b in died])

    def upgrades():
        figures("an upgrade", [session.upgrade(turn) for turn in range(arguments.upgrades)])

    cases = [("a_session_begins", lambda: (session.start(), session.allocate(), session.compute())),
             (f"{arguments.deaths}_deaths_lose_nothing", deaths),
             (f"{arguments.upgrades}_upgrades_lose_nothing", upgrades),
             ("the_lease_was_good_all_the_while", session.stop_computing),
             ("every_byte_is_there", session.check_every_byte),
             ("no_memory_is_held_after_the_end_of_both", session.end)]
    try:
        for number, (name, case) in enumerate(cases, 1):
            try:
                case()
                print(f"ok {number} - {name}", flush=True)
            except (Failed, OSError, subprocess.SubprocessError) as problem:
                failed += 1
                print(f"not ok {number} - {name}\n# {problem}\n# {session.said()}", flush=True)
                if number == 1:
                    break
        print(f"1..{number}")
    finally:
        subprocess.run(["umount", "-l", session.mount] if os.geteuid() == 0 else ["fusermount3", "-uz", session.mount],
                       stderr=subprocess.DEVNULL, check=False)
        for process in (getattr(session, "program_with_a_lease", None), getattr(session, "keeper", None)):
            if process and process.poll() is None:
                process.kill()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(f"/dev/shm/gpumem-softgpu.deaths-{os.getpid()}", ignore_errors=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
