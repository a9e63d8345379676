"""The session of crashes.py: what users do, once each."""
import errno
import os
import struct

from crash_lines import (FOLDER, M, MIB, OTHER, PAGE, Allocation, Ending, Lease, Mapped, Module,
                         Temporary, Wrong, attempt, exists, expect, is_gone, is_there, line,
                         make_folder, pattern, read, remove, rename, value, write)


class Session:
    def __init__(self):
        Allocation.all, Module.all, self.lease, self.mapped = [], [], None, None

    def limits(self):
        """An owner without anything is there for a while yet, so mkdir is for the first."""
        folder = f"owners/{OTHER}"
        if not is_there(folder)():
            make_folder(folder)
        attempt(lambda: write(f"{folder}/max", "host 3M streams 3"))
        attempt(lambda: write("owners/default/max", "allocations 1000"))

    def check_limits(self):
        limits = read(f"owners/{OTHER}/max")
        expect("host 3145728\n" in limits, "limits of", OTHER, "are", limits)
        expect("allocations 1000\n" in read("owners/default/max"), "limits of all are",
               read("owners/default/max"))

    def forget_limits(self):
        attempt(lambda: write(f"owners/{OTHER}/max", "default"))
        attempt(lambda: write("owners/default/max", "allocations max"))

    def run(self):
        big = Allocation("big", 4 * MIB, "tag=first")
        big.tag = "first"
        ending = Ending()
        big.write(pattern(big.size, 1))
        small = Allocation("small", PAGE)
        host = Allocation("host", 100 * 1000, kind="host")
        host.write(pattern(host.size, 2))
        small.write(pattern(small.size, 3))
        ending.end()
        self.mapped = Mapped()
        self.limits()
        temporary = Temporary()
        make_folder("allocations/folder")
        make_folder("allocations/folder/below")
        small.move("folder/below/renamed")
        rename("allocations/folder", "allocations/models")
        small.name = "models/below/renamed"
        host.chmod(0o640)
        host.set("owner", str(OTHER))
        attempt(lambda: os.chown(host.path(True), -1, OTHER))
        attempt(lambda: os.chmod(f"{M}/allocations/models", 0o700))
        big.set("tag", "second")
        big.set("map", "readers")
        big.set("tensors", '{"first":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}')
        host.set("tensors", "{}")
        big.set("tensors", '{"next":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}')
        self.streams(big)
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
        self.batch()
        self.in_workers()
        line("fill", "big u8:9", lambda: big.data() == b"\t" * big.size)
        big.bytes = b"\t" * big.size

    def streams(self, big):
        make_folder("streams/s")
        attempt(lambda: write("streams/s/priority", "-5"))
        attempt(lambda: write("streams/s/device", "0"))
        line("fill", "big u8:2 stream=s wait=0")
        self.synchronize("s")
        line("fill", "big u8:1 stream=s", lambda: False)
        big.bytes = b"\1" * big.size

    def files(self, copy):
        path = f"{FOLDER}/file"
        line("save", f"copy path={path}")
        loaded = Allocation("loaded", 4 * MIB)
        line("load", f"loaded path={path}")
        loaded.bytes = copy.bytes
        line("free", copy.name, is_gone(copy.path()))
        Allocation.all.remove(copy)

    def batch(self):
        """Several lines in one write."""
        def do(verb, form, is_due):
            attempt(lambda: write(f"control/{verb}", "".join(
                        form.format(name) for name in names if is_due(f"allocations/{name}"))),
                    lambda: not any(is_due(f"allocations/{name}") for name in names))

        names = ("one", "two", "three")
        do("alloc", "{} 4096\n", lambda path: not exists(path))
        do("free", "{}\n", exists)

    def in_workers(self):
        """Memory that a broker's death takes along."""
        for kind in ("direct", "async", "managed"):
            one = Allocation(kind, MIB, kind=kind)

            def is_lost(one=one):
                return one.value("state") == "lost"
            line("fill", f"{kind} u8:1", is_lost)
            if kind == "managed":
                line("prefetch", f"{kind} device:0", is_lost)
                line("advise", f"{kind} set_read_mostly", is_lost)
                attempt(lambda: write(one.path(file="attach"), "host"), is_lost)
            one.free()

    def synchronize(self, stream):
        """A stream whose work nobody waited for tells of its loss, once."""
        for _ in range(4):
            try:
                return write("control/synchronize", stream)
            except OSError as error:
                expect(error.errno in (errno.EIO, errno.ESTALE), "synchronize:", error)
        raise Wrong("the stream fails again and again")

    def launches(self):
        make_folder("modules/folder")
        module = Module("adder")
        total = Allocation("sum", PAGE)
        module.launch(total)
        module.move("folder/renamed")
        module.load(Module.IMAGE + b"// once more\n")
        module.launch(total)
        expect("num_regs" in read(module.path("functions/add/attributes")), "attributes")
        attempt(lambda: write(f"owners/{os.getuid()}/reset", "1"))
        self.broken()

    def broken(self):
        make_folder("modules/broken")
        try:
            attempt(lambda: write("modules/broken/image", "frobnicate"),
                    lambda: read("modules/broken/state") == "failed\n")
        except OSError as error:
            expect(error.errno == errno.ENOEXEC, "a broken image:", error)
        remove("modules/broken")

    def publish(self, old):
        new = Allocation("new", PAGE)
        new.write(pattern(PAGE, 4))
        other = Allocation("other", PAGE, kind="host")
        line("publish", f"new {old.name} other beside", is_gone("allocations/new"))
        other.name, other.sealed = "beside", "1"
        Allocation.all.remove(old)
        new.name, new.sealed = old.name, "1"

    def truncate(self):
        owing = Allocation("owing", 4 * MIB)
        owing.write(pattern(owing.size, 5))
        attempt(lambda: os.truncate(owing.path(True, "data"), 0))
        owing.bytes = bytes(owing.size)
        owing.write(pattern(owing.size, 7))
        owing.zero(5000, MIB)

    def check(self):
        self.check_limits()
        models = attempt(lambda: os.stat(f"{M}/allocations/models"))
        expect(models.st_mode & 0o777 == 0o700, "the mode of the folder", oct(models.st_mode))
        expect(read("streams/s/priority") == "-5\n", "the priority of stream s")
        for one in Module.all:
            one.check()
        expect(value("status", "modules") == len(Module.all), "status:", read("status"))
        self.lease.check()
        self.mapped.check()

    def end(self):
        """Frees all; the lease outlives its allocation."""
        self.mapped.close()
        while Allocation.all:
            Allocation.all[0].free()
        while Module.all:
            Module.all[0].free()
        remove("modules/folder")
        remove("streams/s")
        remove("allocations/models/below")
        remove("allocations/models")
        self.lease.check()
        self.lease.close()
        self.forget_limits()
