from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from controllers.petstore.availability import StoreAvailability
from controllers.petstore.check import StoreCheck
from manager.api import ObjectKey
from petstore.errors import Unreachable

pytestmark = pytest.mark.virtual_time

THOR, TRON = ObjectKey("default", "thor"), ObjectKey("default", "tron")


class Store:
    """Store that returns no pets, or does not respond."""

    address = "the store"
    timeout = 5.0

    def __init__(self) -> None:
        self.up = True
        self.hangs = False
        self.searches: list[float] = []

    async def search(self, **filters: Any) -> AsyncGenerator[Any, None]:
        self.searches.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.01)
        if self.hangs:
            await asyncio.sleep(filters["timeout"])
        if not self.up:
            raise Unreachable("down")
        for nothing in ():
            yield nothing


class Watch:
    """Availability check of a store, and the keys of the Pets that the check enqueues."""

    def __init__(self) -> None:
        self.store: Any = Store()
        self.asked_for: list[ObjectKey] = []
        self.availability = StoreAvailability(self.store, self.asked_for.append, rng=random.Random(1))


@contextlib.asynccontextmanager
async def running(work: Any) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_store_watcher_probes_a_failed_store_and_enqueues_waiting_pets_after_its_recovery():
    watch = Watch()
    watch.store.up = False
    async with running(watch.availability.run()):
        await asyncio.sleep(3600)
        assert watch.store.searches == [], "no call has failed"
        watch.availability.doubt()
        watch.availability.wait(THOR)
        watch.availability.wait(TRON)
        await asyncio.sleep(1)
        assert watch.availability.down
        with pytest.raises(Unreachable):
            watch.availability.require()
        await asyncio.sleep(600)
        # The intervals between probes are irregular, from one to two seconds.
        probes = watch.store.searches
        gaps = [after - before for before, after in itertools.pairwise(probes)]
        assert 1 <= min(gaps) < max(gaps) < 2.1
        watch.availability.forget(TRON)
        watch.store.up = True
        await asyncio.sleep(2.1)
        assert watch.asked_for == [THOR]
        assert not watch.availability.down
        watch.availability.require()
        assert not watch.availability.is_waiting(THOR)
        count = len(probes)
        await asyncio.sleep(600)
        assert len(probes) == count


async def test_store_watcher_enqueues_no_pet_when_calls_fail_but_probes_succeed():
    watch = Watch()
    async with running(watch.availability.run()):
        watch.availability.wait(THOR)
        for _ in range(100):
            watch.availability.doubt()
            await asyncio.sleep(0.1)
    assert watch.asked_for == []
    assert not watch.availability.down
    assert len(watch.store.searches) <= 11


@pytest.mark.parametrize("hangs", [False, True])
async def test_failed_store_check_enqueues_each_pet_that_is_not_waiting_for_the_store(hangs: bool):
    watch = Watch()
    cached = [SimpleNamespace(key=key, deleting=False, raw=b"{}") for key in (THOR, TRON)]
    pets: Any = SimpleNamespace(list=lambda: cached, wait_synced=partial(asyncio.sleep, 0))
    watch.store.up, watch.store.hangs = False, hangs
    async with running(watch.availability.run()), asyncio.timeout(watch.store.timeout + 2.2):
        watch.availability.wait(TRON)
        await StoreCheck(watch.store, pets, watch.asked_for.append, watch.availability).run()
        await asyncio.sleep(2.1)
        assert watch.asked_for == [THOR]
        assert watch.availability.down
