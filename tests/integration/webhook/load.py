"""Continuous creation of objects by several users, to detect failed requests."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Self

from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually


class Load:
    """Load of several users for the length of a `with` block; the server stores none of their objects."""

    def __init__(
        self,
        plane: ControlPlane,
        path: str,
        body: Mapping[str, Any],
        *,
        callers: int = 4,
        every: float = 0.08,
    ) -> None:
        """Let each of `callers` create `body` at `path`, 50 times a second together."""
        self._plane, self._path, self._body = plane, path, body
        self._callers, self._every = callers, every
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
        """Return when each user may have created one more."""
        enough = self.calls + 2 * self._callers

        def reached() -> None:
            assert self.calls >= enough

        eventually(reached)

    def _call(self) -> None:
        following = time.monotonic()
        while not self._ended.is_set():
            try:
                self._plane.api.request("POST", self._path, query={"dryRun": "All"}, body=self._body)
            except Exception as error:  # noqa: BLE001 - whatever it is, a user has seen it
                self.failures[str(error)] += 1
            self.calls += 1
            # On a machine that is too busy for it, as many as it takes.
            following = max(following + self._every, time.monotonic() - 1)
            self._ended.wait(max(0.0, following - time.monotonic()))
