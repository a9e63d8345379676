"""Lines and files of a mount whose broker may die at any time (crashes.py), and objects.

Each line is answered: done, or EIO with the sentence; then it is looked up and done again.
An object knows what is promised of it.
"""
import ctypes
import errno
import mmap
import os
import random
import signal
import socket
import struct
import sys
import time
import traceback

FOLDER = sys.argv[1]
M = f"{FOLDER}/mnt"
SENTENCES = ("the broker died while this was under way: look whether it was done",
             "two brokers died while this was under way, and it is not tried again")
MIB = 1 << 20
PAGE = 4096
libc = ctypes.CDLL(None, use_errno=True)
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
    all = []

    def __init__(self, name, size, options="", kind="device"):
        self.name, self.size, self.kind, self.tag = name, size, kind, "none"
        self.owner, self.map = str(os.getuid()), "writers"
        self.tensors = ""
        self.mode, self.sealed, self.bytes = 0o600, "0", bytes(size)
        line("alloc", f"{name} {size} kind={kind} {options}", is_there(self.path()))
        self.id = self.value("id")
        self.address = self.value("address")
        self.inode = self.stat().st_ino
        expect(self.id not in Allocation.ids, "the id of", name, "was given before:", self.id)
        Allocation.ids.add(self.id)
        Allocation.all.append(self)

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

    def zero(self, offset, length):
        """fallocate -z."""
        def do():
            with open(self.path(True, "data"), "r+b", buffering=0) as file:
                if libc.fallocate(file.fileno(), 0x10, ctypes.c_long(offset),
                                  ctypes.c_long(length)):
                    raise OSError(ctypes.get_errno(), "fallocate")
        attempt(do)
        self.bytes = self.bytes[:offset] + bytes(length) + self.bytes[offset + length:]

    def set(self, file, text):
        attempt(lambda: write(self.path(file=file), text),
                lambda: self.value(file) == text)
        setattr(self, file, text)

    def move(self, name):
        rename(self.path(), f"allocations/{name}")
        self.name = name

    def free(self):
        remove(self.path())
        Allocation.all.remove(self)

    def check(self):
        for file in ("id", "address", "tag", "sealed", "kind", "tensors", "owner", "map"):
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
    all = []
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
        self.load(self.IMAGE)
        Module.all.append(self)

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

    def load(self, image):
        attempt(lambda: write(self.path("image"), image),
                lambda: read(self.path("image")).encode() == image)
        self.image, self.functions = image, self.listed()

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
        Module.all.remove(self)

    def check(self):
        expect(self.state() == "loaded", self.name, "is", self.state())
        expect(read(self.path("image")).encode() == self.image, "image of", self.name)
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


class Ending:
    """Allocations that end with a process; managed memory may be lost before."""
    kinds = ("host", "managed")

    def __init__(self):
        ready, told = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self.live(told)
        os.close(told)
        expect(os.read(ready, 1), "a process could not allocate")
        os.close(ready)

    def path(self, kind):
        return f"allocations/ending-{kind}"

    def live(self, told):
        try:
            for kind in self.kinds:
                line("alloc", f"ending-{kind} 8192 kind={kind} until=exit",
                     is_there(self.path(kind)))
            os.write(told, b"1")
            signal.pause()
        except (Wrong, OSError):
            traceback.print_exc()
        finally:
            os._exit(1)

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        for kind in self.kinds:
            eventually(lambda: exists(self.path(kind)) and f"{kind} memory is there still")
