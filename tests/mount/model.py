"""Random operations on the `data` of allocations, beside a model of them: bytearrays.

    python3 model.py KIND SECONDS [SEED]

runs in the root of a mount. Two allocations are of KIND and a third is of any kind. Each
operation changes both the mount and the model, or compares the two. The first difference
ends the program with the seed and the operations before it. The same seed makes the same
operations.
"""
import array
import collections
import ctypes
import errno
import mmap
import os
import random
import sys
import time

KINDS = ["device", "host", "direct", "async", "managed"]
SIZES = [1, 100, 4095, 4096, 10000, 65536, 300007, 1 << 20, (1 << 20) + 1, 3000001]
PIECE = 1 << 16  # the most that one splice moves: the pipe's size
ZERO_RANGE, PUNCH_HOLE, KEEP_SIZE = 0x10, 0x02, 0x01
KERNEL_MAX = 2048  # elements

# p[i] = p[i] * mul + add, and the same from q to p.
KERNELS = """.version 7.0
.target sm_52
.address_size 64
""" + "".join(f"""
.visible .entry {name}(.param .u64 to, {extra} .param .u32 n, .param .u32 mul,
	.param .u32 add)
{{
	.reg .pred %p<2>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [to];
	ld.param.u64 %rd2, [{source}];
	ld.param.u32 %r1, [n];
	ld.param.u32 %r2, [mul];
	ld.param.u32 %r3, [add];
	mov.u32 %r4, %ctaid.x;
	mov.u32 %r5, %ntid.x;
	mov.u32 %r6, %tid.x;
	mad.lo.u32 %r4, %r4, %r5, %r6;
	setp.ge.u32 %p1, %r4, %r1;
	@%p1 bra $done;
	cvta.to.global.u64 %rd1, %rd1;
	cvta.to.global.u64 %rd2, %rd2;
	mul.wide.u32 %rd3, %r4, 4;
	add.u64 %rd1, %rd1, %rd3;
	add.u64 %rd2, %rd2, %rd3;
	ld.global.u32 %r7, [%rd2];
	mad.lo.u32 %r7, %r7, %r2, %r3;
	st.global.u32 [%rd1], %r7;
$done:
	ret;
}}
""" for name, extra, source in (("mix", "", "to"), ("move", ".param .u64 from,", "from")))


libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


class Wrong(Exception):
    """The mount and the model differ."""


def command(verb, line):
    fd = os.open(f"control/{verb}", os.O_WRONLY)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


class Memory:
    """One allocation, the descriptor that is held on it, and its model."""

    def __init__(self, name, kind, size):
        self.name, self.kind, self.size = name, kind, size
        self.bytes = bytearray(size)
        self.mapping = None
        command("alloc", f"{name} {size} kind={kind}")
        self.fd = self.open(os.O_RDWR)
        self.direct = self.open(os.O_RDONLY | os.O_DIRECT)  # splice and sendfile take no other

    def path(self):
        return f"allocations/{self.name}/data"

    def open(self, flags):
        return os.open(self.path(), flags)

    def map(self):
        """The shared mapping of host memory."""
        if not self.mapping:
            self.mapping = mmap.mmap(self.fd, self.size)
        return self.mapping

    def free(self):
        if self.mapping:
            self.mapping.close()
        os.close(self.fd)
        os.close(self.direct)
        os.rmdir(f"allocations/{self.name}")


