"""Leases, for the mount suite: what a program does that maps an allocation, without any
library: open `lease`, read it, exchange the ticket, map the descriptor."""
import array
import fcntl
import mmap
import os
import select
import socket
import struct

from syscalls import *


class Lease:
    def __init__(self, name, write=False):
        self.fd = os.open(f"allocations/{name}/lease", os.O_RDWR if write else os.O_RDONLY)

    def text(self):
        return os.pread(self.fd, 4096, 0).decode()

    def fields(self):
        return dict(line.split(" ", 1) for line in self.text().splitlines())

    def line(self, text):
        return os.write(self.fd, text.encode())

    def hold(self, kind, code=0x40046701):
        """GPUMEM_LEASE_HOLD of include/gpumem/lease.h; also for a descriptor for reading."""
        return fcntl.ioctl(self.fd, code, struct.pack("I", kind))

    def events(self, milliseconds=0):
        """What poll says: POLLPRI when there is something new to read."""
        poll = select.poll()
        poll.register(self.fd, select.POLLPRI)
        return poll.poll(milliseconds) != []

    def close(self):
        os.close(self.fd)


def connect(path=None):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path or os.readlink("socket"))
    return connection


def redeem(ticket):
    """The descriptor, or the name of the error. The broker may die before the answer."""
    for _ in range(4):
        try:
            with connect() as connection:
                connection.send(ticket.encode())
                message, fds, _, _ = socket.recv_fds(connection, 1, 1)
        except (BrokenPipeError, ConnectionResetError):
            continue
        if message:
            return fds[0] if message == b"\0" else errno.errorcode[message[0]]
    return "ECONNRESET"


def memory(lease, write=False):
    """The memory itself: a mapping, on the software GPU and for host memory."""
    fields = lease.fields()
    fd = redeem(fields["ticket"])
    if isinstance(fd, str):
        raise OSError(getattr(errno, fd), fd)
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if write else 0)
    mapped = mmap.mmap(fd, int(fields["mapped_bytes"]), mmap.MAP_SHARED, protection)
    os.close(fd)
    return mapped
