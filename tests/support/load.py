"""Continuous requests of several threads, to detect failed requests."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Self

from tests.support.eventually import eventually


class Load:
    """Continuous requests of several threads for the length of a `with` block."""

    def __init__(self, *requests: Callable[[], object], callers: int = 4, every: float = 0.08) -> None:
        """Configure `callers` threads; each sends the next of `requests` every `every` seconds."""
        self._requests, self._callers, self._every = itertools.cycle(requests), callers, every
        self._ended = threading.Event()
        self.calls = 0
        self.failures: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._threads = [threading.Thread(target=self._call) for _ in range(self._callers)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def wait_for_progress(self) -> None:
        """Wait until each thread has sent about two more requests."""
        enough = self.calls + 2 * self._callers

        def reached() -> None:
            assert self.calls >= enough

        eventually(reached)

    def _call(self) -> None:
        following = time.monotonic()
        while not self._ended.is_set():
            try:
                next(self._requests)()
            except Exception as error:  # noqa: BLE001 - whatever it is, a user has seen it
                self.failures[str(error)] += 1
            self.calls += 1
            # On a busy machine, send fewer requests.
            following = max(following + self._every, time.monotonic() - 1)
            self._ended.wait(max(0.0, following - time.monotonic()))
