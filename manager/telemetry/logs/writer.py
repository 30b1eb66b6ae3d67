"""Log lines leave the process through a thread, so that logging never waits."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

MAX_WAITING = 8 * 1024 * 1024
"""Bytes held for a reader that does not keep up. Lines beyond that are dropped and counted."""

_FOR_A_LINE = 64
"""Bytes that a line takes in memory besides its own."""

_BATCH_BYTES = 64 * 1024


class LineWriter:
    """Writer of lines to a file descriptor, in order, from a thread of its own.

    A stalled reader of a pipe would block the event loop, and with it the renewal of the lease; here it
    only blocks the thread. Lines beyond the limit are dropped; a line reports their number once the reader
    goes on.
    """

    def __init__(
        self, fd: int, *, dropped_line: Callable[[int, int], bytes], max_waiting: int = MAX_WAITING
    ) -> None:
        """Start the thread.

        Args:
            fd: the file descriptor to write to.
            dropped_line: renders the line with the number of dropped lines and their bytes.
            max_waiting: maximum bytes in the queue.
        """
        self._fd = fd
        self._dropped_line = dropped_line
        self._max_waiting = max_waiting
        self._queue: SimpleQueue[bytes | threading.Event | None] = SimpleQueue()
        self._waiting = 0
        self._dropped = self._dropped_bytes = 0
        self._counting = threading.Lock()  # held for as long as it takes to add
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Take one line, without its newline. Never waits and never fails; safe in any thread."""
        if self._closed:
            self._write_all(line + b"\n")
            return
        size = len(line) + _FOR_A_LINE
        with self._counting:
            if self._waiting and self._waiting + size > self._max_waiting:
                self._dropped += 1
                self._dropped_bytes += len(line)
                return
            self._waiting += size
        self._queue.put(line)

    def flush(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until all lines taken so far are written; blocks.

        Answers whether they were.
        """
        if self._closed:
            return True
        written = threading.Event()
        self._queue.put(written)
        return written.wait(timeout)

    def close(self, timeout: float) -> None:
        """Write what is waiting, for at most `timeout` seconds; lines after that go out at once."""
        if not self._closed:
            self._queue.put(None)
            self._thread.join(timeout)
            self._closed = True

    def _run(self) -> None:
        batch: list[bytes] = []
        size = 0
        while True:
            item = self._next(wait=not batch)
            if isinstance(item, bytes):
                batch.append(item)
                size += len(item)
                if size < _BATCH_BYTES:
                    continue
            if batch:
                self._write_all(b"\n".join(batch) + b"\n")
                with self._counting:
                    self._waiting -= size + len(batch) * _FOR_A_LINE
                batch, size = [], 0
            self._report_dropped()
            if isinstance(item, threading.Event):
                item.set()
            elif item is None:
                return

    def _next(self, *, wait: bool) -> bytes | threading.Event | bool | None:
        """Return the next item; without `wait`, return False if there is none."""
        try:
            return self._queue.get(block=wait)
        except Empty:
            return False

    def _report_dropped(self) -> None:
        with self._counting:
            lines, size = self._dropped, self._dropped_bytes
            self._dropped = self._dropped_bytes = 0
        if lines:
            self._write_all(self._dropped_line(lines, size) + b"\n")

    def _write_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                select.select((), (self._fd,), ())
            except OSError:
                # The reader is gone, and there is no other place to report that.
                return
