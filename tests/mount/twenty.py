"""The hostile one of twenty users (twenty.bash): takes of each limit all there is, again
and again, and does at random whatever a user can do (hostile.py), until killed.

    python3 twenty.py UID GID
"""
import collections
import errno
import os
import signal
import sys
import threading

import hostile
from hostile import Hostile, write

UID, GID = int(sys.argv[1]), int(sys.argv[2])
OTHERS = [f"u{uid}/{name}" for uid in (64101, 64102, 64110) for name in ("weights", "1", "host")]


def until_refused(call):
    """The results of call(0), call(1), ... up to the first that is refused."""
    held = []
    try:
        while len(held) < 1000:
            held.append(call(len(held)))
    except OSError:
        pass
    return held


def line(verb, text):
    write(f"control/{verb}", text.encode())


def quietly(call, *args):
    try:
        return call(*args)
    except OSError:
        return None


class Greedy(threading.Thread):
    """Runs into each limit in turn, and lets go of everything again."""

    def __init__(self):
        super().__init__(daemon=True)
        self.devices = sorted(os.listdir("devices"))

    def everything_once(self):
        quietly(os.mkdir, "modules/greedy")
        quietly(write, "modules/greedy/image", hostile.KERNELS, os.O_WRONLY | os.O_TRUNC)
        quietly(line, "alloc", "hers 64K")
        for device in self.devices:
            until_refused(lambda n: line("alloc", f"g{device}.{n} 3M device={device}"))
        until_refused(lambda n: line("alloc", f"gh{n} 500K kind=host"))
        until_refused(lambda n: line("alloc", f"gs{n} 256"))
        until_refused(lambda n: os.mkdir(f"modules/g{n}"))
        until_refused(lambda n: os.mkdir(f"streams/g{n}"))
        leases = until_refused(lambda n: os.open("allocations/hers/lease", os.O_RDWR))
        # All that is queued behind a kernel without an end waits.
        quietly(line, "launch", "greedy endless grid=1 block=1 wait=0 hers")
        until_refused(lambda n: line("fill", "hers u8:1 wait=0"))
        for lease in leases:
            os.close(lease)
        quietly(write, f"owners/{UID}/reset", b"1")
        for folder in ("allocations", "modules", "streams"):
            for name in os.listdir(folder):
                if name.startswith("g") and name != "greedy":
                    quietly(os.rmdir, f"{folder}/{name}")

    def run(self):
        while True:
            self.everything_once()


def main():
    os.setgroups([])
    os.setresgid(GID, GID, GID)
    os.setresuid(UID, UID, UID)
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    hostile.NAMES += [*OTHERS, "shared/model", "shared/hers"]
    hostile.HOSTILE[:] = [UID, 64101]
    end, count = threading.Event(), collections.Counter()
    greedy = Greedy()
    greedy.everything_once()
    threads = [greedy, *(Hostile(UID + i, end, count) for i in range(3))]
    for thread in threads:
        thread.start()
    while all(thread.is_alive() for thread in threads):
        end.wait(0.2)
    raise SystemExit("a thread has ended: an error of this program")


if __name__ == "__main__":
    main()