class Model:
    def __init__(self, kind, seed):
        self.random = random.Random(seed)
        self.said = collections.deque(maxlen=40)
        self.noise = random.Random(seed).randbytes(1 << 23)
        self.count = self.compared = self.n_names = 0
        self.queued = False  # a command with wait=0 may still run
        self.can_map = os.geteuid() == 0
        self.memories = [self.new_memory(kind), self.new_memory(kind),
                         self.new_memory(self.random.choice(KINDS))]
        os.mkdir("modules/model")
        with open("modules/model/image", "w") as image:
            image.write(KERNELS)

    def new_name(self):
        self.n_names += 1
        return f"m{self.n_names}"

    def new_memory(self, kind):
        size = self.random.choice(SIZES) + self.random.randrange(3)
        return Memory(self.new_name(), kind, size)

    def say(self, text):
        self.said.append(f"{self.count}: {text}")

    # ---- parts of operations ----

    def memory(self):
        return self.random.choice(self.memories)

    def range(self, memory, most=1 << 22, unit=1):
        """Somewhere inside: an offset and a length, which may be 0 where unit > size."""
        n_units = memory.size // unit
        if not n_units:
            return 0, 0
        length = min(int(2 ** self.random.uniform(0, 22)), most // unit or 1, n_units)
        offset = self.random.randrange(n_units - length + 1)
        if self.random.random() < 0.3:
            offset = offset * unit // 4096 * 4096 // unit
        if self.random.random() < 0.2:
            offset = n_units - length
        return offset * unit, length * unit

    def some(self, length):
        at = self.random.randrange(len(self.noise) - length + 1)
        return self.noise[at:at + length]

    def compare(self, memory, offset, found, what, least=None):
        """What was found at offset: at least that much of the model, and not more."""
        self.compared += len(found)
        expected = memory.bytes[offset:offset + len(found)]
        if found != expected:
            pairs = zip(found, expected)
            at = next((i for i, (a, b) in enumerate(pairs) if a != b), len(expected))
            raise Wrong(f"{what} of {memory.name} ({memory.kind}, {memory.size} bytes) "
                        f"differs at {offset + at}: {found[at:at + 16].hex()}, "
                        f"expected {bytes(expected[at:at + 16]).hex()}")
        if least is not None and len(found) < least:
            raise Wrong(f"{what} of {memory.name} ({memory.kind}, {memory.size} bytes) at "
                        f"{offset} has {len(found)} bytes, expected {least}")

    def refuse(self, error, call, *args):
        try:
            result = call(*args)
        except OSError as failure:
            if failure.errno == error:
                return
            raise
        raise Wrong(f"{self.said[-1]} returned {result}, expected {errno.errorcode[error]}")

    def expect(self, result, expected):
        if result != expected:
            raise Wrong(f"{self.said[-1]} returned {result}, expected {expected}")

    def change(self, memory, offset, data):
        memory.bytes[offset:offset + len(data)] = data

    def wait(self):
        """0 or 1. With 0 the command is only queued."""
        wait = self.random.random() < 0.7
        self.queued = self.queued or not wait
        return int(wait)

    def settle(self, memory):
        """What a mapping shows is not in any order: all that is queued ends first."""
        if self.queued:
            for stream in os.listdir("streams"):
                command("synchronize", stream)
        self.queued = False
        for other in self.memories:
            os.fsync(other.fd)
        # fsync waits for the writes of its descriptor, a read also for a truncation.
        for at in range(0, memory.size, 1 << 20):
            os.pread(memory.fd, 1 << 20, at)

    # ---- reading ----

    def op_pread(self, memory):
        offset, length = self.range(memory)
        self.say(f"pread {memory.name} {offset}+{length}")
        found = os.pread(memory.fd, length, offset)
        self.compare(memory, offset, found, "pread", length)

    def op_pread_across_the_end(self, memory):
        offset = memory.size - self.random.randrange(min(memory.size, 5000))
        self.say(f"pread across the end of {memory.name} from {offset}")
        found = os.pread(memory.fd, 10000, offset)
        self.compare(memory, offset, found, "pread", memory.size - offset)

    def op_pread_past_the_end(self, memory):
        offset = memory.size + self.random.choice([0, 1, 4096, 1 << 40])
        self.say(f"pread {memory.name} past the end, at {offset}")
        self.expect(os.pread(memory.fd, 100, offset), b"")

    def op_preadv(self, memory):
        offset, length = self.range(memory)
        parts = [bytearray(length // 3), bytearray(length - length // 3)]
        self.say(f"preadv {memory.name} {offset}+{length}")
        self.expect(os.preadv(memory.fd, parts, offset), length)
        self.compare(memory, offset, b"".join(parts), "preadv")

    def op_read_in_a_row(self, memory):
        offset, length = self.range(memory)
        step = self.random.choice([4096, 65536, 100003, 1 << 20])
        self.say(f"read {memory.name} {offset}+{length} in pieces of {step}")
        os.lseek(memory.fd, offset, os.SEEK_SET)
        while length:
            found = os.read(memory.fd, min(step, length))
            self.compare(memory, offset, found, "read", min(step, length))
            offset, length = offset + len(found), length - len(found)

    def op_direct_read(self, memory):
        offset, length = self.range(memory)
        self.say(f"pread {memory.name} {offset}+{length} with O_DIRECT")
        fd = memory.open(os.O_RDONLY | os.O_DIRECT)
        with mmap.mmap(-1, length) as page:
            got = os.preadv(fd, [page], offset)
            self.compare(memory, offset, page[:got], "O_DIRECT", length)
        os.close(fd)

    def op_splice(self, memory):
        offset, length = self.range(memory, PIECE)
        fresh = self.random.random() < 0.3
        self.say(f"splice {memory.name} {offset}+{length}{' from a new open' * fresh}")
        fd = memory.open(os.O_RDONLY | os.O_DIRECT) if fresh else memory.direct
        reader, writer = os.pipe()
        n = os.splice(fd, writer, length, offset_src=offset)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            found = pipe.read()
        if fresh:
            os.close(fd)
        self.expect(n, len(found))
        self.compare(memory, offset, found, "splice", 1)

    def op_sendfile(self, memory):
        offset, length = self.range(memory)
        self.say(f"sendfile {memory.name} {offset}+{length}")
        target = os.memfd_create("model")
        while os.lseek(target, 0, os.SEEK_CUR) < length:
            done = os.lseek(target, 0, os.SEEK_CUR)
            if not os.sendfile(target, memory.direct, offset + done, length - done):
                break
        found = os.pread(target, length, 0)
        os.close(target)
        self.compare(memory, offset, found, "sendfile", length)

    def maps(self, memory):
        """Smaller host memory shares its memfd with others."""
        return self.can_map and memory.kind == "host" and memory.size >= 4096

    def op_private_mapping(self, memory):
        self.settle(memory)
        offset, length = self.range(memory)
        self.say(f"private mapping of {memory.name}, {offset}+{length}")
        target = os.memfd_create("model")
        with mmap.mmap(memory.fd, memory.size, mmap.MAP_PRIVATE, mmap.PROT_READ) as page:
            if self.maps(memory):
                self.compare(memory, offset, page[offset:offset + length], "mapping", length)
            else:
                self.refuse(errno.EFAULT, os.write, target, page)
        os.close(target)

    def op_seek(self, memory):
        offset = self.random.randrange(memory.size)
        self.say(f"lseek {memory.name} {offset}")
        self.expect(os.lseek(memory.fd, offset, os.SEEK_DATA), offset)
        self.expect(os.lseek(memory.fd, offset, os.SEEK_HOLE), memory.size)
        self.expect(os.lseek(memory.fd, 0, os.SEEK_END), memory.size)
        self.refuse(errno.ENXIO, os.lseek, memory.fd, memory.size, os.SEEK_DATA)

    def op_stat(self, memory):
        self.say(f"stat {memory.name}")
        self.expect(os.fstat(memory.fd).st_size, memory.size)
        self.expect(os.stat(memory.path()).st_size, memory.size)

    # ---- writing ----

    def op_pwrite(self, memory):
        offset, length = self.range(memory)
        data = self.some(length)
        self.say(f"pwrite {memory.name} {offset}+{length}")
        self.expect(os.pwrite(memory.fd, data, offset), length)
        self.change(memory, offset, data)

    def op_pwrite_across_the_end(self, memory):
        fits = self.random.randrange(1, min(memory.size, 5000) + 1)
        data = self.some(fits + 100)
        self.say(f"pwrite across the end of {memory.name} from {memory.size - fits}")
        self.expect(os.pwrite(memory.fd, data, memory.size - fits), fits)
        self.change(memory, memory.size - fits, data[:fits])

    def op_pwrite_past_the_end(self, memory):
        offset = memory.size + self.random.choice([0, 1, 4096, 1 << 40])
        self.say(f"pwrite {memory.name} past the end, at {offset}")
        self.refuse(errno.ENOSPC, os.pwrite, memory.fd, b"past", offset)

    def op_pwritev(self, memory):
        offset, length = self.range(memory)
        data = self.some(length)
        self.say(f"pwritev {memory.name} {offset}+{length}")
        parts = [data[:length // 3], data[length // 3:]]
        self.expect(os.pwritev(memory.fd, parts, offset), length)
        self.change(memory, offset, data)

    def op_direct_write(self, memory):
        offset, length = self.range(memory)
        data = self.some(length)
        self.say(f"pwrite {memory.name} {offset}+{length} with O_DIRECT")
        fd = memory.open(os.O_WRONLY | os.O_DIRECT)
        self.expect(os.pwrite(fd, data, offset), length)
        os.close(fd)
        self.change(memory, offset, data)

    def op_append(self, memory):
        self.say(f"append to {memory.name}")
        fd = memory.open(os.O_WRONLY | os.O_APPEND)
        self.refuse(errno.ENOSPC, os.write, fd, b"more")
        os.close(fd)

    def op_splice_into(self, memory):
        offset, length = self.range(memory, PIECE)
        data = self.some(length)
        self.say(f"splice into {memory.name} {offset}+{length}")
        reader, writer = os.pipe()
        length = os.write(writer, data) if length <= PIECE else 0
        self.expect(os.splice(reader, memory.fd, length, offset_dst=offset), length)
        os.close(reader)
        os.close(writer)
        self.change(memory, offset, data[:length])

    def op_sendfile_into(self, memory):
        offset, length = self.range(memory)
        data = self.some(length)
        self.say(f"sendfile into {memory.name} {offset}+{length}")
        source = os.memfd_create("model")
        os.write(source, data)
        os.lseek(memory.fd, offset, os.SEEK_SET)
        done = 0
        while done < length:
            n = os.sendfile(memory.fd, source, done, length - done)
            if not n:
                break
            done += n
        os.close(source)
        self.expect(done, length)
        self.change(memory, offset, data)

    def op_truncate(self, memory):
        size = self.random.randrange(memory.size + 1)
        self.say(f"truncate {memory.name} to {size}")
        if self.random.random() < 0.5:
            os.ftruncate(memory.fd, size)
        else:
            os.truncate(memory.path(), size)
        self.change(memory, size, bytes(memory.size - size))

    def op_truncate_past_the_end(self, memory):
        self.say(f"truncate {memory.name} past the end")
        self.refuse(errno.ENOSPC, os.ftruncate, memory.fd, memory.size + 1)

    def op_open_truncated(self, memory):
        self.say(f"open {memory.name} with O_TRUNC")
        os.close(memory.open(os.O_WRONLY | os.O_TRUNC))
        self.change(memory, 0, bytes(memory.size))

    def op_fallocate(self, memory):
        offset, length = self.range(memory)
        mode = self.random.choice([0, ZERO_RANGE, PUNCH_HOLE | KEEP_SIZE])
        self.say(f"fallocate {memory.name} {offset}+{length} with mode {mode:#x}")
        fallocate(memory.fd, mode, offset, length)
        if mode:
            self.change(memory, offset, bytes(length))

    def op_fallocate_past_the_end(self, memory):
        mode = self.random.choice([0, ZERO_RANGE, PUNCH_HOLE | KEEP_SIZE])
        self.say(f"fallocate {memory.name} past the end with mode {mode:#x}")
        self.refuse(errno.ENOSPC, fallocate, memory.fd, mode, memory.size - 1, 2)

    def op_fill(self, memory):
        unit = self.random.choice([1, 2, 4, 8])
        offset, length = self.range(memory, unit=unit)
        value = self.random.randbytes(unit)
        if not length:
            return
        line = f"{memory.name} hex:{value.hex()} offset={offset} length={length}"
        self.say(f"fill {line}")
        command("fill", f"{line} wait={self.wait()}")
        self.change(memory, offset, value * (length // unit))

    def op_fill_past_the_end(self, memory):
        self.say(f"fill {memory.name} past the end")
        self.refuse(errno.ERANGE, command, "fill",
                    f"{memory.name} u8:1 offset={memory.size - 1} length=2")

    def two_ranges(self, target):
        source = self.memory()
        offset, length = self.range(target)
        length = min(length, source.size)
        start = self.random.randrange(source.size - length + 1)
        overlap = source is target and start < offset + length and offset < start + length
        return offset, source, start, length, overlap

    def op_copy(self, target):
        offset, source, start, length, overlap = self.two_ranges(target)
        line = f"{target.name}+{offset} from={source.name}+{start} length={length}"
        self.say(f"copy {line}")
        if overlap:
            self.refuse(errno.EINVAL, command, "copy", line)
            return
        command("copy", f"{line} wait={self.wait()}")
        self.change(target, offset, source.bytes[start:start + length])

    def op_copy_file_range(self, target):
        offset, source, start, length, overlap = self.two_ranges(target)
        self.say(f"copy_file_range {target.name}+{offset} from {source.name}+{start}, "
                 f"{length}")
        if overlap:
            return
        n = os.copy_file_range(source.fd, target.fd, length, start, offset)
        self.expect(n, length)
        self.change(target, offset, source.bytes[start:start + length])

    def op_launch(self, memory):
        offset, length = self.range(memory, 4 * KERNEL_MAX, 4)
        mul, add = self.random.getrandbits(32), self.random.getrandbits(32)
        if not length:
            return
        line = (f"model mix elements={length // 4} {memory.name}+{offset} "
                f"u32:{length // 4} u32:{mul} u32:{add}")
        self.say(f"launch {line}")
        command("launch", f"{line} wait={self.wait()}")
        self.change(memory, offset, mixed(memory.bytes[offset:offset + length], mul, add))

    def op_launch_from_another(self, target):
        source = self.memory()
        offset, length = self.range(target, 4 * KERNEL_MAX, 4)
        length = min(length, source.size // 4 * 4)
        mul, add = self.random.getrandbits(32), self.random.getrandbits(32)
        if not length or source is target:
            return
        line = (f"model move elements={length // 4} out:{target.name}+{offset} "
                f"in:{source.name} u32:{length // 4} u32:{mul} u32:{add}")
        self.say(f"launch {line}")
        command("launch", f"{line} wait={self.wait()}")
        self.change(target, offset, mixed(source.bytes[:length], mul, add))

    def op_store_by_mapping(self, memory):
        if not self.maps(memory):
            return
        self.settle(memory)
        offset, length = self.range(memory)
        data = self.some(length)
        self.say(f"store through the mapping of {memory.name} {offset}+{length}")
        memory.map()[offset:offset + length] = data
        self.change(memory, offset, data)

    def op_load_by_mapping(self, memory):
        if not self.maps(memory):
            return
        self.settle(memory)
        offset, length = self.range(memory)
        self.say(f"load through the mapping of {memory.name} {offset}+{length}")
        found = memory.map()[offset:offset + length]
        self.compare(memory, offset, found, "the shared mapping", length)

    # ---- operations that keep all bytes, and a fresh start ----

    def op_sync(self, memory):
        self.say(f"fsync {memory.name}")
        self.random.choice([os.fsync, os.fdatasync])(memory.fd)

    def op_chmod(self, memory):
        mode = self.random.choice([0o600, 0o640, 0o644, 0o666])
        self.say(f"chmod {mode:o} {memory.name}")
        os.chmod(f"allocations/{memory.name}", mode)

    def op_rename(self, memory):
        name = self.new_name()
        self.say(f"rename {memory.name} to {name}")
        os.rename(f"allocations/{memory.name}", f"allocations/{name}")
        memory.name = name

    def op_reopen(self, memory):
        self.say(f"close {memory.name} and open it again")
        os.close(memory.fd)
        memory.fd = memory.open(os.O_RDWR)

    def op_free(self, memory):
        self.settle(memory)
        self.say(f"free {memory.name}")
        memory.free()
        fresh = self.new_memory(memory.kind)
        self.say(f"allocate {fresh.name} of {fresh.size} bytes, {fresh.kind}")
        self.memories[self.memories.index(memory)] = fresh

    # ---- the run ----

    weights = {"free": 0.2, "pread": 4, "splice": 3, "sendfile": 2, "truncate": 0.5,
               "open_truncated": 0.5, "fill_past_the_end": 0.2}

    def run(self, seconds):
        deadline = time.monotonic() + seconds
        names = [name for name in dir(self) if name.startswith("op_")]
        weights = [self.weights.get(name[3:], 1) for name in names]
        while time.monotonic() < deadline:
            self.count += 1
            name = self.random.choices(names, weights)[0]
            getattr(self, name)(self.memory())
        for memory in self.memories:
            self.say(f"the end: all of {memory.name}")
            found = os.pread(memory.fd, memory.size, 0)
            self.compare(memory, 0, found, "pread", memory.size)
            memory.free()
        os.rmdir("modules/model")


def fallocate(fd, mode, offset, length):
    """Python has only mode 0."""
    if libc.fallocate(fd, mode, offset, length):
        raise OSError(ctypes.get_errno(), "fallocate")


def mixed(data, mul, add):
    """What the kernels do."""
    words = array.array("I", bytes(data))
    return array.array("I", ((word * mul + add) & 0xffffffff for word in words)).tobytes()


def main():
    kind, seconds = sys.argv[1], float(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().getrandbits(32)
    print(f"# seed {seed}, kind {kind}", flush=True)
    model = Model(kind, seed)
    try:
        model.run(seconds)
    except (Wrong, OSError) as wrong:
        print("the last operations:", *model.said, sep="\n")
        print(f"after {model.count} operations: {wrong}")
        print(f"again: model.py {kind} {seconds:g} {seed}")
        sys.exit(1)
    print(f"# {model.count} operations, {model.compared >> 20} MiB compared")


if __name__ == "__main__":
    main()
