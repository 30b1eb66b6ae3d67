from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from devcluster.errors import StatusError
from manager.controller import Result
from tests.support.in_process import Fate, in_process_cluster
from tests.unit.controllers.wordpress.world import DEFINITION, SECRET, SITES, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.looptime


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with in_process_cluster(DEFINITION) as cluster:
        yield World(cluster, "team")


async def test_volumes_that_were_to_stay_get_no_owner_that_is_going(world: World) -> None:
    # `kubectl delete --cascade=orphan` takes the owner off what it leaves. A manager that has not heard of
    # the deletion yet must not put it back: what has an owner goes with it.
    await world.create(reclaimPolicy="Delete")
    await world.settle()
    process = world.process(Fate())
    stale: Any = world.site()
    process.client.stale[stale.key] = stale  # type: ignore[attr-defined]
    await world.api.delete(SITES, world.namespace, "site", propagation="Orphan")
    for kind, name in (("persistentvolumeclaims", "site-wp-pv-claim"), ("secrets", SECRET)):
        await world.api.patch(kind, world.namespace, name, {"metadata": {"ownerReferences": None}})
    before = world.cluster.store.version
    assert await process.reconcile(world.key) is None
    assert world.cluster.store.version == before


@pytest.mark.parametrize(("status", "reason"), [(403, "Forbidden"), (422, "Invalid")])
async def test_a_secret_that_is_refused_is_a_state_to_tell_of(world: World, status: int, reason: str) -> None:
    await world.create(sqlrootpassword="to-be-quoted")
    quoted = base64.b64encode(b"to-be-quoted").decode()
    refusal = StatusError(status, reason, f"{quoted} is not liked")
    process = world.process(Fate(2, refusal=refusal))  # the third write, after the claims
    assert await process.reconcile(world.key) == Result(requeue_after=300)
    assert world.conditions()["Degraded"] == ("True", "Refused")
    assert world.conditions()["Progressing"] == ("False", "Refused")
    [warning] = [message for _, kind, _, message in world.events.told if kind == "Warning"]
    assert warning == f"Secret {SECRET} is refused: {status} {reason}"
    assert await process.reconcile(world.key) is not None
    assert world.api.peek("secrets", world.namespace, SECRET) is not None
