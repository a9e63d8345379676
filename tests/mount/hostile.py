"""Two hostile users and a third one who only wants his bytes back.

    python3 hostile.py SECONDS [SEED]

runs as root in the root of a mount. Each hostile user has several threads, which do at
random whatever a user can do: to files of the mount, to each other's and the third user's
objects, and to the worker that runs as the user. What they get is nobody's concern. The
third user's memory must stay as it is, and each of the third user's calls must succeed
within a time limit. The threads interleave as they like: a seed repeats what each thread
tries, not the run.
"""
import collections
import errno
import mmap
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback

HOSTILE = [64001, 64002]
THIRD = 64003
N_THREADS = 4
LIMIT = 45  # seconds for one call of the third user, in a slow build on a busy machine
KINDS = ["device", "host", "direct", "async", "managed"]
VERBS = ["alloc", "free", "fill", "copy", "prefetch", "advise", "launch", "synchronize"]
NAMES = [f"h{i}" for i in range(8)] + ["third0", "third1", "third4"]

KERNELS = b""".version 7.0
.target sm_52
.address_size 64
.visible .entry store(.param .u64 to)
{
	.reg .b32 %r<3>; .reg .b64 %rd<4>;
	ld.param.u64 %rd1, [to];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd3, %rd1, %rd2;
	st.global.u32 [%rd3], %r1;
	ret;
}
.visible .entry endless(.param .u64 flag)
{
	.reg .b32 %r<2>; .reg .b64 %rd<2>; .reg .pred %p<2>;
	ld.param.u64 %rd1, [flag];
L:	ld.volatile.global.u32 %r1, [%rd1];
	setp.ne.u32 %p1, %r1, 4294967295;
	@%p1 bra L;
	ret;
}
.visible .entry wrong()
{
	trap;
	ret;
}
"""


class Wrong(Exception):
    """Somebody was hurt."""


def write(path, data, flags=os.O_WRONLY):
    fd = os.open(path, flags)
    try:
        return os.write(fd, data)
    finally:
        os.close(fd)


def read(path, size=1 << 16):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)


def become(uid):
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


