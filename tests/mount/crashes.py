"""A session that a broker doesn't survive: it kills itself at each step of its own.

    python3 crashes.py FOLDER GPUMEMD once STRIDE FIRST
    python3 crashes.py FOLDER GPUMEMD twice STRIDE FIRST SEED
    python3 crashes.py FOLDER GPUMEMD recovery POINT

FOLDER has mnt, the mount of a broker with a keeper; pid, the keeper's process; stderr,
what both have said; plan, their GPUMEM_CRASH. The session runs again and again. In each
run the broker dies, one point of broker/base/crash.h further on (with STRIDE, that many),
until a run ends before its point is reached. With `twice` the next broker dies, too, up
to 120 points later; with `recovery` the first dies at POINT of each run, and the next 1 to
120 points later. Each line of the session is answered: done, or EIO with the sentence;
then it is looked up and done again. After each run all is compared: objects, records,
descriptors of the keeper, and the driver's memory.
"""
import errno
import mmap
import os
import random
import re
import socket
import struct
import subprocess
import sys
import time

import backing

FOLDER, GPUMEMD = sys.argv[1:3]
M = f"{FOLDER}/mnt"
SENTENCES = ("the broker died while this was under way: look whether it was done",
             "two brokers died while this was under way, and it is not tried again")
MIB = 1 << 20
PAGE = 4096
is_software = os.environ.get("GPUMEM_DRIVER", "software").startswith("software")
OTHER = 1234  # a user who has limits and nothing else


class Wrong(Exception):
    """What is there is not what was promised."""


def expect(is_so, *what):
    if not is_so:
        raise Wrong(" ".join(str(one) for one in what))


def text_of(path):
    with open(f"{M}/{path}") as file:
        return file.read()


def read(path):
    """The text of a file. A descriptor from before a death is stale: then once more."""
    return attempt(lambda: text_of(path))


def value(path, key):
    return next(int(line.split()[1]) for line in read(path).splitlines()
                if line.split()[0] == key)


def eventually(look, *what):
    """Waits until look() returns nothing; else what it returned is wrong."""
    deadline = time.monotonic() + 20
    while wrong := look():
        expect(time.monotonic() < deadline, *what, wrong)
        time.sleep(0.01)


# ---- the broker's points ----

class Plan:
    """struct crash_plan of broker/base/crash.h."""
    N_DEATHS = 8

    def __init__(self):
        self.file = os.open(f"{FOLDER}/plan", os.O_RDWR)

    def points(self):
        return struct.unpack("Q", os.pread(self.file, 8, 0))[0]

    def deaths(self):
        return struct.unpack("Q", os.pread(self.file, 8, 8 * (self.N_DEATHS + 2)))[0]

    def where(self):
        return os.pread(self.file, 64, 8 * (self.N_DEATHS + 3)).split(b"\0")[0].decode()

    def die_at(self, *points):
        at = list(points) + [0] * (self.N_DEATHS - len(points))
        os.pwrite(self.file, struct.pack(f"{self.N_DEATHS}Q", *at), 8)


# ---- lines that may be cut off ----

def newest_error():
    """Of those that are not about a look at `errors` itself."""
    for _ in range(4):
        try:
            lines = [one for one in text_of("errors").splitlines() if " errors E" not in one]
            return lines[-1] if lines else ""
        except OSError as error:
            if error.errno not in (errno.EIO, errno.ESTALE):
                raise
    raise Wrong("errors can't be read")


def attempt(do, done=lambda: False):
    """Does something, once. An error of a death: looks whether it is done, or does it again."""
    for _ in range(4):
        try:
            return do()
        except OSError as error:
            if error.errno not in (errno.EIO, errno.ESTALE):
                raise
            if error.errno == errno.EIO:
                expect(newest_error().endswith(SENTENCES), "EIO, and errors has:", newest_error())
        if done():
            return None
    raise Wrong("four tries, and a plan of two deaths")


def write(path, text):
    with open(f"{M}/{path}", "wb", buffering=0) as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def line(verb, text, done=lambda: False):
    attempt(lambda: write(f"control/{verb}", text), done)


def exists(path):
    try:
        attempt(lambda: os.lstat(f"{M}/{path}"))
        return True
    except FileNotFoundError:
        return False


def is_there(path):
    return lambda: exists(path)


def is_gone(path):
    return lambda: not exists(path)


def make_folder(path):
    attempt(lambda: os.mkdir(f"{M}/{path}", 0o750), is_there(path))


