"""Plays systemd's ends of sockets: listen.py SOCKET FILE writes each datagram to the file,
a field a line, and an empty line behind it."""
import os
import socket
import sys

path, file = sys.argv[1:]
end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
end.bind(path)
os.chmod(path, 0o777)
with open(file, "w", encoding="utf-8", errors="backslashreplace") as out:
    while True:
        out.write(end.recv(1 << 20).decode(errors="backslashreplace").rstrip("\n") + "\n\n")
        out.flush()
