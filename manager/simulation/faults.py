"""What goes wrong with a process, its network, and the API server as it sees it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from manager.simulation.replica import Replica
    from manager.simulation.world import World

__all__ = ["Fault", "befall", "faults"]

KINDS_OF_FAULT: dict[str, tuple[float, str]] = {
    "kill": (3, "{manager} is killed"),
    "stop": (2, "{manager} is told to end"),
    "reborn": (3, "{manager} is killed, and what the next one reads is {seconds} behind"),
    "freeze": (2, "{manager} is frozen for {seconds}"),
    "cut": (2, "all connections of {manager} break"),
    "refusing": (1, "{manager} can make no connection for {seconds}"),
    "silent": (2, "the connections of {manager} carry nothing for {seconds}"),
    "loss": (3, "{size} of what {manager} sends and gets is lost for {seconds}"),
    "refusals": (3, "{size} of the requests of {manager} are refused (429, 500, 503) for {seconds}"),
    "lag": (3, "watches of {manager} are {seconds} behind"),
    "stale": (2, "lists of {manager} are {seconds} behind, and are not streamed"),
    "compact": (2, "{manager} hears nothing for {seconds}; then the history has expired (410)"),
    "no_bookmarks": (1, "watches of {manager} get no bookmarks for {seconds}"),
    "power": (2, "the cluster is killed, and started {seconds} later with what its disk has"),
    "rights": (1, "managers have no rights for {seconds}"),
}
"""What goes wrong: how often, and in words."""

_STUCK = (0.0, 0.5, 3.0)
"""Seconds for which a disk takes nothing any more before the power fails."""
_BINDINGS = "clusterrolebindings.rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong at a time, for a while, in virtual seconds; `size` is a part of requests."""

    at: float
    what: str
    replica: int
    seconds: float
    size: float = 0.0
    draw: int = 0
    """Seeds what else is drawn for it."""

    def __str__(self) -> str:
        words = KINDS_OF_FAULT[self.what][1]
        seconds, size = f"{self.seconds:.1f} s", f"{self.size:.0%}"
        return words.format(manager=f"manager-{self.replica}", seconds=seconds, size=size)


def faults(
    rng: random.Random, replicas: int, *, seconds: float, count: int, near: Sequence[float]
) -> list[Fault]:
    """What goes wrong in the course of that time, half of it shortly before one of the times `near`."""
    kinds, weights = list(KINDS_OF_FAULT), [often for often, _ in KINDS_OF_FAULT.values()]
    made = [
        Fault(
            at=_when(rng, seconds, near),
            what=rng.choices(kinds, weights)[0],
            replica=rng.randrange(replicas),
            seconds=rng.choice((1.0, 5.0, 20.0, 60.0)) * rng.uniform(0.5, 1.5),
            size=rng.choice((0.05, 0.3, 0.8)),
            draw=rng.getrandbits(64),
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
        case "power":
            await _cut_power(world, fault)
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


async def _cut_power(world: World, fault: Fault) -> None:
    if not world.plane.is_up or world.plane.disk.stuck:
        return  # it is down already, or about to be
    world.plane.disk.stuck = True
    await asyncio.sleep(random.Random(fault.draw).choice(_STUCK))
    _cut(world.running)
    lost = await world.plane.kill()
    world.told("cluster", f"killed: {lost} writes are lost")
    await asyncio.sleep(fault.seconds)
    await world.plane.start()
    world.told("cluster", "starts")


async def _take_rights(world: World, seconds: float) -> None:
    client = await world.plane.there()
    bound = client.peek(_BINDINGS, "", "manager")
    if bound is None:
        return  # somebody has taken them already
    await client.delete(_BINDINGS, "", "manager")
    await asyncio.sleep(seconds)
    bound["metadata"] = {"name": "manager"}
    await world.plane.lasting(lambda client: client.create(_BINDINGS, "", bound))


async def _be_bad_weather(world: World, fault: Fault) -> None:
    weather = world.weathers[fault.replica]
    sizes = {"loss": fault.size, "refusals": fault.size, "lag": fault.seconds, "stale": fault.seconds}
    before = getattr(weather, fault.what)
    setattr(weather, fault.what, sizes.get(fault.what, True))
    await asyncio.sleep(fault.seconds)
    setattr(weather, fault.what, before)
    if fault.what == "silent":
        _cut(each for each in world.running if each.number == fault.replica)
