"""Elections in virtual time, with faults drawn from a seed.

A failing seed is in the test's name, and replays: `ELECTION_SEEDS=17 pytest <this file>`. For a long run:
`ELECTION_SEEDS=0-5000 pytest -n auto <this file>`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from random import Random

import pytest
import structlog

from manager.metrics import Metrics
from manager.simulation.loop import ProcessClock, freeze, simulate
from tests.unit.leader.network import Weather
from tests.unit.leader.replicas import Cluster, Replica, now

LEASE = 15.0

# In units: how long a write may be under way before the server acts on it. With clocks that run a tenth too
# fast or too slow, it just fits between the renew deadline and the lease duration. How long the answer takes
# does not matter.
SLOW = 2.0
SLOW_ANSWER = 6.0
DRIFT = 0.1


def seeds() -> list[int]:
    first, _, last = os.environ.get("ELECTION_SEEDS", "0-9").partition("-")
    return list(range(int(first), int(last or first) + 1))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of lines that nobody reads take longer than what they tell of."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


@pytest.mark.parametrize("seed", seeds())
def test_one_leader_at_a_time_and_always_one_again_whatever_fails(seed: int) -> None:
    simulate(Election(seed).run())


def test_a_seed_replays_exactly() -> None:
    first, second = Election(4), Election(4)
    simulate(first.run())
    simulate(second.run())
    assert first.cluster.trace
    assert first.cluster.trace == second.cluster.trace


class Election:
    """Three replicas, restarted as they die, in fair weather and foul."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        # The protocol does not know what a second is: hours are simulated as well as seconds are.
        self.unit = self.rng.choice([1.0, 60.0, 3600.0])
        self.cluster = Cluster(unit=self.unit)
        self.metrics = Metrics()
        self.started = 0

    async def run(self) -> None:
        slots = [self.start() for _ in range(3)]
        for _ in range(4):
            await self.storm(slots, until=now() + self.rng.uniform(5, 20) * LEASE * self.unit)
            await self.calm(slots)
        for replica in slots:
            await replica.kill()

    def start(self) -> Replica:
        self.started += 1
        clock = ProcessClock(
            rate=self.rng.choice([1 - DRIFT, self.rng.uniform(1 - DRIFT, 1 + DRIFT), 1 + DRIFT]),
            offset=self.rng.uniform(0, 1e6),
            skew=self.rng.uniform(-1e5, 1e5),
        )
        rng = Random(self.rng.getrandbits(64))
        return Replica(self.cluster, self.started, rng=rng, clock=clock, metrics=self.metrics)

    async def storm(self, slots: list[Replica], *, until: float) -> None:
        while now() < until:
            await asyncio.sleep(self.rng.expovariate(1.0) * LEASE * self.unit)
            await self.strike(slots)
            self.cluster.check()
            await self.replace_the_dead(slots)

    async def strike(self, slots: list[Replica]) -> None:
        victim = self.rng.choice([*slots, *self.cluster.leaders()])
        match self.rng.randrange(9):
            case 0:
                await victim.kill()
            case 1:
                victim.terminate()
            case 2 | 3:
                if self.rng.random() < 0.5:
                    self.clear_up(slots)  # the others take over as soon as ever they may
                victim.wire.change_weather(self.rng.choice([Weather(silent=True), Weather(refusing=True)]))
            case 4:
                for replica in slots:
                    replica.wire.change_weather(Weather(refusing=True))
            case 5 | 6:
                for replica in slots:
                    replica.wire.change_weather(
                        Weather(
                            delay=SLOW * self.unit,
                            answer_delay=self.rng.choice([SLOW, SLOW_ANSWER]) * self.unit,
                            loss=self.rng.choice([0.0, 0.05, 0.3]),
                        )
                    )
            case 7:
                self.clear_up(slots)
            case 8:
                freeze(self.rng.uniform(0.5, 2.0) * LEASE * self.unit)

    def clear_up(self, slots: list[Replica]) -> None:
        for replica in slots:
            replica.wire.change_weather(Weather(delay=0.02 * self.unit))

    async def replace_the_dead(self, slots: list[Replica]) -> None:
        for index, replica in enumerate(slots):
            if not replica.alive:
                await replica.ended()
                slots[index] = self.start()

    async def calm(self, slots: list[Replica]) -> None:
        """Nothing fails for a while: there is a leader, and it stays."""
        self.clear_up(slots)
        await asyncio.sleep(3 * LEASE * self.unit)
        await self.replace_the_dead(slots)
        before = self.cluster.leaders()
        assert len(before) == 1
        await asyncio.sleep(3 * LEASE * self.unit)
        assert self.cluster.leaders() == before
