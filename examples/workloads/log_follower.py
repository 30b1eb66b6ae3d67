"""Following the log of one container, across broken connections and restarts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

from examples.workloads.log_position import LogPosition
from examples.workloads.screen import say
from manager.client import Client
from manager.kube.errors import ConnectionLost, DeadlineExceeded, KubeError, NotFound
from manager.util.backoff import Backoff
from manager_kinds.core_v1 import Pod

__all__ = ["LogFollower"]

IDLE_TIMEOUT = 300.0
"""Seconds without a line after which the connection may be dead; a new one repeats no lines."""


class LogFollower:
    """A reader of a container's log; it passes each line to `show` until the pod is deleted."""

    def __init__(
        self, client: Client, pod: Pod, container: str, *, show: Callable[[str], Awaitable[None]]
    ) -> None:
        self._streams = client.pod_streams
        self._pod = pod
        self._container = container
        self._show = show
        self._position = LogPosition()
        self._backoff = Backoff(base=0.25, cap=10.0, jitter=0.5, rng=random.Random())
        self._problem: str | None = None
        self._gone = asyncio.Event()

    def pod_has_gone(self) -> None:
        """Make `run` read the rest of the log and then return."""
        self._gone.set()

    async def run(self) -> None:
        """Read the log until the pod is deleted; reconnect after errors."""
        while True:
            try:
                await self._read()
            except NotFound:
                return  # the pod is gone, but the watch has not reported it yet
            except KubeError as error:
                self._report(str(error))
            # The log ends when the container ends; the pod may restart the container.
            if self._gone.is_set():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(self._backoff.next()):
                    await self._gone.wait()

    async def _read(self) -> None:
        following = self._streams.logs(
            self._pod,
            container=self._container,
            follow=True,
            timestamps=True,
            since=self._position.resume(),
            idle_timeout=IDLE_TIMEOUT,
        )
        with suppress(ConnectionLost, DeadlineExceeded):  # reading continues at the last position
            async with aclosing(following) as lines:
                async for line in lines:
                    self._problem = None
                    text = self._position.advance(line)
                    if text is not None:
                        self._backoff.reset()
                        await self._show(text)

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            say(f"no log of pod {self._pod.metadata.name} for now: {problem}; trying again")
