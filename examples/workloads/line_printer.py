"""Printing of lines that never blocks the event loop."""

from __future__ import annotations

import asyncio
import os

__all__ = ["LinePrinter"]

WAITING = 1000
"""The number of lines that may wait for printing; further writers wait."""


class LinePrinter:
    """A writer of lines to a file descriptor, in order.

    A pager or a slow disk blocks the writing thread, and then the tasks that read logs, but never the event
    loop. So Ctrl-C always works.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: asyncio.Queue[bytes] = asyncio.Queue(WAITING)

    async def print(self, line: bytes) -> None:
        """Queue a line for printing; waits only if the queue is full."""
        await self._lines.put(line + b"\n")

    async def run(self) -> None:
        """Print lines until cancelled; raise BrokenPipeError if the output's reader has ended."""
        while True:
            block = [await self._lines.get()]
            while not self._lines.empty():
                block.append(self._lines.get_nowait())
            await asyncio.to_thread(self._write, b"".join(block))

    def _write(self, block: bytes) -> None:
        """Write lines without Python's buffer, whose flush at exit would fail after a broken pipe."""
        while block:
            block = block[os.write(self._descriptor, block) :]
