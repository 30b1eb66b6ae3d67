"""Files that somebody has named, in a flag, a variable or another file: settings, certificates, tokens."""

from __future__ import annotations

import os
import stat
from os import PathLike

__all__ = ["read_small_file"]

_LONGEST = 1024 * 1024
"""Bytes; no Secret and no ConfigMap can hold more."""


def read_small_file(path: str | PathLike[str], *, longest: int = _LONGEST) -> bytes:
    """What the file holds. Blocks, as long as the disk does and no longer.

    Raises `OSError`, for what is longer than `longest` bytes too, and for pipes and devices, which may never
    come to an end; its `strerror` says what is wrong.
    """
    # To open a pipe that nobody writes to would wait for ever.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "it is not a regular file", path)
        content = file.read(longest + 1)
    if len(content) > longest:
        raise OSError(0, f"it is longer than {longest // _LONGEST} MiB", path)
    return content
