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
import os
import random
import re
import struct
import subprocess
import sys
import time

import backing
from crash_lines import Allocation, Module, Wrong, eventually, expect, read, value
from crash_session import Session

FOLDER, GPUMEMD = sys.argv[1:3]
is_software = os.environ.get("GPUMEM_DRIVER", "software").startswith("software")


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
    # The broker may free memory meanwhile, and the two tables are read one after the other.
    for _ in range(20):
        said = subprocess.run([GPUMEMD, "--check-journal", fd], capture_output=True, text=True)
        if said.returncode == 0:
            break
        time.sleep(0.05)
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
    """Of files. But sockets: a standby with one comes and goes."""
    return sorted(file for _, file in descriptors(keeper) if not file.startswith("socket:"))


def block_bytes(records):
    """Bytes of device 0 in blocks."""
    return sum(int(row.split()[0]) for row in records.get("block", {}).values()
               if "of device 0" in row)


def with_descriptor(records):
    """The records of which the keeper has a descriptor."""
    return [f"{kind} {index}: {row}" for kind in ("block", "image", "process", "tensors")
            for index, row in records.get(kind, {}).items()]


def mover_is_missing():
    mover = [row for row in journal().get("process", {}).values() if row.startswith("mover")]
    return None if mover else "the records have no mover"


def differences():
    """In the records, at the keeper, at the driver. Returns: what differs; None."""
    records = journal()
    held = keeper_descriptors()
    named = with_descriptor(records)
    if len(held) - n_own != len(named):
        return (f"the keeper holds {len(held) - n_own} descriptors: {held}, and {n_own} are its "
                f"own; records: {named}")
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
    global n_points
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
            check_objects(Allocation.all, 1)
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
n_points = 0
device, next_backing = backing.device_of(int(keeper)), 1
eventually(mover_is_missing)
n_own = len(keeper_descriptors()) - len(with_descriptor(journal()))
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
