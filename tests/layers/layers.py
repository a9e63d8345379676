#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Compares the code with the order of its folders (docs/architecture.md).

A folder includes headers of itself and of the folders above it in FOLDERS, and calls only
what those define. Waits are by the monotonic clock. Cases check what they run.

usage: layers.py SOURCE LIBRARY...   (the static libraries of the folders of broker/)
"""

import pathlib
import re
import subprocess
import sys

# From bottom to top. None: may use all folders before.
FOLDERS = {
    "broker/base": None,
    "broker/cuda": None,
    "broker/client": ["broker/base", "broker/cuda"],
    "broker/protocol": None,
    "broker/worker": ["broker/base", "broker/cuda", "broker/protocol"],
    "broker/record": ["broker/base"],
    "broker/keep": ["broker/base"],
    "broker/model": None,
    "broker/memory": None,
    "broker/channel": None,
    "broker/process": None,
    "broker/op": None,
    "broker/memops": None,
    "broker/kernels": None,
    "broker/control": None,
    "broker/api": None,
    "fuse": ["broker/base", "broker/keep", "broker/api"],
    "bpf/kernel": [],
    "bpf": ["broker/base", "broker/cuda", "bpf/kernel"],
    "bpf/modes": ["broker/base", "broker/cuda", "bpf/kernel", "bpf"],
}


def may_use(folder):
    """The folders whose headers and functions a folder may use."""
    if FOLDERS[folder] is not None:
        return FOLDERS[folder] + [folder]
    order = list(FOLDERS)
    below = order[: order.index(folder) + 1]
    return [other for other in below if other not in ("broker/client", "broker/worker")]


def included_file(source, path, name):
    """The file of this project that an include names, None for a system header."""
    for place in (path.parent, source / "broker", source / "bpf"):
        if (place / name).is_file():
            return (place / name).relative_to(source)
    return None


def find_includes(source):
    """Yields every include of a header that its file may not use."""
    for folder in FOLDERS:
        for path in sorted((source / folder).glob("*.[ch]")):
            for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M):
                header = included_file(source, path, name)
                if header and str(header.parent) not in may_use(folder):
                    yield f"include {path.relative_to(source)} {name}"


def read_symbols(library):
    """Yields (object, symbol, whether it is defined there) of a static library."""
    lines = subprocess.run(
        ["nm", "--format=posix", library], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    current = None
    for line in lines:
        header = re.match(r".*\[(.*)\.o\]:$", line)
        if header:
            current = pathlib.Path(header[1]).name
            continue
        words = line.split()
        if len(words) > 1 and words[1] in "TDBRCU":
            yield current, words[0], words[1] != "U"


def find_calls(libraries):
    """Yields every use of a symbol that a folder above defines."""
    used, home = [], {}
    for library in libraries:
        folder = "broker/" + pathlib.Path(library).stem.removeprefix("lib")
        for source, symbol, defined in read_symbols(library):
            if defined:
                home[symbol] = folder
            else:
                used.append((folder, source, symbol))
    for folder, source, symbol in sorted(used):
        if symbol in home and home[symbol] not in may_use(folder):
            yield f"call {folder}/{source} {symbol}"


# Files that may show or store a time of day.
TIMES_OF_DAY = {
    "bpf/main.c",
    "broker/model/allocation.c",
    "broker/model/folder.c",
    "fuse/view.c",
    "tools/softgpu/ptx/special.c",
}
# Changes of the machine's clock affect waits with these.
TIME_OF_DAY = re.compile(
    r"CLOCK_REALTIME|gettimeofday|CLOCK_TAI|ITIMER_REAL\b"
    r"|\b(sem|pthread_(mutex|rwlock)|mq|mtx|cnd|pthread)_timed\w+"
)
# These calls wait by the clock of the condition variable.
CONDITION_WAIT = re.compile(r"pthread_cond_(timed|clock)wait|pthread_condattr_setclock")


def find_clocks(source):
    """Yields every line that may wait until a time of day."""
    for top in ("broker", "fuse", "bpf", "tools"):
        for path in sorted((source / top).rglob("*.[ch]")):
            name = str(path.relative_to(source))
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = TIME_OF_DAY.search(line) and name not in TIMES_OF_DAY
                found = found or CONDITION_WAIT.search(line) and name != "broker/base/clock.h"
                if found:
                    yield f"{name}:{number} {line.strip()}"


# bash goes on after `! COMMAND`, however the command ends, except at the end of a list.
UNCHECKED = re.compile(r"(?<!\|\|)(?<!&&)\n(\s*! (?!.*\|\|).*)")


def find_unchecked(source):
    """Yields every line of a case that can't fail."""
    for path in sorted((source / "tests").rglob("*.bash")):
        for line in UNCHECKED.findall(path.read_text()):
            yield f"{path.relative_to(source)}: {line.strip()}: use fails 'COMMAND'"


def report(number, name, problems):
    for problem in problems:
        print(f"# {problem}")
    print(f"{'not ok' if problems else 'ok'} {number} - {name}")


def main():
    source = pathlib.Path(sys.argv[1])
    print("TAP version 13\n1..4")
    report(1, "includes_follow_the_order_of_folders", sorted(set(find_includes(source))))
    report(2, "calls_follow_the_order_of_folders", sorted(set(find_calls(sys.argv[2:]))))
    report(3, "waits_are_by_the_monotonic_clock", list(find_clocks(source)))
    report(4, "cases_check_what_they_run", list(find_unchecked(source)))


if __name__ == "__main__":
    main()