def remove(path):
    attempt(lambda: os.rmdir(f"{M}/{path}"), is_gone(path))


def rename(old, new):
    attempt(lambda: os.rename(f"{M}/{old}", f"{M}/{new}"), is_there(new))


# ---- objects ----

class Allocation:
    """What is promised of an allocation."""
    ids = set()

    def __init__(self, name, size, options="", kind="device"):
        self.name, self.size, self.kind, self.tag = name, size, kind, "none"
        self.tensors = ""
        self.mode, self.sealed, self.bytes = 0o600, "0", bytes(size)
        line("alloc", f"{name} {size} kind={kind} {options}", is_there(self.path()))
        self.id = self.value("id")
        self.address = self.value("address")
        self.inode = self.stat().st_ino
        expect(self.id not in Allocation.ids, "the id of", name, "was given before:", self.id)
        Allocation.ids.add(self.id)
        session.objects.append(self)

    def path(self, absolute=False, file=""):
        path = f"allocations/{self.name}" + (f"/{file}" if file else "")
        return f"{M}/{path}" if absolute else path

    def stat(self):
        return attempt(lambda: os.stat(self.path(True)))

    def value(self, file):
        return read(self.path(file=file)).strip()

    def write(self, content):
        """Writes all of the data, as cp does: after an error of the last close once more."""
        def do():
            with open(self.path(True, "data"), "r+b", buffering=0) as file:
                for at in range(0, len(content), MIB):
                    file.write(content[at:at + MIB])
        attempt(do, lambda: self.data() == content)
        self.bytes = content

    def data(self):
        def do():
            with open(self.path(True, "data"), "rb", buffering=0) as file:
                parts = iter(lambda: file.read(MIB), b"")
                return b"".join(parts)
        return attempt(do)

    def chmod(self, mode):
        attempt(lambda: os.chmod(self.path(True), mode))
        self.mode = mode

    def set(self, file, text):
        attempt(lambda: write(self.path(file=file), text),
                lambda: self.value(file) == text)
        setattr(self, file, text)

    def move(self, name):
        rename(self.path(), f"allocations/{name}")
        self.name = name

    def free(self):
        remove(self.path())
        session.objects.remove(self)

    def check(self):
        for file in ("id", "address", "tag", "sealed", "kind", "tensors"):
            expect(self.value(file) == getattr(self, file), file, "of", self.name, "is",
                   self.value(file), "and was", getattr(self, file))
        stat = self.stat()
        expect(stat.st_mode & 0o666 == self.mode, "mode of", self.name, oct(stat.st_mode))
        expect(stat.st_ino == self.inode, "inode of", self.name)
        expect(int(self.value("size_bytes")) == self.size, "size of", self.name)
        expect(self.value("state") == "live", self.name, "is", self.value("state"))
        expect(self.data() == self.bytes, "the bytes of", self.name)


class Mapped:
    """Host memory that a program maps by `data`, across the deaths."""

    def __init__(self):
        self.allocation = Allocation("mapped", MIB, kind="host")
        self.fd = attempt(lambda: os.open(self.allocation.path(True, "data"), os.O_RDWR))
        self.memory = mmap.mmap(self.fd, MIB)
        self.allocation.bytes = pattern(MIB, 6)
        self.memory[:] = self.allocation.bytes

    def check(self):
        expect(self.memory[:] == self.allocation.bytes, "the bytes of the mapping")

    def close(self):
        self.memory.close()
        close(self.fd)


class Module:
    """A kernel that adds 1; each launch is done once, or was an error and is not done."""
    IMAGE = b"""\
.version 7.0
.target sm_52
.address_size 64
.visible .entry add(.param .u64 sum)
{
	.reg .b32 %v;
	.reg .b64 %a;
	ld.param.u64 %a, [sum];
	ld.global.u32 %v, [%a];
	add.u32 %v, %v, 1;
	st.global.u32 [%a], %v;
	ret;
}
"""

    def __init__(self, name):
        self.name, self.n_launched = name, 0
        make_folder(self.path())
        attempt(lambda: write(self.path("image"), self.IMAGE),
                lambda: self.state() == "loaded")
        self.functions = self.listed()
        session.modules.append(self)

    def path(self, file=""):
        return f"modules/{self.name}" + (f"/{file}" if file else "")

    def state(self):
        return read(self.path("state")).strip()

    def listed(self):
        """Names and inodes."""
        def do():
            with os.scandir(f"{M}/{self.path('functions')}") as entries:
                return sorted((entry.name, entry.inode()) for entry in entries)
        return attempt(do)

    def launch(self, to):
        self.n_launched += 1
        to.bytes = struct.pack("I", self.n_launched) + to.bytes[4:]
        line("launch", f"{self.name} add grid=1 block=1 {to.name}",
             lambda: to.data() == to.bytes)

    def move(self, name):
        rename(self.path(), f"modules/{name}")
        self.name = name

    def free(self):
        remove(self.path())
        session.modules.remove(self)

    def check(self):
        expect(self.state() == "loaded", self.name, "is", self.state())
        expect(read(self.path("image")).encode() == self.IMAGE, "image of", self.name)
        expect(self.listed() == self.functions, "functions:", self.listed(), self.functions)


