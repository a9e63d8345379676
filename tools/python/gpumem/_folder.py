# SPDX-License-Identifier: MIT
"""Folders of allocations, opened once.

The owner of a folder may give the names in it to other allocations between two look-ups of
a path. So what has to be true of one allocation is read through one Folder.
"""

from __future__ import annotations

import builtins
import os


def keyed(said: str) -> dict[str, str]:
    """The keys of a flat keyed text. Only a newline ends a line: str.splitlines() would split
    at characters of a tag, too."""
    return dict(line.split(" ", 1) for line in said.split("\n") if line)


class Folder:
    """The folder of the allocation that has a path now, under whatever name later on."""

    def __init__(self, path: str):
        self._at = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._at)

    def opener(self, path: str, flags: int) -> int:
        """For open(): the file of this folder that has the last part of the path."""
        return os.open(os.path.basename(path), flags, dir_fd=self._at)

    def stat(self) -> os.stat_result:
        return os.fstat(self._at)

    def read(self, file: str) -> bytes:
        """A whole file."""
        with builtins.open(os.open(file, os.O_RDONLY, dir_fd=self._at), "rb", buffering=0) as opened:
            return opened.read()

    def status(self) -> dict[str, str]:
        """The keys of the file `status`, all of one moment."""
        return keyed(self.read("status").decode(errors="replace"))


def is_allocation(at: os.stat_result) -> bool:
    """Whether it is not a folder of allocations: those have size 0."""
    return at.st_size > 0
