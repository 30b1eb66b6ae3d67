"""Wherever a manager dies or an answer is lost, the next attempt makes the same of it."""

from __future__ import annotations

import pytest

from tests.unit.controllers.fate import Fate
from tests.unit.controllers.wordpress.world import World, in_process_cluster

CHANGES = {"storageSize": "20Gi", "reclaimPolicy": "Delete", "serviceType": "LoadBalancer", "image": "w:2"}


async def live(world: World, making: Fate, changing: Fate) -> None:
    """A site is made, and changed in all that can be changed."""
    await world.create()
    await world.settle(making)
    await world.change(**CHANGES)
    await world.settle(changing)


@pytest.mark.parametrize("blow", ["died after", "lost before", "lost after"])
@pytest.mark.virtual_time
async def test_it_ends_the_same_wherever_something_breaks(blow: str) -> None:
    async with in_process_cluster() as cluster:
        undisturbed = World(cluster, "undisturbed")
        making, changing = Fate(), Fate()
        await live(undisturbed, making, changing)
        wanted = undisturbed.children()
        assert len(wanted) == 7
        assert undisturbed.conditions()["Available"] == ("True", "Ready")
        writes = list(zip(making.passed, changing.passed, strict=False))
        assert len(writes) >= 10
        for point, struck in enumerate(writes):
            world = World(cluster, f"struck-at-{point}")
            await live(world, Fate({point: blow}), Fate({point: blow}))
            assert world.children() == wanted, struck
            assert world.conditions() == undisturbed.conditions(), struck
            assert len(world.passwords) == 1, struck
