# SPDX-License-Identifier: MIT
"""Allocations that this program makes, fills and publishes.

The owner of a folder above may exchange folders, so that the name leads to another
allocation. So files are opened below the folder of the allocation, which is opened once, and
lines have the number of the allocation.
"""

from __future__ import annotations

import builtins
import errno
import os
from typing import BinaryIO, cast

from ._folder import Folder
from ._library import Error
from ._map import Map
from ._mount import Allocation, Mount


class Part:
    """An allocation that alloc() has made. Raises ESTALE if its name is another's by now."""

    def __init__(self, mount: Mount, made: Allocation):
        self._mount = mount
        self.name = made.name
        self.id = int(made.status["id"])
        path = f"{mount.path}/allocations/{self.name}"
        try:
            self.folder = Folder(path)
        except OSError as error:
            raise Error(error.errno, f"{path}: {error.strerror}") from None
        try:
            self._check(int(self.folder.read("id")))
        except BaseException as error:
            self.folder.close()
            if isinstance(error, OSError) and not isinstance(error, Error):
                raise Error(error.errno, f"{path}/id: {error.strerror}") from None
            raise

    def __enter__(self) -> Part:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.folder.close()

    def _check(self, id: int) -> None:
        if id != self.id:
            raise Error(
                errno.ESTALE,
                f"{self.name} is another allocation now: its id is {id}, not {self.id}",
            )

    def data(self) -> BinaryIO:
        """Its bytes, for reading and writing."""
        opened = builtins.open("data", "r+b", buffering=0, opener=self.folder.opener)
        return cast(BinaryIO, opened)

    def write_tensors(self, text: bytes) -> None:
        self._mount.write(f"allocations/{self.name}/tensors", text, self.folder.opener)

    def map(self) -> Map:
        """Mapped for writing."""
        mapped = self._mount.map(self.name, write=True)
        try:
            self._check(mapped.id)
        except Error:
            mapped.close()
            raise
        return mapped

    def publish(self, name: str) -> None:
        self._mount.command("control/publish", f"{self.name} {name} id={self.id}")
