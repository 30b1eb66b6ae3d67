from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import pytest

from manager.api import ObjectKey
from manager.election.coordinator import ControllerObjects, Leadership
from manager.telemetry.metrics import Metrics
from manager.util.clock import monotonic as now
from manager_shards.owned import OwnedShards

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize(("at_once", "seconds"), [(True, 0.0), (False, 5.0)])
async def test_work_on_a_released_shard_is_cancelled_after_the_grace_period_or_immediately_with_at_once(
    at_once: bool, seconds: float
):
    owned = OwnedShards(4, Metrics(), grace=5.0)
    informer: Any = SimpleNamespace(filter=None, list=list)
    objects = owned.owned_objects(
        ControllerObjects(
            name="x",
            objects=informer,
            others=(),
            whole=True,
            enqueue=lambda _: None,
            counts=lambda _: True,
            handed_over=lambda _: None,
        )
    )
    owned.begin(0, Leadership())

    async def work() -> float:
        async with objects.work_on(ObjectKey("default", "x"), at_once=at_once) as ours:
            assert ours
            await asyncio.sleep(3600)
        return now()

    working, began = asyncio.create_task(work()), now()
    await asyncio.sleep(0)
    await owned.end(0)
    assert await working - began == pytest.approx(seconds)
    async with objects.work_on(ObjectKey("default", "x")) as ours:
        assert not ours


async def test_owned_shards_leadership_has_the_renew_deadline_of_shard_0_or_is_expired_without_shard_0():
    owned, leadership = OwnedShards(4, Metrics()), Leadership(elected=False)
    assert owned.leadership.deadline == -math.inf
    owned.begin(0, leadership)
    leadership.renewed(now() + 10.0)
    assert owned.leadership.deadline == now() + 10.0