class Hostile(threading.Thread):
    """One thread of a hostile user."""

    def __init__(self, seed, end, count):
        super().__init__(daemon=True)
        self.random = random.Random(seed)
        self.end, self.count = end, count
        self.doing = None
        self.held = collections.deque()  # descriptors
        self.scratch = os.memfd_create("hostile")

    def name_(self):
        return self.random.choice(NAMES)

    def data(self, flags=os.O_RDWR):
        return os.open(f"allocations/{self.name_()}/data", flags)

    def number(self):
        return self.random.choice([0, 1, 2, 4096, 1 << 20, (1 << 20) + 1, 1 << 40,
                                   (1 << 64) - 1, self.random.getrandbits(22)])

    def hold(self, fd):
        """Keeps it open for a while."""
        self.held.append(fd)
        if len(self.held) > 20:
            os.close(self.held.popleft())

    def do_alloc(self):
        size = int(2 ** self.random.uniform(0, 23))
        line = f"{self.name_()} {size} kind={self.random.choice(KINDS)}"
        line += self.random.choice(["", "", " mode=644", " mode=666", " tag=t", " device=1"])
        write("control/alloc", line.encode())

    def do_alloc_until_close(self):
        fd = os.open("control/alloc", os.O_RDWR)
        self.hold(fd)
        os.write(fd, f"{self.name_()} {self.number()} until=close".encode())

    def do_free(self):
        if self.random.random() < 0.5:
            os.rmdir(f"allocations/{self.name_()}")
        else:
            write("control/free", self.name_().encode())

    def do_rename(self):
        os.rename(f"allocations/{self.name_()}", f"allocations/{self.name_()}")

    def do_chmod(self):
        os.chmod(f"allocations/{self.name_()}",
                 self.random.choice([0o600, 0o644, 0o666, 0o640]))

    def do_chown(self):
        os.chown(f"allocations/{self.name_()}", -1, self.random.choice([*HOSTILE, 0]))

    def do_write(self):
        fd = self.data()
        self.hold(fd)
        data = b"hostile!" * self.random.randrange(1, 20000)
        os.pwrite(fd, data, self.number() % (1 << 22))

    def do_read(self):
        fd = self.data(os.O_RDONLY)
        self.hold(fd)
        os.pread(fd, self.random.randrange(1 << 20), self.number() % (1 << 22))

    def do_use_held(self):
        fd = self.random.choice(self.held or [-1])
        self.random.choice([
            lambda: os.pread(fd, 5000, 0), lambda: os.pwrite(fd, b"x" * 5000, 0),
            lambda: os.ftruncate(fd, self.number() % (1 << 22)), lambda: os.fsync(fd),
            lambda: os.posix_fallocate(fd, 0, self.number() % (1 << 40) + 1),
            lambda: os.copy_file_range(fd, self.random.choice(self.held), 1 << 20, 0, 0),
        ])()

    def do_map(self):
        fd = self.data()
        self.hold(fd)
        size = os.fstat(fd).st_size
        kind = self.random.choice([mmap.MAP_SHARED, mmap.MAP_PRIVATE])
        with mmap.mmap(fd, size, kind, mmap.PROT_READ) as page:
            # The kernel reads the mapping: revoked memory gives EFAULT and no SIGBUS.
            os.pwrite(self.scratch, page, 0)

    def do_splice(self):
        fd = self.data(os.O_RDONLY)
        self.hold(fd)
        reader, writer = os.pipe()
        try:
            os.splice(fd, writer, 1 << 16, offset_src=0)
        finally:
            os.close(reader)
            os.close(writer)

    def do_fill(self):
        line = f"{self.name_()} u8:165 offset={self.number()} wait=0"
        write("control/fill", line.encode())

    def do_copy(self):
        write("control/copy", f"{self.name_()} from={self.name_()} length={self.number()}"
              f" wait={self.random.randrange(2)}".encode())

    def do_managed(self):
        path = f"allocations/{self.name_()}/"
        self.random.choice([
            lambda: write(path + "prefetch", b"device:%d" % self.random.randrange(3)),
            lambda: write(path + "prefetch", b"cpu offset=1 length=1"),
            lambda: write(path + "advise", b"set_read_mostly"),
            lambda: write(path + "advise", b"set_preferred_location device:1"),
            lambda: write(path + "attach", b"single stream=s1"),
            lambda: read(path + "advise"), lambda: read(path + "last_prefetch"),
        ])()

    def do_module(self):
        module = f"modules/k{os.geteuid()}"
        image = bytearray(KERNELS)
        if self.random.random() < 0.3:
            image[self.random.randrange(len(image))] = self.random.randrange(256)
        if self.random.random() < 0.2:
            image = image[:self.random.randrange(len(image))]
        if not os.path.isdir(module):
            os.mkdir(module)
            write(module + "/image", KERNELS, os.O_WRONLY | os.O_TRUNC)
        self.random.choice([
            lambda: write(module + "/image", image, os.O_WRONLY | os.O_TRUNC),
            lambda: write(module + "/image", KERNELS, os.O_WRONLY | os.O_TRUNC),
            lambda: os.rmdir(module), lambda: read(module + "/log"),
            lambda: read(module + "/state"),
            lambda: read(module + "/functions/store/attributes"),
            lambda: read(module + "/functions/store/params"),
        ])()

    def do_stream(self):
        stream = f"streams/s{self.random.randrange(3)}"
        self.random.choice([
            lambda: os.mkdir(stream), lambda: os.mkdir(stream), lambda: os.rmdir(stream),
            lambda: write(stream + "/priority", b"-1"),
            lambda: write(stream + "/synchronize", b"1"),
        ])()

    def launch(self, line):
        stream = self.random.choice(["", "", "", " stream=s0", " stream=s1"])
        wait = self.random.choice(["", " wait=0"])
        write("control/launch", f"k{os.geteuid()} {line}{stream}{wait}".encode())

    def do_launch(self):
        how = self.random.choice(["", "in:", "out:"])
        self.launch(f"store elements=64 block=64 {how}{self.name_()}")

    def do_endless(self):
        if self.random.random() < 0.3:
            self.launch(f"endless grid=1 block=1 timeout=0.{self.random.randrange(1, 5)} "
                        f"{self.name_()}")

    def do_fault(self):
        if self.random.random() < 0.3:
            self.launch(self.random.choice(["wrong grid=1 block=1",
                                            "store elements=1 u64:16"]))

    def do_garbage(self):
        verb = self.random.choice(VERBS)
        line = self.random.randbytes(self.random.choice([1, 10, 100, 4096, 5000, 70000]))
        if self.random.random() < 0.5:
            line = self.name_().encode() + b" " + line.replace(b"\n", b" ")
        write(f"control/{verb}", line)

    def do_garbage_anywhere(self):
        length = self.random.choice([0, 1, 20, 5000])
        write(self.somewhere(), self.random.randbytes(length))

    def somewhere(self):
        """A file somewhere in the tree; not events_pipe, which waits."""
        path = "."
        while True:
            names = sorted(set(os.listdir(path)) - {"events_pipe"})
            path += "/" + self.random.choice(names or ["."])
            if not os.path.isdir(path) or not names:
                return path

    def do_look(self):
        read(self.somewhere(), self.random.choice([1, 100, 1 << 16]))

    def do_events(self):
        read("events_pipe")

    def do_other_calls(self):
        path, name = self.somewhere(), self.name_()
        self.random.choice([
            lambda: os.unlink(path), lambda: os.link(path, "x"), lambda: os.mkdir(path),
            lambda: os.symlink("x", f"allocations/{name}"), lambda: os.rename(path, name),
            lambda: os.getxattr(path, "user.x"), lambda: os.setxattr(path, "user.x", b"x"),
            lambda: os.utime(path), lambda: os.truncate(path, self.number() % (1 << 40)),
            lambda: os.mkfifo(f"modules/{name}"), lambda: os.statvfs(path),
            lambda: os.chmod(path, self.random.getrandbits(12)),
        ])()

    def do_reset(self):
        if self.random.random() < 0.2:
            uid = self.random.choice([os.geteuid(), os.geteuid(), *HOSTILE, THIRD])
            write(f"owners/{uid}/reset", b"1")

    def do_signal_worker(self):
        if self.random.random() > 0.15:
            return
        pid = int(read(f"owners/{os.geteuid()}/worker"))
        if pid <= 0:
            return
        how = self.random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
        os.kill(pid, how)
        if how == signal.SIGSTOP:
            try:
                self.end.wait(self.random.uniform(0, 0.5))
            finally:
                os.kill(pid, signal.SIGCONT)

    def do_signal_thread(self):
        other = self.random.choice(threading.enumerate())
        if other is not threading.main_thread() and other.ident:
            signal.pthread_kill(other.ident, self.random.choice([signal.SIGHUP,
                                                                 signal.SIGTERM]))

    def do_die_within(self):
        """A process that is killed while it waits."""
        name = self.name_()
        line = self.random.choice([
            f"cat allocations/{name}/data", f"cp /dev/zero allocations/{name}/data",
            f"echo 'd{self.random.randrange(9)} 1M until=close' >control/alloc",
            f"echo 'k{os.geteuid()} endless grid=1 block=1 timeout=1 {name}'"
            " >control/launch",
        ])
        null = subprocess.DEVNULL
        with subprocess.Popen(["sh", "-c", line], stdin=null, stdout=null,
                              stderr=null) as child:
            self.end.wait(self.random.uniform(0, 0.2))
            child.send_signal(self.random.choice([signal.SIGKILL, signal.SIGINT]))
            self.end.wait(0.01)
            child.kill()

    often = ["do_alloc", "do_alloc", "do_launch", "do_launch", "do_write", "do_use_held"]

    def run(self):
        names = [name for name in dir(self) if name.startswith("do_")] + self.often
        while not self.end.is_set():
            name = self.random.choice(names)
            self.doing = f"{name} since {time.strftime('%T')}"
            try:
                getattr(self, name)()
                self.count["done"] += 1
            except OSError as error:
                self.count[errno.errorcode[error.errno]] += 1
            except (ValueError, OverflowError, IndexError):
                self.count["impossible"] += 1  # the number does not fit into the call's argument
        for fd in self.held:
            os.close(fd)
        self.doing = None