def pattern(size, seed):
    return random.Random(seed).randbytes(size)


class Lease:
    """An open lease; its ticket fetches memory."""

    def __init__(self, allocation):
        self.fd = attempt(lambda: os.open(allocation.path(True, "lease"), os.O_RDWR))
        self.ticket = self.text("ticket")

    def text(self, key):
        rows = attempt(lambda: os.pread(self.fd, 4096, 0)).decode().splitlines()
        return next(row.split()[1] for row in rows if row.split()[0] == key)

    def fetch(self):
        """The memory's descriptor; a connection of before a death has ended without one."""
        for _ in range(4):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                try:
                    connection.connect(attempt(lambda: os.readlink(f"{M}/socket")))
                    connection.send(self.ticket.encode())
                    answer, fds, _, _ = socket.recv_fds(connection, 1, 1)
                except (BrokenPipeError, ConnectionResetError):
                    continue
            if answer:
                expect(answer == b"\0" and len(fds) == 1, "the ticket fetched", answer, fds)
                os.close(fds[0])
                return
        raise Wrong("the ticket fetched nothing, four times")

    def hold(self):
        """A hold ends with its broker, and nobody is told: the next word is an error then."""
        attempt(lambda: os.write(self.fd, b"hold w\n"), lambda: self.text("hold") == "w")
        try:
            attempt(lambda: os.write(self.fd, b"release\n"),
                    lambda: self.text("hold") == "none")
        except OSError as error:
            expect(error.errno == errno.EINVAL, "release:", error)

    def check(self):
        expect(self.text("ticket") == self.ticket, "the ticket is another")
        self.fetch()

    def close(self):
        os.close(self.fd)


# ---- the session ----

def close(fd):
    """A descriptor of before a death is stale, and closed nevertheless."""
    try:
        os.close(fd)
    except OSError as error:
        expect(error.errno in (errno.ESTALE, errno.EIO), "close:", error)


class Temporary:
    """An allocation that ends with its descriptor, or with the broker."""

    def __init__(self):
        self.fd = -1
        attempt(self.make, is_there("allocations/temporary"))

    def make(self):
        if self.fd >= 0:
            self.close()
        self.fd = os.open(f"{M}/control/alloc", os.O_WRONLY)
        os.write(self.fd, b"temporary 2M kind=host until=close")

    def close(self):
        close(self.fd)
        self.fd = -1

    def end(self):
        self.close()
        eventually(lambda: exists("allocations/temporary") and "temporary memory is there still")


