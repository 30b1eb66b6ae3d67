"""A lock that allows one store per file."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Self

from petstore.storage.errors import DataUnusable

__all__ = ["FileLock"]


class FileLock:
    """A lock on `<path>-lock`, held until closed or until the process ends in any way.

    The lock has its own file, because SQLite's locks on the data file are lost when any other descriptor of
    that file is closed. The lock file stays: removing it could remove one that another process holds.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock for the data file `path`.

        Raises:
            DataUnusable: another store holds it; the message has its process id.
            OSError: the lock file cannot be made.
        """
        # O_NOFOLLOW refuses links: a link's target may be any file, and would be emptied.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(path.with_name(path.name + "-lock"), flags, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 32).decode(errors="replace").strip()
            os.close(self._file)
            raise DataUnusable(
                f"{path} is in use by another pet store (process {holder or 'unknown'})"
            ) from None
        os.truncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}\n".encode())

    def close(self) -> None:
        """Let others have the file."""
        with contextlib.suppress(OSError):
            os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
