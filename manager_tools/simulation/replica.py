"""The processes of a simulation: managers, each with its own clock and network."""

from __future__ import annotations

import asyncio
import base64
import contextvars
import random
from collections.abc import Callable, Coroutine
from typing import Any

from manager.election.coordinator import Coordinator, LeadershipLost
from manager.election.elector import LeaderElector
from manager.election.lease import ElectionConfig, LeaseTiming
from manager.kube.credentials import Credentials, Obtained, TokenFile
from manager.kube.transport import Transport
from manager.operator import AnyOperator, add_controller
from manager.process.manager import STOP_MARGIN, Manager, Runnable
from manager.settings import SettingValues
from manager.telemetry.metrics import Metrics
from manager.tls.served import ServedCertificate
from manager.webhook.endpoint import Endpoint
from manager.webhook.endpoints import endpoints_of
from manager.webhook.methods import registrations
from manager.webhook.registration import Webhooks
from manager_shards import OwnedShards, ShardCoordinator
from manager_tools.simulation.certificates import READ_EVERY, WebhookCertificates
from manager_tools.simulation.loop import ProcessClock, VirtualLoop, process_clock
from manager_tools.simulation.network import Network
from manager_tools.simulation.plan import LEASE_NAMESPACE, PLANTED, PROGRAM
from manager_tools.simulation.scene import FROZEN, Scene, Sent, current_process

TIMING = LeaseTiming(lease_duration=40.0, renew_deadline=25.0, retry_period=12.0)
"""Lease durations in seconds, longer than the defaults to save renewals in calm phases."""

MOST_TURNS, MOST_REQUESTS = 20_000, 1_000
"""Maximum numbers per virtual minute: more is a hot loop, which would never end in virtual time."""

STALE = 30.0
"""Seconds by which a restarted process reads old state, and for which it does so."""

REFUSED = 20.0
"""Seconds for which all requests are refused."""

GRACE = 10.0
"""Seconds that reconciles get to finish when a process is stopped."""


class _TokenFile(Credentials):
    REJECTED_INTERVAL = TokenFile.REJECTED_INTERVAL

    def __init__(self, world: Scene) -> None:
        super().__init__()
        self._world = world

    async def obtain(self) -> Obtained:
        return Obtained(f"Bearer {self._world.token}", TokenFile.LIFETIME)


