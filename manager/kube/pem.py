"""Certificates and keys, each given as a file that may be replaced at any time, or as fixed bytes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from manager.kube.errors import ConfigError
from manager.small_file import read_small_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """The result of reading files, in a thread of its own.

    The threads of `asyncio.to_thread` are few, and reconcilers may keep them all busy for long: without a
    token, neither they nor the lease get an answer from the API server.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix="credentials")
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, work)
    finally:
        thread.shutdown(wait=False)


Version = tuple[int, int, int] | None
"""Tells one content of a file from another without reading it; None for fixed bytes."""


@dataclass(frozen=True, slots=True)
class Pem:
    """PEM text; either `path` or `data` is set.

    Attributes:
        label: what to call it in messages, such as the file and key it was configured in.
        path: the file that holds it.
        data: the text itself.
    """

    label: str
    path: Path | None = None
    data: bytes | None = None

    def read(self) -> bytes:
        """The text as it is now; raises `ConfigError` if the file cannot be read."""
        if self.path is None:
            return self.data or b""
        try:
            return read_small_file(self.path)
        except OSError as error:
            raise ConfigError(f"{self.label}: {self.path} cannot be read: {error.strerror}") from error

    def version(self) -> Version:
        """Changes whenever the file is replaced or rewritten; a missing file is a version too."""
        if self.path is None:
            return None
        try:
            status = self.path.stat()
        except OSError:
            return (0, 0, 0)
        return (status.st_ino, status.st_mtime_ns, status.st_size)
