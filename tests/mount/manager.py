#!/usr/bin/env python3
"""Plays the service manager for one service, as systemd does for a unit with Type=notify,
RestartKillSignal=SIGUSR2 and a store for descriptors.

Usage: manager.py FOLDER UNIT MAX COMMAND...

MAX descriptors are held at most. SIGUSR2 is `systemctl restart`, SIGTERM `systemctl stop`;
a service that ends by itself has ended, but one that fails while something is held is
started again. At the unit's limit of starts (`limited STORED`) everything is let go. No start comes while FOLDER/hold is there. FOLDER/service has a line for
each start (`started PID STORED`), for READY=1 (`ready STORED`), for each end (`ended
STATUS STORED`) and, as with NotifyAccess=main, for what another process than the first says,
which is not heard (`refused PID STORED`). FOLDER/said has what was heard.
"""

import array
import fcntl
import os
import re
import select
import signal
import socket
import sys
import time

folder, unit, limit, command = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
address = folder + "/notify"
if os.path.exists(address):
    os.unlink(address)
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
notify.bind(address)
log = open(folder + "/service", "w", buffering=1)
heard = open(folder + "/said", "w", buffering=1)
store = []  # (name, descriptor)
starts = []  # their times


def tell(*words):
    print(*words, len(store), file=log)


def setting(name, otherwise):
    with open(unit) as file:
        found = re.search(rf"^{name}=(\d+)$", file.read(), re.M)
    return int(found[1]) if found else otherwise


def start():
    now = time.monotonic()
    starts.append(now)
    if sum(then > now - setting("StartLimitIntervalSec", 10) for then in starts) > setting("StartLimitBurst", 5):
        tell("limited")
        sys.exit(1)
    while os.path.exists(folder + "/hold"):
        time.sleep(0.02)
    names = ":".join(name for name, _ in store)
    pid = os.fork()
    if pid:
        tell("started", pid)
        return pid
    # Out of the way first: one of them may be 3.
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, 200) for _, fd in store]
    os.closerange(3, 200)
    for i, fd in enumerate(moved):
        os.dup2(fd, 3 + i)
        os.close(fd)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    environment = dict(os.environ, NOTIFY_SOCKET=address)
    if store:
        environment |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(store)), "LISTEN_FDNAMES": names}
    os.execve(command[0], command, environment)


def hear():
    space = socket.CMSG_SPACE(4 * 253) + socket.CMSG_SPACE(12)
    text, control, _, _ = notify.recvmsg(4096, space, socket.MSG_DONTWAIT)
    fds, sender = array.array("i"), 0
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data)
        elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            sender = array.array("i", data)[0]
    if sender == pid:
        take(text, fds)
    else:
        tell("refused", sender)
    for fd in fds:  # those of a barrier, too
        os.close(fd)


def take(text, fds):
    print(text.decode(), file=heard)
    said = dict(line.split("=", 1) for line in text.decode().splitlines())
    if said.get("FDSTORE") == "1":
        while fds and len(store) < limit:
            # Else systemd watches the descriptor, and lets go at its end.
            assert said["FDPOLL"] == "0", said
            store.append((said["FDNAME"], fds.pop()))
    if said.get("FDSTOREREMOVE") == "1":
        forget(lambda name: name == said["FDNAME"])
    if said.get("READY") == "1":
        tell("ready")


def forget(matches):
    for entry in [entry for entry in store if matches(entry[0])]:
        store.remove(entry)
        os.close(entry[1])


# The signals wake poll(2).
asked = []
woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
signal.set_wakeup_fd(wake)
for number in signal.SIGUSR2, signal.SIGTERM, signal.SIGCHLD:
    signal.signal(number, lambda n, _: asked.append(n))
poll = select.poll()
poll.register(notify, select.POLLIN)
poll.register(woken, select.POLLIN)

pid, restarts, stops = start(), False, False
while True:
    poll.poll()
    try:
        os.read(woken, 100)
    except BlockingIOError:
        pass
    try:
        while True:
            hear()
    except BlockingIOError:
        pass
    while asked:
        number = asked.pop(0)
        restarts |= number == signal.SIGUSR2
        stops |= number == signal.SIGTERM
        if number != signal.SIGCHLD:
            os.kill(pid, number)
    if not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        continue
    try:
        while True:
            hear()
    except BlockingIOError:
        pass
    status = os.waitstatus_to_exitcode(ended[1])
    tell("ended", status)
    if stops or not (restarts or (status and store)):
        forget(lambda name: True)
        sys.exit(status if status >= 0 else 128 - status)
    pid, restarts = start(), False
