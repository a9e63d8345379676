# SPDX-License-Identifier: MIT
"""Sessions at a shell: run on a terminal, and read out of a document. tools/picture shows
one; tests/mount/docs.bash runs those of the documents."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

MARK = "\x01ended\x02"


class Shell:
    """A bash whose output goes to a terminal; what runs in it has no input."""

    def __init__(self, columns=90, cwd=None, env=None, uid=None, groups=()):
        self.master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        person = {} if uid is None else dict(user=uid, group=uid, extra_groups=list(groups))
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], stdin=subprocess.PIPE, stdout=terminal,
            stderr=terminal, cwd=cwd, env=env, start_new_session=True, **person)
        os.close(terminal)

    def run(self, command):
        """What the command prints, as the terminal shows it at the end."""
        script = f"{{ {command}\n}} </dev/null; printf '%s' $'\\x01'ended$'\\x02'\n"
        self.process.stdin.write(script.encode())
        self.process.stdin.flush()
        output = b""
        while not output.endswith(MARK.encode()):
            try:
                output += os.read(self.master, 65536)
            except OSError:  # the shell has ended
                raise EOFError(f"{command}: {output.decode(errors='replace')}") from None
        return shown(output.decode(errors="replace")[: -len(MARK)])

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        os.close(self.master)


def shown(output):
    """The lines left on the screen: a carriage return begins a line anew. bash names the
    line of its input in its own messages only because its input is no terminal."""
    lines = []
    output = output.replace("\r\n", "\n").replace("\x1b[K", "")
    for line in output.removesuffix("\n").split("\n"):
        last = line.split("\r")[-1]
        lines.append(re.sub(r"^bash: line \d+: ", "bash: ", last).rstrip())
    return [] if lines == [""] else lines


def blocks(document):
    """Yields the indented blocks that can be run: ("shell", [(user, command, lines that the
    document shows)]) and ("python", text). `$ ` is the reader's prompt, `alice$ ` the prompt
    of another user, `> ` goes on with a command. A Python block begins with an import."""
    for block in re.findall(r"(?m)(?:^    .*\n(?:\n(?=    ))*)+", document):
        text = "".join(line[4:] or "\n" for line in block.splitlines(keepends=True))
        if re.match(r"(import|from) \w+", text):
            yield "python", text
        elif re.search(r"(?m)^[a-z]*\$ ", text):
            yield "shell", session(text)


def session(text):
    commands = []
    lines = iter(text.splitlines())
    for line in lines:
        prompt = re.fullmatch(r"([a-z]*)\$ (.*)", line)
        if prompt:
            commands.append((*prompt.groups(), []))
        elif line.startswith("> "):
            user, command, said = commands[-1]
            commands[-1] = (user, f"{command}\n{line[2:]}", said)
        else:
            commands[-1][2].append(line.rstrip())
    for _, _, said in commands:
        while said and not said[-1]:
            said.pop()
    return commands


# What differs from run to run: times, processes, addresses.
DIFFERENT = [
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"(?<=^TIME )\d+ ", "NUMBER "),
    (r"[A-Z][a-z]{2} +\d+ \d\d:\d\d ", "TIME "),
    (r"\b(\d+(\.\d+)? (ns|us|µs|ms|s|min)|now)\b", "TIME"),
    (r"(?<=elapsed_ns )\d+", "TIME"),
    (r"\b\d+\.\d{3}\b", "TIME"),
    (r"\b[\d.]+ [KMGT]iB/s", "RATE"),
    (r"\bpid=\d+", "pid=PID"),
    (r"\bcuEvent(Query|Record|Synchronize)\b", "cuEvent"),
    (r"\b(process |run\.)\d+", r"\1PID"),
    (r"(?<=[a-z0-9])\(\d+\)", "(PID)"),
    (r"^(#)?\d+ (\d+ )?(?=\w+ [rw] )", r"\1PID "),
    (r"\blease=\d+", "lease=N"),
    (r"\b\d+ +(?=cu[A-Z])", "PID "),
    (r"\b0x[0-9a-f]+\b", "ADDRESS"),
    (r"\x1b\[[0-9;]*m", ""),
    (r"\[[#-]{10,}\] +\d+%", "[BAR]"),
    (r" +", " "),
]


def steady(line):
    """The line without what differs from run to run."""
    for pattern, word in DIFFERENT:
        line = re.sub(pattern, word, line)
    return line.rstrip()


def agree(shown, said):
    """Do these lines agree? A line `...` of the document stands for any lines."""
    pattern = ""
    for line in shown:
        pattern += r"(?:.*\n)*" if line == "..." else re.escape(steady(line)) + r"\n"
    return re.fullmatch(pattern, "".join(steady(line) + "\n" for line in said)) is not None


def write_model(path):
    """A safetensors file of 64 MiB, as the documents name one."""
    size = 4096 * 4096 * 2
    header = json.dumps({name: {"dtype": "BF16", "shape": [4096, 4096], "data_offsets": [at, at + size]}
                         for name, at in (("embed.weight", 0), ("head.weight", size))})
    header += " " * (-len(header) % 8)
    with open(path, "wb") as model:
        model.write(struct.pack("<Q", len(header)) + header.encode() + os.urandom(2 * size))
