"""Bytes under a path, for a library that reads files only."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["as_file"]


@contextmanager
def as_file(content: bytes, *, name: str) -> Iterator[str]:
    """A path with `content`, for as long as the block lasts.

    `ssl` loads a private key from a path only, and a key that was never on a disk should not get there for
    that. So on Linux this is a file in memory (a memfd): it has no name in any folder, is closed in child
    processes, needs no writable file system, and is gone with the block, or with the process if that is
    killed. Elsewhere it is a temporary file that only our user can read, removed at the end of the block.

    `name` shows up in listings of the process's open files, and nowhere else.
    """
    if sys.platform == "linux":
        handle = os.memfd_create(name)
        try:
            with open(handle, "wb", closefd=False) as file:
                file.write(content)
            yield f"/proc/self/fd/{handle}"
        finally:
            os.close(handle)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
