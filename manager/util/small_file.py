"""Reading of files that a flag, a variable or another file names: settings, certificates, tokens."""

from __future__ import annotations

import os
import stat
from os import PathLike

_LONGEST = 1024 * 1024
"""Bytes; no Secret and no ConfigMap can be larger."""


def read_small_file(path: str | PathLike[str], *, longest: int = _LONGEST) -> bytes:
    """Return the content of a small file. Blocks, but only as long as the disk does.

    Raises `OSError`, also for more than `longest` bytes, and for pipes and devices, which may never end.
    """
    # Opening a pipe without a writer would otherwise wait for ever.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "it is not a regular file", path)
        content = file.read(longest + 1)
    if len(content) > longest:
        raise OSError(0, f"it is longer than {longest // _LONGEST} MiB", path)
    return content
