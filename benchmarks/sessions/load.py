"""New Memcacheds at a steady rate, whether or not anybody keeps up with them."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

import uvloop

from benchmarks.api_load import MEMCACHEDS, Client, Connection
from tests.support.memcacheds import memcached

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONNECTIONS = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """The result of a steady load."""

    reached: float
    """Objects per second that the API server accepted."""
    behind: int
    """The number of objects without a status at the last creation."""


def create_steadily(kubeconfig: Path, names: list[str], rate: float, finished: Callable[[], int]) -> Load:
    """Create Memcacheds of these names, `rate` a second; `finished` says how many have a status.

    A slow answer does not hold back the next request: there are enough connections for all of them.
    """
    requests = [(name, memcached(name)) for name in names]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_create(Client(kubeconfig), requests, rate, finished))


async def _create(
    client: Client, objects: list[tuple[str, object]], rate: float, finished: Callable[[], int]
) -> Load:
    encoded = [client.request("POST", MEMCACHEDS, body) for _, body in objects]
    free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
    connections = await client.connect(CONNECTIONS)
    for connection in connections:
        free.put_nowait(connection)
    loop = asyncio.get_running_loop()

    async def send(request: bytes) -> None:
        connection = await free.get()
        await connection.send(request)
        free.put_nowait(connection)

    before, start = finished(), loop.time()
    async with asyncio.TaskGroup() as group:
        for index, request in enumerate(encoded):
            await asyncio.sleep(max(0.0, start + index / rate - loop.time()))
            group.create_task(send(request))
    taken = loop.time() - start
    behind = len(encoded) - (finished() - before)
    for connection in connections:
        await connection.close()
    # The last object is sent at the beginning of its interval.
    return Load(len(encoded) / max(taken, len(encoded) / rate), behind)