class Session:
    def __init__(self):
        self.objects, self.modules, self.lease, self.mapped = [], [], None, None

    def limits(self):
        """An owner without anything is there for a while yet, so mkdir is for the first."""
        folder = f"owners/{OTHER}"
        if not is_there(folder)():
            make_folder(folder)
        attempt(lambda: write(f"{folder}/max", "host 3M streams 3"))

    def check_limits(self):
        limits = read(f"owners/{OTHER}/max")
        expect("host 3145728\n" in limits, "limits of", OTHER, "are", limits)

    def forget_limits(self):
        attempt(lambda: write(f"owners/{OTHER}/max", "default"))

    def run(self):
        big = Allocation("big", 4 * MIB, "tag=first")
        big.tag = "first"
        big.write(pattern(big.size, 1))
        small = Allocation("small", PAGE)
        host = Allocation("host", 100 * 1000, kind="host")
        host.write(pattern(host.size, 2))
        small.write(pattern(small.size, 3))
        self.mapped = Mapped()
        self.limits()
        temporary = Temporary()
        make_folder("allocations/folder")
        make_folder("allocations/folder/below")
        small.move("folder/below/renamed")
        rename("allocations/folder", "allocations/models")
        small.name = "models/below/renamed"
        host.chmod(0o640)
        big.set("tag", "second")
        big.set("tensors", '{"first":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}')
        host.set("tensors", "{}")
        big.set("tensors", '{"next":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}')
        self.streams()
        host.set("sealed", "1")
        self.lease = Lease(big)
        self.lease.hold()
        copy = Allocation("copy", 4 * MIB, "guard=1")
        line("copy", "copy from=big")
        copy.bytes = big.bytes
        line("fill", "copy i32:7 length=4096")
        copy.bytes = b"\7\0\0\0" * 1024 + copy.bytes[4096:]
        temporary.end()
        self.files(copy)
        self.launches()
        self.publish(small)
        self.truncate()
        managed = Allocation("managed", MIB, kind="managed")
        managed.free()
        line("fill", "big u8:9", lambda: big.data() == b"\t" * big.size)
        big.bytes = b"\t" * big.size

    def streams(self):
        make_folder("streams/s")
        attempt(lambda: write("streams/s/priority", "-5"))
        line("fill", "big u8:1 stream=s", lambda: False)
        big = next(one for one in self.objects if one.name == "big")
        big.bytes = b"\1" * big.size

    def files(self, copy):
        path = f"{FOLDER}/file"
        line("save", f"copy path={path}")
        loaded = Allocation("loaded", 4 * MIB)
        line("load", f"loaded path={path}")
        loaded.bytes = copy.bytes
        copy.free()

    def launches(self):
        make_folder("modules/folder")
        module = Module("adder")
        total = Allocation("sum", PAGE)
        module.launch(total)
        module.move("folder/renamed")
        module.launch(total)

    def publish(self, old):
        new = Allocation("new", PAGE)
        new.write(pattern(PAGE, 4))
        line("publish", f"new {old.name}", is_gone("allocations/new"))
        self.objects.remove(old)
        new.name, new.sealed = old.name, "1"

    def truncate(self):
        owing = Allocation("owing", 4 * MIB)
        owing.write(pattern(owing.size, 5))
        attempt(lambda: os.truncate(owing.path(True, "data"), 0))
        owing.bytes = bytes(owing.size)

    def check(self):
        self.check_limits()
        expect(read("streams/s/priority") == "-5\n", "the priority of stream s")
        check_objects(self.objects, 1)
        for one in self.modules:
            one.check()
        expect(value("status", "modules") == len(self.modules), "status:", read("status"))
        self.lease.check()
        self.mapped.check()

    def end(self):
        """Frees all; the lease outlives its allocation."""
        self.mapped.close()
        while self.objects:
            self.objects[0].free()
        while self.modules:
            self.modules[0].free()
        remove("modules/folder")
        remove("streams/s")
        remove("allocations/models/below")
        remove("allocations/models")
        self.lease.check()
        self.lease.close()
        self.forget_limits()


# ---- what must agree ----

def descriptors(pid):
    """(path, file) of those that are open; others come and go meanwhile."""
    found = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{number}"
        try:
            found.append((path, os.readlink(path)))
        except FileNotFoundError:
            pass
    return found


def journal():
    """The records of the broker, by type, as `gpumemd --check-journal` prints them."""
    fd = next(path for path, file in descriptors(read("pid").strip())
              if "gpumem-records" in file)
    said = subprocess.run([GPUMEMD, "--check-journal", fd], capture_output=True, text=True)
    expect(said.returncode == 0, "--check-journal:", said.stderr)
    records = {}
    for row in said.stdout.splitlines()[1:]:
        kind, index, rest = re.fullmatch(r"(\w+) (\d+): (.*)", row).groups()
        records.setdefault(kind, {})[int(index)] = rest
    return records


def path_in(folders, index, name):
    """The full name of what is in the folder of that record."""
    while index:
        above, index = re.match(r"(.*): id \d+, in folder (\d+),", folders[index]).groups()
        name, index = f"{above}/{name}", int(index)
    return name


def recorded():
    """Allocations by id: (name, bytes, address, mode), of those that have a name."""
    found = {}
    for row in journal().get("allocation", {}).values():
        name, number, size, address, mode, marks = re.match(
            r"(.*): id (\d+), (\d+) bytes at (\w+), .* mode (\d+)(.*)", row).groups()
        if "freed" not in marks.split(", "):
            expect(number not in found, "two records have the id", number)
            found[number] = (name, int(size), address, int(mode, 8))
    return found


def keeper_descriptors():
    return len(descriptors(keeper))


