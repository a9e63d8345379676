# A mount that looks like a broker's:
#
#     fake_mount.py FOLDER UID [FILE TEXT]...
#
# mounts files with these contents on a folder, as a mount of the user UID, and serves them
# until killed. Without files the mount never answers, and with NO_FLUSH in the environment no
# process that closes a file. SOURCE is the first word of the mount's line in /proc/self/mounts.
import ctypes, os, struct, sys

folder, uid, *words = sys.argv[1:]
LOOKUP, FORGET, GETATTR, OPEN, READ, INIT, OPENDIR, READDIR = 1, 2, 3, 14, 15, 26, 27, 28
FLUSH, INTERRUPT, BATCH_FORGET = 25, 36, 42

unanswered = {FORGET, BATCH_FORGET, INTERRUPT}
if "NO_FLUSH" in os.environ:
    unanswered.add(FLUSH)

nodes = {1: {}}  # a folder is a dict from names to numbers, a file its bytes


def node(value):
    nodes[len(nodes) + 1] = value
    return len(nodes)


for path, text in zip(words[::2], words[1::2]):
    at = nodes[1]
    *folders, name = path.split("/")
    for one in folders:
        if one not in at:
            at[one] = node({})
        at = nodes[at[one]]
    at[name] = node((text + "\n").encode())


def attr(n):
    is_folder = isinstance(nodes[n], dict)
    mode = 0o40755 if is_folder else 0o100644
    return struct.pack("<6Q10I", n, 0 if is_folder else len(nodes[n]), 0, 0, 0, 0,
                       0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def entries(n):
    out = b""
    for i, (name, child) in enumerate(nodes[n].items()):
        name = name.encode()
        out += struct.pack("<QQII", child, i + 1, len(name), 0) + name
        out += bytes(-len(out) % 8)
    return out


def answer(opcode, n, body):
    if opcode == LOOKUP:
        child = nodes[n].get(body.rstrip(b"\0").decode())
        return child and struct.pack("<4Q2I", child, 0, 1, 1, 0, 0) + attr(child)
    if opcode == GETATTR:
        return struct.pack("<QII", 1, 0, 0) + attr(n)
    if opcode in (OPEN, OPENDIR):
        return struct.pack("<QII", 0, opcode == OPEN, 0)
    if opcode in (READ, READDIR):
        offset, size = struct.unpack_from("<8xQI", body)
        if opcode == READ:
            return nodes[n][offset:offset + size]
        return b"" if offset else entries(n)
    return b""


device = os.open("/dev/fuse", os.O_RDWR)
options = "fd=%d,rootmode=40000,user_id=%s,group_id=0,allow_other" % (device, uid)
libc = ctypes.CDLL(None, use_errno=True)
source = os.environ.get("SOURCE", "user_id=0")
if libc.mount(source.encode(), folder.encode(), b"fuse.gpumemd", 0, options.encode()):
    sys.exit("mount: " + os.strerror(ctypes.get_errno()))
while True:
    try:
        request = os.read(device, 1 << 20)
    except OSError:  # unmounted
        break
    _, opcode, unique, n = struct.unpack_from("<IIQQ", request)
    if opcode == INIT:
        out = struct.pack("<4IHH2IHH8I", 7, 31, 0, 0, 0, 0, 1 << 16, 1, 0, 0, *[0] * 8)
    elif not words or opcode in unanswered:
        continue
    else:
        out = answer(opcode, n, request[40:])
    error = -2 if out is None else 0
    os.write(device, struct.pack("<IiQ", 16 + len(out or b""), error, unique) + (out or b""))
