from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from devcluster.storage import Change, Store, Stored
from devcluster.storage.records import JournalFailed
from tests.unit.devcluster.api.conftest import CONFIG_MAPS, Api, config_map


class SlowDisk:
    """Journal whose writes become durable only when the test sets `written`."""

    version = 0

    def __init__(self) -> None:
        self.written = asyncio.Event()
        self.failure: JournalFailed | None = None

    def load(self) -> Iterator[Stored]:
        return iter(())

    def write(self, change: Change) -> None:
        """Accept the change, which becomes durable later."""

    async def durable(self, version: int) -> None:
        if self.failure is not None:
            raise self.failure
        await self.written.wait()


@pytest.fixture
def disk() -> SlowDisk:
    return SlowDisk()


@pytest.fixture
def store(disk: SlowDisk) -> Store:
    return Store(disk)  # type: ignore[arg-type] # all that the store asks of it


@pytest.mark.parametrize("path", [f"{CONFIG_MAPS}/a", CONFIG_MAPS])
async def test_api_read_waits_until_earlier_writes_are_durable(api: Api, disk: SlowDisk, path: str):
    async with asyncio.TaskGroup() as tasks:
        creating = tasks.create_task(api.ask("POST", CONFIG_MAPS, config_map("a")))
        await asyncio.sleep(0)
        reading = tasks.create_task(api.ask("GET", path))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not creating.done()
        assert not reading.done()
        disk.written.set()
    assert (creating.result().status, reading.result().status) == (201, 200)


@pytest.mark.parametrize("version", ["", "&resourceVersion=1"])
async def test_watch_delivers_a_write_only_when_it_is_durable(api: Api, disk: SlowDisk, version: str):
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(api.ask("POST", CONFIG_MAPS, config_map("a")))
        await asyncio.sleep(0)
        lines = await api.watch(f"{CONFIG_MAPS}?watch=1{version}")
        told = tasks.create_task(lines.next())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not told.done()
        disk.written.set()
    assert told.result()["object"]["metadata"]["name"] == "a"
    await lines.aclose()


async def test_api_read_succeeds_after_a_write_failed_in_the_journal(api: Api, disk: SlowDisk):
    disk.failure = JournalFailed("no space left")
    assert (await api.ask("POST", CONFIG_MAPS, config_map("a"))).status == 500
    assert (await api.ask("GET", f"{CONFIG_MAPS}/a")).status == 200