def block_bytes(records):
    """Bytes of device 0 in blocks."""
    return sum(int(row.split()[0]) for row in records.get("block", {}).values()
               if "of device 0" in row)


def differences():
    """In the records, at the keeper, at the driver. Returns: what differs; None."""
    records = journal()
    held = keeper_descriptors() - n_own
    named = {kind: records[kind] for kind in ("block", "image", "tensors")
             if kind in records}
    if held != sum(len(of_kind) for of_kind in named.values()):
        return f"the keeper holds {held} descriptors; records: {named}"
    used = int(read("devices/0/memory_used_bytes"))
    # A context of hardware takes memory of the device, too.
    if is_software and used != block_bytes(records):
        return f"the driver's memory is {used}; records: {records.get('block')}"
    return None


def leases_are_not(n):
    found = value("status", "leases")
    return f"leases: {found}, and there should be {n}" if found != n else None


def check_objects(objects, n_leases):
    for one in objects:
        one.check()
    found = recorded()
    promised = {one.id: (one.name.split("/")[-1], one.size, one.address, one.mode)
                for one in objects}
    expect(found == promised, "records:", found, "objects:", promised)
    # The kernel tells of the last close() of a lease when close() has returned.
    eventually(lambda: leases_are_not(n_leases))
    expect(value("status", "allocations") == len(objects), "status:", read("status"))
    eventually(differences)


def check_said(n_deaths):
    """The keeper names each death, and nobody says anything else."""
    with open(f"{FOLDER}/stderr") as file:
        said = file.read().splitlines()
    other = [row for row in said if row != "gpumemd: the broker was killed by signal 9"]
    expect(not other, "said on stderr:", *other)
    expect(len(said) == n_deaths, len(said), "deaths, and planned were", n_deaths)


KINDS_OF_OBJECTS = ("allocation", "folder", "function", "image", "lease", "module",
                    "origin")


def left_over():
    """What has no name any more: a pool keeps an empty slab of each place for a while."""
    records = journal()
    blocks = [one for one in records.pop("block", {}).values() if " a slab of " not in one]
    left = {kind: records[kind] for kind in KINDS_OF_OBJECTS if kind in records}
    return f"left over: {left} {blocks}" if left or blocks else None


def check_backings():
    """The kernel has no memory of the mount's files any more."""
    global next_backing
    found, next_backing = backing.take_all(device, next_backing)
    expect(not found, "the kernel still has memory of files:", *found)


def check_empty():
    check_objects([], 0)
    eventually(left_over)
    check_backings()


def run_session(points):
    """Runs it with deaths at these points of it, counted from 1: reads of checks don't count."""
    global session, n_points
    session = Session()
    passed = 0
    for part in (session.run, session.end):
        begin = plan.points()
        plan.die_at(*(begin + point - passed for point in points if point > passed))
        part()
        passed += plan.points() - begin
        plan.die_at()
        if part == session.run:
            session.check()
    check_empty()
    n_points = passed


def run_with_deaths(*points):
    """Returns: how many there were."""
    before = plan.deaths()
    try:
        run_session(points)
        n = plan.deaths() - before
        check_said(plan.deaths())
    except (Wrong, OSError, StopIteration, KeyError):
        print(f"points {points}, {plan.deaths() - before} deaths, the last at: {plan.where()}")
        raise
    places[plan.where()] = places.get(plan.where(), 0) + n
    return n


mode = sys.argv[3]
stride = int(sys.argv[4])
plan = Plan()
places = {}
with open(f"{FOLDER}/pid") as file:
    keeper = file.read().strip()
session = None
n_points = 0
device, next_backing = backing.device_of(int(keeper)), 1
n_own = keeper_descriptors()
run_session([])

n_runs = n_deaths = 0
if mode == "once":
    point = int(sys.argv[5])
    while died := run_with_deaths(point):
        n_runs, n_deaths, point = n_runs + 1, n_deaths + died, point + stride
elif mode == "recovery":
    for later in range(1, 121):
        n_deaths += run_with_deaths(stride, stride + later)
        n_runs += 1
else:
    first, seed = int(sys.argv[5]), int(sys.argv[6])
    for point in range(first, n_points, stride):
        # Each run has a chance of its own, so that one is repeated alone.
        later = random.Random(f"{seed} {point}").randint(1, 120)
        n_deaths += run_with_deaths(point, point + later)
        n_runs += 1
print(f"# {n_points} points in a session, {n_runs} runs, {n_deaths} deaths")
for where, n in sorted(places.items()):
    print(f"# {n:5} {where}")
