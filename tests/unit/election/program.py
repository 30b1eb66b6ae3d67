"""Simulated program on one Lease server, with replicas that use shards or leader election."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from manager.election.coordinator import ControllerObjects, Leadership, OwnedObjects, Work
from manager.util.clock import monotonic as now
from manager_shards.coordinator import ShardCoordinator
from tests.support.scripted_wire import Reply
from tests.unit.election.conftest import DATA, Candidate, LeaseServer, Participant, lease_server, permits

COUNT = 8


class Replica(Participant):
    """Replica with shards; it needs time to prepare a shard, and to end its work for a shard."""

    def __init__(
        self, program: Program, identity: str, *, prepares: float = 0.2, ends: float = 0.1, count: int = COUNT
    ) -> None:
        super().__init__(program.server, identity)
        self.program = program
        self.count = count
        self.prepares, self.ends = prepares, ends
        self.wire.on("POST", DATA, Reply())
        self.leadership = Leadership(elected=False)
        self.coordinator = ShardCoordinator(self.config, self)
        self.stuck: int | None = None
        self.working: dict[int, Leadership] = {}
        self.terms: dict[int, Leadership] = {}
        self.ended: dict[int, float] = {}
        self.asked_for: list[frozenset[int]] = []
        self.preparing: asyncio.TimerHandle | None = None
        self.task = asyncio.get_running_loop().create_task(self.coordinator.run())

    def attach(self, work: Work) -> None:
        """Do nothing, because there is no manager."""

    def owned_objects(self, controller: ControllerObjects) -> OwnedObjects:
        raise NotImplementedError

    async def run(self, prepared: Callable[[frozenset[int]], None]) -> None:
        """Wait until cancelled and never call `prepared`; `prepare` calls `coordinator.prepared` instead."""
        await asyncio.Event().wait()

    def prepare(self, numbers: frozenset[int]) -> None:
        self.asked_for.append(numbers)
        if self.preparing is not None:
            self.preparing.cancel()
        loop = asyncio.get_running_loop()
        self.preparing = loop.call_later(self.prepares, self.coordinator.prepared, numbers)

    def begin(self, number: int, leadership: Leadership) -> None:
        leadership.permit()
        for other in self.program.replicas:
            # The shard must not overlap with a shard for which another replica still has a permit.
            for theirs, last in other.terms.items():
                if (
                    number * other.count < (theirs + 1) * self.count
                    and theirs * self.count < (number + 1) * other.count
                ):
                    assert not permits(last), f"{other.identity} and {self.identity} have {number}"
        self.working[number] = self.terms[number] = leadership
        self.program.moves.append((now(), number, self.identity))

    async def end(self, number: int) -> None:
        await asyncio.sleep(self.ends if number != self.stuck else 1000.0)
        self.working.pop(number, None)
        self.ended[number] = now()

    @property
    def permitted(self) -> set[int]:
        """Return the numbers of the started shards for which the replica has a write permit."""
        return {number for number, leadership in self.working.items() if permits(leadership)}

    def measured(self, name: str, **labels: str) -> float:
        value = self.metrics.registry.get_sample_value(f"operator_manager_{name}", labels)
        assert value is not None
        return value

    async def stop(self) -> None:
        """Stop as a manager stops: end all work, and then leave the coordinator."""
        await asyncio.sleep(self.ends)
        self.working.clear()
        await self.coordinator.release()
        await self.finished()


class Leader(Candidate):
    """Replica that uses leader election and no shards."""

    count = 1

    def __init__(self, program: Program, identity: str) -> None:
        super().__init__(program.server, identity)
        self.program = program
        self.terms: dict[int, Leadership] = {}
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            leading = group.create_task(self._lead())
            await self.elector.run()
            leading.cancel()

    async def _lead(self) -> None:
        await self.elector.elected.wait()
        for other in self.program.replicas:
            if other is not self:
                assert not any(map(permits, other.terms.values())), (
                    f"{other.identity} works while the leader works"
                )
        self.terms[0] = self.elector.leadership

    async def stop(self) -> None:
        await self.elector.release()
        await self.finished()


class Program:
    """Program with several replicas on one Lease server."""

    def __init__(self, server: LeaseServer) -> None:
        self.server = server
        self.started: list[Replica | Leader] = []
        self.moves: list[tuple[float, int, str]] = []

    @property
    def replicas(self) -> list[Replica | Leader]:
        """Return the running replicas."""
        return [each for each in self.started if each.task is not None]

    async def lead(self, identity: str) -> Leader:
        leader = Leader(self, identity)
        self.started.append(leader)
        await asyncio.sleep(5)
        return leader

    def begin(self, identity: str, **how: Any) -> Replica:
        """Start a replica without waiting, and return it."""
        self.started.append(replica := Replica(self, identity, **how))
        return replica

    @property
    def sharers(self) -> list[Replica]:
        return [each for each in self.replicas if isinstance(each, Replica)]

    async def start(self, *identities: str, **how: Any) -> list[Replica]:
        started = [self.begin(identity, **how) for identity in identities]
        await asyncio.sleep(5)
        return started

    @property
    def shares(self) -> list[int]:
        """Return the number of shards of each replica; assert that each shard has one owner."""
        owners = Counter(number for replica in self.sharers for number in replica.permitted)
        assert owners == Counter(range(self.sharers[0].count)), f"shards without exactly one owner: {owners}"
        return sorted(len(replica.permitted) for replica in self.sharers)

    def moved(self, *, since: float) -> list[int]:
        return [number for at, number, _ in self.moves if at >= since]

    async def unowned(self, seconds: float) -> float:
        """Return the longest time that any shard has no owner during the next `seconds`."""
        longest, since = 0.0, dict.fromkeys(range(COUNT), now())
        for _ in range(round(seconds / 0.05)):
            await asyncio.sleep(0.05)
            moment = now()
            since |= dict.fromkeys({number for each in self.sharers for number in each.permitted}, moment)
            longest = max(longest, moment - min(since.values()))
        return longest


@pytest.fixture
async def program() -> AsyncIterator[Program]:
    async with lease_server() as server:
        program = Program(server)
        yield program
        for replica in program.replicas:
            await replica.kill()