class Replica:
    """A simulated process that runs a manager, with its own clock, network and shutdown."""

    def __init__(
        self,
        world: Scene,
        number: int,
        generation: int,
        *,
        certificates: WebhookCertificates | None,
        operator_in: Callable[[AnyOperator, Replica], AnyOperator],
    ) -> None:
        """Create process `number`; each restart gets a higher `generation`.

        `certificates` provides the certificates of its webhooks. `operator_in` adapts an operator to this
        process.
        """
        self.name = f"manager-{number}.{generation}" if generation else f"manager-{number}"
        self.number = number
        self.world = world
        self._certificates, self._operator_in = certificates, operator_in
        rng = random.Random(f"{world.seed}/{self.name}")
        self.rng = rng
        self.clock = ProcessClock(
            rate=rng.uniform(0.97, 1.03), offset=rng.uniform(0, 1e6), skew=rng.uniform(-40, 40)
        )
        if world.clocks_are_right:
            self.clock.rate, self.clock.skew = 1.0, 0.0
        self.clock.most_turns, self.clock.overworked = MOST_TURNS, self._overworked
        self._requests, self._minute, self._freezes = 0, 0, 0
        self._ends_by: asyncio.TimerHandle | None = None
        self.weather = world.weathers[number]
        self.stop = asyncio.Event()
        self.metrics = Metrics()
        self.dead = False
        self.endpoints: dict[str, Endpoint[Any]] = {}
        self.context = contextvars.copy_context()
        self.context.run(process_clock.set, self.clock)
        self.context.run(current_process.set, self.name)
        self.owned: OwnedShards | None = None
        self.manager: Manager
        self.task: asyncio.Task[None]
        self.networks: list[Network] = []
        self.transports: list[Transport] = []
        self.began = world.now
        self._served: ServedCertificate | None = None
        self._keep: Callable[[], Coroutine[Any, Any, None]]
        self._keeping: list[asyncio.Task[None]] = []
        self.credentials = _TokenFile(world)

    def start(self) -> None:
        """Start the process, in a new context."""
        self.context.run(self._assemble)
        self.task = asyncio.get_running_loop().create_task(
            self._run(), name=self.name, context=self.context.copy()
        )

    def _transport(self, beside: Transport | None = None) -> Transport:
        network = Network(
            self.world,
            self.name,
            self.credentials,
            rng=random.Random(self.rng.getrandbits(64)),
            weather=self.weather,
            crash=self._crash,
            counted=self._counted,
        )
        transport = Transport(
            network, metrics=self.metrics, rng=self.rng, user_agent=PROGRAM.agent, beside=beside
        )
        self.networks.append(network)
        self.transports.append(transport)
        return transport

    def _assemble(self) -> None:
        world = self.world
        transport = self._transport()
        coordinator: Coordinator | None = None
        if world.plan.replicas > 1 or world.plan.shards:
            election = ElectionConfig(
                transport=self._transport(beside=transport),
                namespace=LEASE_NAMESPACE,
                name=PROGRAM.name,
                identity=self.name,
                rng=self.rng,
                metrics=self.metrics,
                timing=TIMING,
            )
            if world.plan.shards and self.number not in world.leads:
                self.owned = OwnedShards(world.plan.shards, self.metrics, grace=GRACE)
                coordinator = ShardCoordinator(election, self.owned)
            else:
                coordinator = LeaderElector(election)
        operators = [self._operator_in(each, self) for each in world.operators]
        values = {key: key.default_value() for each in operators for key in each.declared_settings}
        self.manager = Manager(
            transport,
            program=PROGRAM,
            metrics=self.metrics,
            rng=self.rng,
            identity=self.name,
            settings=SettingValues(values),
            coordinator=coordinator,
            graceful_shutdown_timeout=GRACE,
            unguessable=self._unguessable,
        )
        made = [operator(self.manager) for operator in operators]
        for operator in made:
            add_controller(operator)
        webhooks = Webhooks([each for operator in made for each in registrations(operator)])
        self.endpoints = {each.path: each for each in endpoints_of(webhooks, self.metrics)}
        if self._certificates is not None:
            kept = self._certificates.certificates_for(transport, webhooks, self._unguessable)
            self._served = ServedCertificate(kept.source, look_every=READ_EVERY)
            for runnable in (*kept.runnables, Runnable("webhooks", self._serve)):
                self.manager.add(runnable)
            # A second certificate rotator, which may run beside the leader's.
            *_, keeper = self._certificates.certificates_for(transport, webhooks, self._unguessable).runnables
            self._keep = keeper.run

    async def _serve(self) -> None:
        assert self._served is not None
        await self._served.obtained()
        async with self._served.refreshed():
            await asyncio.Event().wait()

    @property
    def presented(self) -> bytes | None:
        """Return the certificate that the webhooks present; None while they do not listen."""
        if self._served is None or self._served._known is None:
            return None
        return self._served._known[0].certificates

    def keep_certificates(self) -> Callable[[], object]:
        """Rotate certificates even if the process does not lead; the returned function ends this."""
        keeping = asyncio.get_running_loop().create_task(self._keep(), context=self.context.copy())
        self._keeping.append(keeping)
        return keeping.cancel

    def _unguessable(self, count: int) -> bytes:
        """Return random bytes; long ones begin with a marker, so that a leaked password is found."""
        planted = PLANTED.encode()
        drawn = self.rng.randbytes(count)
        made = planted + drawn[len(planted) :] if count >= 2 * len(planted) else drawn
        self.world.tokens_made.add(base64.urlsafe_b64encode(made).rstrip(b"=").decode())
        return made

    async def _run(self) -> None:
        try:
            await self.manager.run(self.stop)
        except LeadershipLost:
            self.world.note(self.name, "ended: the lease was lost")
        except Exception as error:  # noqa: BLE001 - unexpected errors are violations
            self.world.violated(f"{self.name} ended with {type(error).__name__}: {error}")
        else:
            self.world.note(self.name, "ended in order")
            if not self.stop.is_set():
                self.world.violated(f"{self.name} ended without a request to stop")
        for keeping in self._keeping:
            keeping.cancel()
            await asyncio.wait([keeping])
            if not keeping.cancelled() and (failed := keeping.exception()) is not None:
                self.world.violated(f"{self.name}: {keeping.get_name()} ended with {failed!r}")
        for transport in self.transports:
            await transport.aclose()
        if self._ends_by is not None:
            self._ends_by.cancel()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        tasks = [task.get_name() for task in loop.tasks_of(self.clock) if task is not asyncio.current_task()]
        timers = [str(timer) for timer in loop.timers_of(self.clock)]
        requests = [path for network in self.networks for path in network.requests]
        for what, left in (("tasks", tasks), ("timers", timers), ("requests", requests)):
            if left:
                self.world.violated(f"{self.name} has left {what} behind: {sorted(left)}")

    def terminate(self) -> None:
        """Stop the process cleanly, as SIGTERM does."""
        if self.alive and not self.stop.is_set():
            self.stop.set()
            loop = asyncio.get_running_loop()
            late = GRACE + STOP_MARGIN
            freezes = self._freezes if self.clock.paused is None else -1  # a frozen one may be late
            self._ends_by = self.context.copy().run(loop.call_later, late, self._late, late, freezes)

    def _late(self, seconds: float, freezes: int) -> None:
        if self.alive and freezes == self._freezes:
            self.world.violated(f"{self.name} does not end within {seconds:g} s")

    async def effect(self, what: str, when: str) -> bool:
        """Announce the external call `what`; `when` is "before" or "after" it. The process may die here.

        If the process dies here, this method never returns. Otherwise it returns False.
        """
        sent = Sent(self.name, "CALL", what)
        if when == "after":
            self.world.note(self.name, what)
        if self._crash(sent, when):
            await asyncio.get_running_loop().create_future()
        return False

    def _crash(self, sent: Sent, when: str) -> bool:
        if self.dead:
            return when == "before"
        if when == "before" and not sent.is_upkeep:
            self.world.check_holder(sent)
        if self.world.dies_at(sent, when):
            self.kill()
            return True
        if when == "after" and self.world.dies_at(sent, "meddle"):
            self.world.meddle()
        if when == "after" and self.world.dies_at(sent, "stale"):
            self.world.note(self.name, f"its successor reads the state of {STALE:g} s ago")
            self.world.later(STALE, self.weather.change(stale=STALE, lag=STALE))
            self.kill()
            return True
        if when == "before" and self.world.dies_at(sent, "refuse"):
            self.world.note(self.name, f"all its requests are refused for {REFUSED:g} s")
            self.world.later(REFUSED, self.weather.change(refusals=1.0))
        if when == "after" and self.world.dies_at(sent, "freeze"):
            self._freeze()
        return False

    def has_looked(self) -> None:
        """Count a read of an external system by the operator; freeze here if the plan says so."""
        self.world.looks += 1
        if self.world.plan.crash_at == (self.world.looks, "look"):
            self._freeze()

    def _freeze(self) -> None:
        if self.clock.paused is None:
            self.world.note(self.name, f"frozen for {FROZEN:g} s")
            self.world.trouble_until = self.world.now + FROZEN
            self.freeze()
            self.world.later(FROZEN, self._thaw)

    def freeze(self) -> None:
        """Pause all tasks of the process, as SIGSTOP does."""
        self._freezes += 1
        self.clock.paused = []

    def _thaw(self) -> None:
        if not self.dead:
            self.world.note(self.name, "goes on")
            self.clock.resume()

    def _counted(self) -> None:
        minute = int(self.world.now // 60)
        if minute != self._minute:
            self._minute, self._requests = minute, 0
        self._requests += 1
        if self._requests > MOST_REQUESTS:
            self._overworked(f"{MOST_REQUESTS} requests")

    def _overworked(self, what: str = f"{MOST_TURNS} turns of its loop") -> None:
        if not self.dead:
            self.world.give_up(f"{self.name} is in a hot loop: more than {what} in a minute")
            self.kill()

    def kill(self) -> None:
        """Kill the process: none of its tasks continues."""
        if not self.dead:
            self.world.note(self.name, "killed")
            self.dead = True
            self.clock.paused = self.clock.paused or []
            for network in self.networks:
                network.unplug()

    @property
    def alive(self) -> bool:
        """Return whether the process is running or frozen."""
        return not self.dead and not self.task.done()

    def next_due(self) -> list[float]:
        """Return the virtual times at which delayed objects will be reconciled, one for each object."""
        queues = [each.queue for each in self.manager.controllers if each.queue is not None]
        dues = [item.due for queue in queues for item in queue._items.values() if item.due is not None]
        return [(due - self.clock.offset) / self.clock.rate for due in dues]

    def has(self, number: int) -> bool:
        """Return whether the process runs and owns the shard with that number."""
        return self.alive and self.owned is not None and self.owned.find(number) is not None

    async def bury(self) -> None:
        """Release resources at the end of the run; raise the error with which the process ended, if any."""
        self.clock.resume()
        self.task.cancel()
        await asyncio.wait([self.task])
        if not self.task.cancelled():
            self.task.result()
