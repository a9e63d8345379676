"""What the kernel still holds for a mount's files that can be mapped (FUSE_PASSTHROUGH).

    python3 backing.py PID
    python3 backing.py PID open

A broker gives the kernel the memory of a file under an id, and takes the id back. PID has
the device of the mount open. This takes all ids back and prints them; as root, when nothing
is to be mapped any more. With `open` it gives the kernel memory that no broker knows of.
"""
import ctypes
import fcntl
import os
import struct
import sys

PIDFD_GETFD = 438
BACKING_OPEN = 0x4010E501   # _IOW(229, 1, struct fuse_backing_map)
BACKING_CLOSE = 0x4004E502  # _IOW(229, 2, uint32_t)


def device_of(pid):
    """The device of another process's mount."""
    number = next(int(one) for one in os.listdir(f"/proc/{pid}/fd")
                  if os.readlink(f"/proc/{pid}/fd/{one}") == "/dev/fuse")
    pidfd = os.pidfd_open(pid)
    fd = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, pidfd, number, 0)
    os.close(pidfd)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return fd


def give(device):
    """Returns: the id of new memory."""
    memory = os.memfd_create("probe")
    number = fcntl.ioctl(device, BACKING_OPEN,
                         bytearray(struct.pack("iIQ", memory, 0, 0)))
    os.close(memory)
    return number


def take_back(device, number):
    try:
        fcntl.ioctl(device, BACKING_CLOSE, struct.pack("I", number))
        return True
    except FileNotFoundError:
        return False


def take_all(device, first=1):
    """Returns: the ids that were there; the next that the kernel gives."""
    last = give(device)
    take_back(device, last)
    return [one for one in range(first, last) if take_back(device, one)], last + 1


if __name__ == "__main__":
    of_broker = device_of(int(sys.argv[1]))
    if sys.argv[2:] == ["open"]:
        give(of_broker)
    else:
        print(*take_all(of_broker)[0])
