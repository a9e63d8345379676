"""Exact system calls for the mount suite: `show(os.write, fd, b"...")` prints what the
call returned, or the name of its error."""
import collections
import ctypes
import errno
import fcntl
import mmap
import os
import select
import signal
import struct
import sys
import threading
import time


def attempt(call, *args):
    try:
        return call(*args)
    except OSError as error:
        return errno.errorcode[error.errno]


def show(call, *args):
    result = attempt(call, *args)
    if isinstance(result, bytes):
        result = result.decode(errors="backslashreplace").rstrip("\n")
    print(result, flush=True)


def control(verb):
    return os.open(f"control/{verb}", os.O_RDWR)


def answer(fd):
    """What reads give until end of file."""
    text = b""
    while True:
        part = os.read(fd, 4096)
        if not part:
            return text.decode()
        text += part


def become(uid):
    """From here on as another user, who need not be able to start Python."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def threads_that_wait(tasks=None):
    """How many threads of this process, or of these, wait for the mount's answer."""
    n = 0
    for task in tasks or os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/wchan") as place:
                n += "request_wait" in place.read()
        except OSError:  # the thread has ended
            pass
    return n


def write_parts(path, n, goes_on):
    """Each of n threads writes its own MiB of the file in rounds while goes_on(round),
    through another descriptor when an upgrade has made the first one stale, and again when
    too many writes wait for a process of the last broker. Linux may write such a part in
    two requests, and count what was written before an upgrade. Returns the threads whose
    last bytes are not there, with the errno of a last write that failed."""
    last = [None] * n

    def run(i):
        fd, rounds = os.open(path, os.O_WRONLY), 0
        while goes_on(rounds):
            part = bytes([(i + rounds) % 251]) * (1 << 20)
            while (wrote := attempt(os.pwrite, fd, part, i << 20)) != len(part):
                if isinstance(wrote, str) and wrote not in ("ESTALE", "EBUSY"):
                    break
                attempt(os.close, fd)
                time.sleep(0.01)
                fd = os.open(path, os.O_WRONLY)
            last[i] = part if wrote == len(part) else wrote
            rounds += 1
        attempt(os.close, fd)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open(path, "rb", buffering=0) as file:
        return [(i, last[i] if isinstance(last[i], str) else None) for i in range(n)
                if file.read(1 << 20) != last[i]]


def in_threads(word, n, call):
    """Does call(0) to call(n - 1), each in a thread, and never returns. Prints `word` and
    the number of failures of each errno when every thread waits for the mount's answer or
    has one, and again after each further answer: a thread that waits may be refused yet."""
    results, answered = [], threading.Event()

    def run(i):
        results.append(attempt(call, i))
        answered.set()

    threading.stack_size(65536)
    for i in range(n):
        threading.Thread(target=run, args=(i,), daemon=True).start()
    while True:
        answered.clear()
        while threads_that_wait() + len(results) < n:
            time.sleep(0.01)
        failures = (result for result in results if isinstance(result, str))
        print(word, dict(collections.Counter(failures)), flush=True)
        answered.wait()


libc = ctypes.CDLL(None, use_errno=True)


def raw(call, *args):
    """One system call as it is, without Python's own retry after EINTR."""
    result = call(*args)
    return result if result >= 0 else errno.errorcode[ctypes.get_errno()]


def raw_write(fd, text):
    return raw(libc.write, fd, text, len(text))


def raw_read(fd, size):
    return raw(libc.read, fd, ctypes.create_string_buffer(size), size)


def memory_that_never_comes(size):
    """Its address; who touches it waits until this process ends."""
    userfaultfd, api, register, missing = 323, 0xC018AA3F, 0xC020AA00, 1
    never = memory_that_never_comes
    never.memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(never.memory))
    never.fd = libc.syscall(userfaultfd, os.O_CLOEXEC)
    fcntl.ioctl(never.fd, api, struct.pack("=QQQ", 0xAA, 0, 0))
    fcntl.ioctl(never.fd, register, struct.pack("=QQQQ", address, size, missing, 0))
    return address


def keep_lock(folder):
    """Two processes keep the folder's lock: one reads it, and one waits to change it."""
    getdents64, size = 217, 65536
    def reads():
        memory = ctypes.c_void_p(memory_that_never_comes(size))
        libc.syscall(getdents64, os.open(folder, os.O_RDONLY), memory, size)
    def changes():
        time.sleep(0.2)
        attempt(os.mkdir, f"{folder}/x")
    processes = []
    for call in reads, changes:
        processes.append(os.fork())
        if not processes[-1]:
            call()
            os._exit(0)
    time.sleep(0.5)
    return processes


def keep_lock_while(folder, path):
    """Keeps the folder's lock, says so, and lets go when the path is there no more."""
    processes = keep_lock(folder)
    print("kept", flush=True)
    while os.path.exists(path):
        time.sleep(0.05)
    for process in processes:
        os.kill(process, signal.SIGKILL)


def synchronize_by_libaio(fd):
    """Asks for an fsync, and does not wait for its end."""
    io_setup, io_submit = 206, 209
    context = ctypes.c_ulong(0)
    assert libc.syscall(io_setup, 8, ctypes.byref(context)) == 0
    asked = ctypes.create_string_buffer(struct.pack("=16xHhI40x", 2, 0, fd), 64)
    pointer = ctypes.c_void_p(ctypes.addressof(asked))
    assert libc.syscall(io_submit, context, 1, ctypes.byref(pointer)) == 1


class Ring:
    """io_uring, with room for four calls. OSError: there is none."""

    HERE, LINK_NEXT, READ, LINKAT = -100, 4, 22, 39

    def __init__(self):
        parameters = ctypes.create_string_buffer(120)
        self.fd = raw(libc.syscall, 425, 4, parameters)
        if isinstance(self.fd, str):
            raise OSError(getattr(errno, self.fd), "no io_uring")
        offsets = struct.unpack_from("20I", parameters, 40)
        self.tail, self.entries, self.last, self.results = (offsets[i] for i in (1, 6, 11, 15))
        self.rings = mmap.mmap(self.fd, 4096)
        self.calls = mmap.mmap(self.fd, 256, offset=0x10000000)
        self.kept = []

    def submit(self, *calls):
        """The calls as read() and linkat() make them; returns at once."""
        for i, call in enumerate(calls):
            self.calls[64 * i:64 * i + len(call)] = call
            self.rings[self.entries + 4 * i:self.entries + 4 * i + 4] = struct.pack("<I", i)
        self.rings[self.tail:self.tail + 4] = struct.pack("<I", len(calls))
        raw(libc.syscall, 426, self.fd, len(calls), 0, 0, None, 0)

    def result(self, i):
        """Waits for the call that is answered as the Ith."""
        while struct.unpack_from("<I", self.rings, self.last)[0] <= i:
            time.sleep(0.01)
        result = struct.unpack_from("<i", self.rings, self.results + 16 * i + 8)[0]
        return result if result >= 0 else errno.errorcode[-result]

    def _address(self, text):
        self.kept.append(ctypes.create_string_buffer(text))
        return ctypes.addressof(self.kept[-1])

    def read(self, fd, size, flags=0):
        return struct.pack("<BBHiQQI", self.READ, flags, 0, fd, 2**64 - 1,
                           self._address(b" " * size), size)

    def linkat(self, old, new):
        return struct.pack("<BBHiQQiI", self.LINKAT, 0, 0, self.HERE, self._address(new),
                           self._address(old), self.HERE, 0x400)