def own_paths():
    for folder in ("allocations", "modules", "streams"):
        for name in os.listdir(folder):
            if folder != "streams" or not name.startswith("default"):
                yield f"{folder}/{name}"


def clean_up():
    """Frees all that is the user's own."""
    try:
        pid = int(read(f"owners/{os.geteuid()}/worker"))
        if pid > 0:
            os.kill(pid, signal.SIGCONT)
        write(f"owners/{os.geteuid()}/reset", b"1")
    except OSError:
        pass
    # A stream and a module are busy until their queued work has ended, perhaps behind
    # work of the other user.
    deadline = time.monotonic() + 30
    for path in own_paths():
        while True:
            try:
                os.rmdir(path)
            except (FileNotFoundError, PermissionError):
                break  # removed meanwhile, or another user's
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                break


def attack(uid, seconds, seed):
    become(uid)
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    end, count = threading.Event(), collections.Counter()
    threads = [Hostile(seed * 100 + uid + i, end, count) for i in range(N_THREADS)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    end.set()
    deadline = time.monotonic() + LIMIT
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    stuck = [thread.doing for thread in threads if thread.is_alive()]
    if stuck:
        raise Wrong(f"user {uid} can't end: {', '.join(stuck)}")
    clean_up()
    counts = ", ".join(f"{name} {n}" for name, n in sorted(count.items()))
    print(f"# user {uid}: {sum(count.values())} calls: {counts}", flush=True)


class Third:
    """The third user: memory of each kind, and what is in it."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.doing, self.since, self.longest, self.count = "", time.monotonic(), 0, 0
        self.memories = []
        threading.Thread(target=self.watch, daemon=True).start()
        for i, kind in enumerate(KINDS):
            mode = 644 if i % 4 == 0 else 600
            data = self.random.randbytes(300007 if i % 2 else 1500001)
            path = f"allocations/third{i}/data"
            self.call("alloc", write, "control/alloc",
                      f"third{i} {len(data)} kind={kind} mode={mode}".encode())
            fd = os.open(path, os.O_RDWR)
            self.call("write", os.pwrite, fd, data, 0)
            self.memories.append([fd, data, kind])

    def call(self, what, call, *args):
        self.doing, self.since = what, time.monotonic()
        try:
            return call(*args)
        except OSError as error:
            raise Wrong(f"the third user's {what} fails: {error}") from error
        finally:
            self.longest = max(self.longest, time.monotonic() - self.since)
            self.doing = ""
            self.count += 1

    def watch(self):
        while True:
            time.sleep(0.5)
            if self.doing and time.monotonic() - self.since > LIMIT:
                print(f"the third user's {self.doing} takes over {LIMIT} s", flush=True)
                os._exit(1)

    def compare(self, memory):
        fd, data, kind = memory
        found = self.call(f"read of {kind} memory", os.pread, fd, len(data), 0)
        if found != data:
            pairs = enumerate(zip(found, data))
            at = next((i for i, (a, b) in pairs if a != b), len(found))
            raise Wrong(f"the third user's {kind} memory has other bytes at {at}")

    def step(self):
        memory = self.random.choice(self.memories)
        self.compare(memory)
        what = self.random.randrange(4)
        if what == 0:
            memory[1] = self.random.randbytes(len(memory[1]))
            self.call(f"write to {memory[2]} memory", os.pwrite, memory[0], memory[1], 0)
        elif what == 1:
            i, value = self.memories.index(memory), self.random.randrange(256)
            self.call(f"fill of {memory[2]} memory", write, "control/fill",
                      f"third{i} u8:{value}".encode())
            memory[1] = bytes([value]) * len(memory[1])
        elif what == 2:
            self.call("ls", os.listdir, "allocations")

    def run(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.step()
        for memory in self.memories:
            self.compare(memory)
            os.close(memory[0])
        for i in range(len(self.memories)):
            self.call("rmdir", os.rmdir, f"allocations/third{i}")
        errors = self.call("read of errors", read, "errors")
        if errors:
            raise Wrong(f"the third user has errors: {errors.decode()}")
        print(f"# the third user: {self.count} calls, the longest {self.longest:.2f} s",
              flush=True)


def third(seconds, seed, ready):
    become(THIRD)
    user = Third(seed)
    os.write(ready, b"1")
    user.run(seconds)


def child(function, *args):
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        function(*args)
        status = 0
    except Wrong as wrong:
        print(wrong, flush=True)
    except BaseException:  # a bug of this program, in a process of its own
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main():
    seconds = float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().getrandbits(32)
    print(f"# seed {seed}", flush=True)
    wait, ready = os.pipe()
    children = [child(third, seconds + 1, seed, ready)]
    os.close(ready)
    if os.read(wait, 1):
        children += [child(attack, uid, seconds, seed) for uid in HOSTILE]
    failed = False
    for pid in children:
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            print(f"process {pid} ended with {status}")
            failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
