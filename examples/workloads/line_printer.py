"""Printing lines without ever holding up the event loop."""

from __future__ import annotations

import asyncio
import os

__all__ = ["LinePrinter"]

WAITING = 1000
"""Lines that may wait to be printed; then whoever has more has to wait too."""


class LinePrinter:
    """Writes lines to a file descriptor, in the order in which they were given.

    A pager or a slow disk stops the thread that writes, and in time those who read the logs, but never the
    loop: Ctrl-C works at all times.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: asyncio.Queue[bytes] = asyncio.Queue(WAITING)

    async def print(self, line: bytes) -> None:
        """Have a line printed; waits only when too many are waiting already."""
        await self._lines.put(line + b"\n")

    async def run(self) -> None:
        """Print until cancelled; raises BrokenPipeError when nobody reads any more."""
        while True:
            block = [await self._lines.get()]
            while not self._lines.empty():
                block.append(self._lines.get_nowait())
            await asyncio.to_thread(self._write, b"".join(block))

    def _write(self, block: bytes) -> None:
        """Past Python's own buffer, which would fail once more at the end of a process with a broken pipe."""
        while block:
            block = block[os.write(self._descriptor, block) :]
