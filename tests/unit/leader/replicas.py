"""Simulated replicas that elect a leader, which writes, over a network where everything goes wrong."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import cast

from manager.kube.errors import Fenced, KubeError
from manager.kube.transport import Transport
from manager.leader.elector import LeaderElector
from manager.leader.lease import LeadershipLost
from manager.metrics import Metrics
from manager.simulation.loop import ProcessClock, VirtualLoop, process_clock
from tests.support.scripted_wire import Reply, Sent, Stream
from tests.unit.leader.lease_server import LeaseServer
from tests.unit.leader.network import SimulatedWire, Weather

DATA = "/data"


class Cluster:
    """The API server, and what must always be true of the replicas."""

    def __init__(self, *, unit: float = 1.0) -> None:
        self.unit = unit
        self.server = LeaseServer()
        self.replicas: list[Replica] = []
        self.trace: list[tuple[float, str, str]] = []
        """What happened: true time, what, who."""
        self._writers: list[str] = []
        self._actors: list[str] = []
        self._acting: str | None = None

    def answer(self, sent: Sent) -> Reply | Stream:
        if sent.path != DATA:
            return self.server.answer(sent)
        self._wrote((sent.body or b"").decode())
        return Reply()

    @contextmanager
    def acting(self, identity: str) -> Iterator[None]:
        """While entered, a replica has an effect outside of the cluster: one at a time, none again."""
        assert self._acting is None, f"at {now():.3f} {identity} acts while {self._acting} does"
        if not self._actors or self._actors[-1] != identity:
            assert identity not in self._actors, f"at {now():.3f} {identity} acts again, after its successor"
            self._actors.append(identity)
        self._acting = identity
        try:
            yield
        finally:
            self._acting = None

    def note(self, what: str, who: str) -> None:
        self.trace.append((now(), what, who))

    def leaders(self) -> list[Replica]:
        """Those that think they lead, each by its own clock."""
        return [replica for replica in self.replicas if replica.leading]

    def check(self) -> None:
        """At no time do two think that they lead."""
        leaders = self.leaders()
        assert len(leaders) <= 1, f"at {now():.3f} these lead: {[each.identity for each in leaders]}"

    def _wrote(self, identity: str) -> None:
        """Once another replica has written, the one before never does again."""
        self.check()
        if not self._writers or self._writers[-1] != identity:
            assert identity not in self._writers, (
                f"at {now():.3f} {identity} writes again, after its successor"
            )
            self._writers.append(identity)


class Replica:
    """One process: an elector, and a worker that writes while it leads."""

    def __init__(
        self, cluster: Cluster, number: int, *, rng: Random, clock: ProcessClock, metrics: Metrics
    ) -> None:
        unit = cluster.unit
        self.identity = f"replica-{number}"
        self.wire = SimulatedWire(cluster.answer, rng=rng, weather=Weather(delay=0.02 * unit))
        self.lost: LeadershipLost | None = None
        self._cluster = cluster
        self._rng = rng
        self._transport = Transport(
            self.wire, metrics=metrics, rng=rng, user_agent="test", deadline=10 * unit
        )
        self._elector = LeaderElector(
            self._transport,
            namespace="default",
            name="simulated",
            identity=self.identity,
            rng=rng,
            metrics=metrics,
            lease_duration=15 * unit,
            renew_deadline=10 * unit,
            retry_period=2 * unit,
        )
        self._work_ends = asyncio.Event()
        self._terminated = asyncio.Event()
        self._slow_end = rng.choice([0.0, 30.0]) * unit
        self._alive = True
        self._context = contextvars.copy_context()
        self._context.run(process_clock.set, clock)
        self._life = asyncio.get_running_loop().create_task(
            self._live(), name=self.identity, context=self._context
        )
        cluster.replicas.append(self)

    @property
    def leading(self) -> bool:
        return self._alive and self._context.run(lambda: self._elector.leading)

    @property
    def alive(self) -> bool:
        return self._alive

    @property
    def elector(self) -> LeaderElector:
        return self._elector

    async def kill(self) -> None:
        """As `kill -9`: at whatever await it is."""
        self._cluster.note("killed", self.identity)
        self._alive = False
        self.wire.unplug()
        self._life.cancel()
        await asyncio.wait([self._life])

    def terminate(self) -> None:
        """As SIGTERM: the work ends, then the lease is released, then the process ends."""
        self._cluster.note("terminated", self.identity)
        self._terminated.set()

    async def ended(self) -> None:
        """Wait until the process has ended; raises what it did not expect."""
        await asyncio.wait([self._life])
        if not self._life.cancelled():
            self._life.result()

    async def _live(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                election = group.create_task(self._elect(), name=f"{self.identity} election")
                work = group.create_task(self._work(), name=f"{self.identity} work")
                stopper = group.create_task(self._stop_when_asked(work), name=f"{self.identity} stop")
                await asyncio.wait([election])
                self._terminated.set()
                stopper.cancel()
                work.cancel()
        except* LeadershipLost as lost:
            self.lost = cast(LeadershipLost, lost.exceptions[0])
            self._cluster.note("lost", self.identity)
        finally:
            self._alive = False

    async def _elect(self) -> None:
        try:
            await self._elector.run()
        except LeadershipLost:
            # It is slow to end. Whatever it does until then, nobody is to notice.
            await asyncio.sleep(self._slow_end)
            raise

    async def _stop_when_asked(self, work: asyncio.Task[None]) -> None:
        await self._terminated.wait()
        self._work_ends.set()
        if not self._elector.elected.is_set():
            work.cancel()
        await asyncio.wait([work])
        await self._elector.release(within=5 * self._cluster.unit)
        self._cluster.note("released", self.identity)

    async def _work(self) -> None:
        await self._elector.elected.wait()
        self._cluster.note("elected", self.identity)
        self._cluster.check()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write(), name=f"{self.identity} writes")
            group.create_task(self._act(), name=f"{self.identity} acts")

    async def _act(self) -> None:
        """Effects that no API server sees: some are over at once, some take longer than any lease."""
        rng = Random(self.identity)
        while not self._work_ends.is_set():
            try:
                async with self._elector.leadership.held():
                    with self._cluster.acting(self.identity):
                        async with asyncio.timeout(rng.choice([0.0, 1.0, 30.0]) * self._cluster.unit):
                            await self._work_ends.wait()
            except Fenced:
                return
            except TimeoutError:
                await asyncio.sleep(rng.uniform(0.0, 1.0) * self._cluster.unit)

    async def _write(self) -> None:
        surely = True
        while not self._work_ends.is_set():
            try:
                await self._transport.request("PUT", DATA, body=self.identity.encode())
                surely = True
            except Fenced:
                break
            except KubeError:
                surely = False
            await asyncio.sleep(self._rng.uniform(0.1, 2.0) * self._cluster.unit)
        if not surely:
            # A write whose answer was lost may still be on its way: no lease can call that back.
            await asyncio.sleep(2 * self.wire.weather.delay)


def now() -> float:
    """The time of no process."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop.true_time
