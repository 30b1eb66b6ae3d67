"""The common part of bare loops: one pass over all objects of a kind, a few at a time, in one session."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import aiohttp
import orjson

from tests.support.kubeconfig import Credentials

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["JSON", "MERGE_PATCH", "BareLoop", "run"]

JSON = {"Content-Type": "application/json"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}


class BareLoop(abc.ABC):
    """A loop that lists the objects once and works on each."""

    PATH: ClassVar[str]
    """The path of the list."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def run(self, concurrency: int) -> None:
        """Work on `concurrency` objects at a time."""
        async with self._session.get(self.PATH) as answer:
            answer.raise_for_status()
            pending = iter(orjson.loads(await answer.read())["items"])
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(self._work(pending))

    async def _work(self, pending: Iterator[dict[str, Any]]) -> None:
        for each in pending:
            await self.work(each)

    @abc.abstractmethod
    async def work(self, obj: dict[str, Any]) -> None:
        """Send what has to be written for one object."""

    async def send(self, method: str, path: str, body: dict[str, Any], headers: Mapping[str, str]) -> None:
        """Send a write."""
        async with self._session.request(method, path, data=orjson.dumps(body), headers=headers) as answer:
            answer.raise_for_status()
            await answer.read()


def run(loop: type[BareLoop], kubeconfig: Path, concurrency: int) -> None:
    """Do one pass, then wait to be ended, so that the process's memory and CPU can be read."""
    loop_factory = None
    with contextlib.suppress(ImportError):
        from uvloop import new_event_loop as loop_factory  # noqa: PLC0415 -- not available on every system
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_run(loop, kubeconfig, concurrency))


async def _run(loop: type[BareLoop], kubeconfig: Path, concurrency: int) -> None:
    credentials = Credentials.read(kubeconfig)
    with tempfile.TemporaryDirectory() as scratch:
        context = credentials.ssl_context(Path(scratch))
    connector = aiohttp.TCPConnector(ssl=context, limit=concurrency)
    headers = {
        "Authorization": f"Bearer {credentials.token}",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    async with aiohttp.ClientSession(credentials.server, connector=connector, headers=headers) as session:
        await loop(session).run(concurrency)
        await asyncio.Event().wait()
