"""Cluster in its own thread, for programs that have no event loop, or one event loop per test."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from devcluster.cluster import DevCluster
from devcluster.loop import new_event_loop

_T = TypeVar("_T")


class BackgroundCluster:
    """`DevCluster` in a thread, which runs within a `with` block; it takes the arguments of `DevCluster`.

    The methods of `cluster` must be called in the cluster's thread: `run` runs a coroutine there.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cluster: DevCluster | None = None
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._work, name="devcluster", daemon=True)

    def __enter__(self) -> Self:
        """Start the cluster; raise the errors of `DevCluster` and of its `start`."""
        self._thread.start()
        self._started.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    @property
    def cluster(self) -> DevCluster:
        """The cluster; its constant properties, such as `server_url`, can be read from any thread."""
        assert self._cluster is not None, "not started"
        return self._cluster

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the cluster's thread; block the calling thread until the result is there."""
        assert self._loop is not None, "not started"
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _work(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._live())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _live(self) -> None:
        async with DevCluster(**self._options) as cluster:
            self._loop = asyncio.get_running_loop()
            self._cluster = cluster
            self._started.set_result(None)
            await self._stop.wait()
