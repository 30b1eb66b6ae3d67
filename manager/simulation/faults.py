"""What goes wrong with a process, its network, and the API server as it sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from manager.simulation.replica import Replica
    from manager.simulation.world import World

__all__ = ["Fault", "befall", "faults"]

KINDS_OF_FAULT = {
    "kill": 3,
    "reborn": 3,
    "stop": 2,
    "freeze": 2,
    "cut": 2,
    "compact": 2,
    "rights": 1,
    "loss": 3,
    "refusals": 3,
    "lag": 3,
    "stale": 2,
    "refusing": 1,
    "silent": 2,
    "no_bookmarks": 1,
}
"""What goes wrong, and how often."""

_BINDINGS = "clusterrolebindings.rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong at a time, for a while, in virtual seconds; `size` is a part of requests."""

    at: float
    what: str
    replica: int
    seconds: float
    size: float = 0.0


def faults(
    rng: random.Random, replicas: int, *, seconds: float, count: int, near: Sequence[float]
) -> list[Fault]:
    """What goes wrong in the course of that time, half of it shortly before one of the times `near`."""
    kinds, weights = list(KINDS_OF_FAULT), list(KINDS_OF_FAULT.values())
    made = [
        Fault(
            at=_when(rng, seconds, near),
            what=rng.choices(kinds, weights)[0],
            replica=rng.randrange(replicas),
            seconds=rng.choice((1.0, 5.0, 20.0, 60.0)) * rng.uniform(0.5, 1.5),
            size=rng.choice((0.05, 0.3, 0.8)),
        )
        for _ in range(count)
    ]
    return sorted(made, key=lambda fault: fault.at)


def _when(rng: random.Random, seconds: float, near: Sequence[float]) -> float:
    if near and rng.random() < 0.5:  # noqa: PLR2004 - half
        return max(0.0, rng.choice(near) - rng.choice((0.0, 0.002, 0.5, 5.0)))
    return rng.uniform(0.0, seconds)


async def befall(world: World, fault: Fault) -> None:
    """Have it go wrong, and right again after its time."""
    here = [each for each in world.running if each.number == fault.replica and each.alive]
    match fault.what:
        case "kill":
            for each in here:
                each.kill()
        case "stop":
            for each in here:
                each.stop.set()
        case "freeze":
            await _freeze(here, fault.seconds)
        case "cut":
            _cut(here)
        case "reborn":
            weather = world.weathers[fault.replica]
            weather.stale = weather.lag = fault.seconds
            for each in here:
                each.kill()
            await asyncio.sleep(fault.seconds)
            weather.stale = weather.lag = 0.0
        case "compact":
            await _be_bad_weather(world, replace(fault, what="silent"))
            world.cluster.store.expire_history()
            _cut(world.running)
        case "rights":
            await _take_rights(world, fault.seconds)
        case _:
            await _be_bad_weather(world, fault)


async def _freeze(replicas: Iterable[Replica], seconds: float) -> None:
    frozen = [each for each in replicas if each.clock.paused is None]
    for each in frozen:
        each.clock.paused = []
    await asyncio.sleep(seconds)
    for each in frozen:
        if not each.dead:
            each.clock.resume()


def _cut(replicas: Iterable[Replica]) -> None:
    for each in replicas:
        for network in each.networks:
            network.cut()


async def _take_rights(world: World, seconds: float) -> None:
    bound = world.cluster.client.peek(_BINDINGS, "", "manager")
    if bound is None:
        return  # somebody has taken them already
    await world.cluster.client.delete(_BINDINGS, "", "manager")
    await asyncio.sleep(seconds)
    bound["metadata"] = {"name": "manager"}
    await world.cluster.client.create(_BINDINGS, "", bound)


async def _be_bad_weather(world: World, fault: Fault) -> None:
    weather = world.weathers[fault.replica]
    sizes = {"loss": fault.size, "refusals": fault.size, "lag": fault.seconds, "stale": fault.seconds}
    before = getattr(weather, fault.what)
    setattr(weather, fault.what, sizes.get(fault.what, True))
    await asyncio.sleep(fault.seconds)
    setattr(weather, fault.what, before)
    if fault.what == "silent":
        _cut(each for each in world.running if each.number == fault.replica)
