"""documents.py DOCUMENT MOUNT: runs a document's sessions and Python in the current folder,
with MOUNT for /mnt/gpu and the folder etc for /etc, and prints what is not as the document says."""
import os
import re
import sys
import time

from terminal import Shell, agree, blocks

USERS = {"alice": 1001, "bob": 1002, "carol": 1003}  # alice and bob are in the group users
GROUP = 100


def named(lines):
    """The lines with names of users for their numbers: the test's users have none."""
    for name, uid in USERS.items():
        lines = [re.sub(rf"\b{uid}\b", name, line) for line in lines]
    return lines


class Reader:
    """Types a document's commands, and compares."""

    def __init__(self, mount):
        self.mount, self.etc = mount, os.path.abspath("etc")
        self.shells = {}
        self.failed = 0

    def shell(self, user):
        if user not in self.shells:
            groups = () if user == "carol" else (GROUP,)
            self.shells[user] = Shell(
                groups=groups, uid=USERS.get(user), env=dict(os.environ, TERM="dumb"))
        return self.shells[user]

    def type(self, user, command):
        typed = command.replace("/mnt/gpu", self.mount).replace("/etc/", f"{self.etc}/")
        said = self.shell(user).run(typed)
        said = named(said)
        return [line.replace(self.mount, "/mnt/gpu") for line in said
                if not re.search(r"\[#*-*\] .*B of .*B", line)]  # a progress bar

    def check(self, user, command, expected):
        if command.startswith("gpumem-trace ") and "GPUMEM_UNTRACED" in os.environ:
            print("# not run, the build has no gpumem-trace:", command)
            return
        expected = named(expected)
        said = self.type(user, command)
        deadline = time.monotonic() + 10
        # Linux tells the broker that a file is closed some time after close(2).
        while command.startswith(("ls ", "grep ")) and not agree(expected, said) and \
                time.monotonic() < deadline:
            time.sleep(0.1)
            said = self.type(user, command)
        if not agree(expected, said):
            self.failed += 1
            print(f"{user}$ {command}", "expected:", *expected, "got:", *said, sep="\n")

    def python(self, text):
        compile(text, "the document", "exec")
        if "torch(" in text:
            print("# not run, torch has no use of the software GPU:", text.splitlines()[-1])
            return
        if "numpy(" in text and self.type("", "python3 -c 'import numpy'"):
            print("# not run, numpy is not here:", text.splitlines()[-1])
            return
        self.check("", f"python3 - <<'END'\n{text}END", [])

    def close(self):
        self.type("", f"! mountpoint -q {self.mount} || umount {self.mount}")
        for shell in self.shells.values():
            shell.close()


def main():
    with open(sys.argv[1], encoding="utf-8") as document:
        text = document.read()
    reader = Reader(sys.argv[2])
    count = 0
    for kind, block in blocks(text):
        count += 1
        if kind == "python":
            reader.python(block)
            continue
        for command in block:
            reader.check(*command)
    reader.close()
    if not count:
        sys.exit(f"{sys.argv[1]} has nothing to run")
    sys.exit(reader.failed != 0)


main()
