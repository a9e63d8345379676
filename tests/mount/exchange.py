# SPDX-License-Identifier: MIT
"""Runs a command once for each of its calls that name something of the mount, while the
owner of two names exchanges them right before that call, for good or for that call alone.

exchange.py put|get|ls UID A B COMMAND...: UID runs the command; 4001 owns A and B in
`allocations`: folders, for ls allocations. Prints `calls N` and what is wrong. The command is traced: nothing is timed."""

import ctypes
import json
import os
import re
import struct
import sys
import tempfile

HOSTILE = 4001
SETOPTIONS, SYSCALL, GET_SYSCALL_INFO, TRACEME = 0x4200, 24, 0x420E, 0
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p
what, victim, folders, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:5], sys.argv[5:]
begins = {"put": b"control/alloc", "get": b"allocations/", "ls": b"allocations"}[what]
names = re.compile(rb"^(data|tensors|id|status|[ab]|put\.\d+\..*)$|allocations|control/|\bput\.")


def ptrace(request, pid, address=0, data=0):
    if libc.ptrace(request, pid, address, data) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def as_hostile(function):
    os.setegid(HOSTILE)
    os.seteuid(HOSTILE)
    try:
        return function()
    finally:
        os.seteuid(0)
        os.setegid(0)


def exchange():
    a, b = (f"allocations/{folder}".encode() for folder in folders)
    if as_hostile(lambda: libc.renameat2(-100, a, -100, b, 2)):  # RENAME_EXCHANGE
        raise OSError(ctypes.get_errno(), "renameat2")


def line(file, text):
    with open(f"control/{file}", "wb", buffering=0) as opened:
        opened.write(text.encode())


def named(pid):
    """What the call names that a process begins; None: it is the end of a call."""
    info = (ctypes.c_ubyte * 88)()
    ptrace(GET_SYSCALL_INFO, pid, len(info), ctypes.addressof(info))
    if info[0] != 1:
        return None
    found = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for at in struct.unpack_from("4Q", info, 32)[:4]:
            try:
                memory.seek(at)
                found.append(memory.read(256).split(b"\0")[0])
            except (OSError, OverflowError, ValueError):
                pass
    return b"\n".join(text for text in found if names.search(text))


output = tempfile.TemporaryFile()


def run(n, once):
    """Exchanges the folders before call n, and back at the end. Returns: the exit status and
    the calls."""
    os.truncate(output.fileno(), 0)
    os.lseek(output.fileno(), 0, 0)
    pid = os.fork()
    if pid == 0:
        os.dup2(output.fileno(), 1)
        os.setgroups([])
        os.setgid(victim)
        os.setuid(victim)
        ptrace(TRACEME, 0)
        os.kill(os.getpid(), 19)
        os.execv(command[0], command)
    os.waitpid(pid, 0)
    ptrace(SETOPTIONS, pid, 0, 1 | 0x100000)  # TRACESYSGOOD, EXITKILL
    calls, begun, away, signal = 0, False, False, 0
    while True:
        ptrace(SYSCALL, pid, 0, signal)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            if away:
                exchange()
            return os.waitstatus_to_exitcode(status), calls
        signal = os.WSTOPSIG(status)
        if signal == 5:  # of execve(2)
            signal = 0
        if signal != 0x85:
            continue
        signal = 0
        text = named(pid)
        if text is None:
            if away and once:
                exchange()
                away = False
            continue
        if not begun and begins in text:
            begun = True
            if what == "put":
                for name in (f"put.{pid}.x", "x.part"):
                    as_hostile(lambda: line("alloc", f"{folders[1]}/{name} {SIZE} mode=0666"))
        if not begun or not text:
            continue
        calls += 1
        if calls == n:
            exchange()
            away = True


def objects():
    """Each allocation in the folders, as (path, its status)."""
    for folder in folders:
        for name in os.listdir(f"allocations/{folder}"):
            path = f"allocations/{folder}/{name}"
            with open(f"{path}/status") as file:
                yield path, dict(row.rstrip("\n").split(" ", 1) for row in file)


def read(path):
    with open(path, "rb", buffering=0) as file:
        return file.read()


def check_put(status):
    wrong, whole = [], 0
    for path, now in list(objects()):
        data, tensors = read(f"{path}/data"), read(f"{path}/tensors")
        if int(now["owner"]) == HOSTILE and (any(data) or tensors or now["sealed"] == "1"):
            wrong.append(f"{path} of {HOSTILE} has bytes of {victim}")
        if path.endswith("/x"):
            whole += 1
            if int(now["owner"]) != victim or data != BYTES or tensors != HEADER:
                wrong.append(f"{path} of {now['owner']} is not what was put")
        os.rmdir(path)
    if status == 0 and whole != 1:
        wrong.append(f"{whole} allocations x")
    return wrong


def check_get(status):
    file, wrong = command[-1], []
    if status == 0 and read(file) not in WANTED:
        wrong.append("half of one, half of the other")
    if status == 0:
        os.unlink(file)
    return wrong


def check_ls(status):
    shown = json.loads(os.pread(output.fileno(), 1 << 20, 0))["allocations"]
    rows = {(row["size"], row["tag"]) for row in shown if row["name"][-1] in "ab"}
    return [f"mixed: {rows}"] if not status and not rows <= {(8, "small"), (16, "large")} else []


if what == "put":
    whole = read(command[-2])
    length = int.from_bytes(whole[:8], "little") + 8 if command[-2].endswith("/tensors") else 0
    HEADER, BYTES = whole[8:length], whole[length:]
    SIZE, check = len(BYTES), check_put
elif what == "ls":
    check = check_ls
else:
    WANTED, check = [], check_get
    for folder in folders:
        path = f"allocations/{folder}/x"
        tensors = read(f"{path}/tensors")
        WANTED.append(len(tensors).to_bytes(8, "little") + tensors + read(f"{path}/data"))
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
for once in (False, True):
    n, calls, done = 0, 0, 0
    while n <= calls:
        status, made = run(n, once)
        calls = calls or made
        if n == 0 and status:
            print(f"the command failed: status {status}")
        for fault in check(status):
            print(f"call {n} of {calls}{', once' if once else ''}: {fault}")
        done += status == 0
        n += 1
    print(f"calls {calls} done {done}")
