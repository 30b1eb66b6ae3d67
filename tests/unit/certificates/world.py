"""A world in virtual time in which keepers look after certificates, and things go wrong.

    world = CertificateWorld(seed)
    simulate(world.live(hours=3))

There is one store and a few targets. Whoever reads or writes them waits a moment, may be told that the
connection broke, before or after it had its effect, and may be killed at any await. API servers hear of a
changed bundle with a delay, replicas of a changed certificate with another. Every few seconds, and whenever
anybody's view changes, it is checked that each API server trusts what each replica serves.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from manager import clock
from manager.certificates.keeper import Keeper
from manager.certificates.lifetimes import Lifetimes
from manager.certificates.store import Changed, Material, Snapshot
from manager.certificates.targets import Absent, Found
from manager.kube.errors import Conflict, ConnectionLost
from manager.tls.certificate import Certificate, certificates_in

NAMES = ("svc.ns.svc", "svc.ns.svc.cluster.local")

LIFETIMES = Lifetimes(
    authority=timedelta(hours=1),
    serving=timedelta(minutes=15),
    settle=timedelta(seconds=15),
    retire=timedelta(minutes=2),
)

HEARD_WITHIN = 5.0
"""Seconds after which every API server knows a bundle."""

SERVED_WITHIN = 12.0
"""Seconds after which every replica serves a certificate: it reads the Secret, and then the server looks."""


class Outage(Exception):
    """Some API server does not trust what some replica serves."""


@dataclass
class Fate:
    """What happens to the requests of one process."""

    rng: random.Random
    losses: float = 0.0
    """How often, of 1, a request loses its connection."""

    slow: float = 0.4
    """Seconds that a request takes at most."""

    async def around(self, effect: Callable[[], None] | None = None) -> None:
        """Wait, do it, wait; or lose it on the way."""
        lost = self.rng.random() < self.losses
        before = lost and self.rng.random() < 0.5
        await asyncio.sleep(self.rng.uniform(0, self.slow))
        if before:
            raise ConnectionLost("by fate, before")
        if effect is not None:
            effect()
        await asyncio.sleep(self.rng.uniform(0, self.slow))
        if lost:
            raise ConnectionLost("by fate, after")


@dataclass
class Target:
    """Implements `manager.certificates.targets.Target` with what all processes see."""

    name: str
    world: CertificateWorld
    bundles: tuple[bytes, ...] = (b"", b"")
    hosts: tuple[str, ...] = NAMES
    installed: bool = True
    heard: tuple[bytes, ...] = (b"", b"")
    """What the slowest API server knows. The quickest knows `bundles`."""

    excused: bool = False
    """Whether somebody has taken its bundle away, and not every API server has heard of the mended one."""

    puts: int = 0
    heard_of: int = 0

    def put(self, bundles: tuple[bytes, ...], *, excused: bool = False) -> None:
        """Store these bundles; `excused` when it is not us who do it."""
        self.bundles, self.puts = bundles, self.puts + 1
        self.excused |= excused
        self.world.later(HEARD_WITHIN, self._hear, self.puts, bundles, excused)
        self.world.check()

    def _hear(self, number: int, bundles: tuple[bytes, ...], excused: bool) -> None:
        if number < self.heard_of:
            return  # of what is newer, it has heard already
        self.heard_of, self.heard = number, bundles
        if number == self.puts:
            self.excused = excused
        self.world.check()


class View:
    """One process's access to a target."""

    def __init__(self, target: Target, fate: Fate) -> None:
        self._target, self._fate = target, fate

    def __str__(self) -> str:
        return self._target.name

    async def look(self) -> Found:
        await self._fate.around()
        target = self._target
        if not target.installed:
            raise Absent(f"{target.name} is not installed")
        return Found(target.bundles, target.hosts, intact=True, body={})

    async def inject(self, found: Found, bundle: bytes) -> None:
        def effect() -> None:
            self._target.world.written(f"inject {self._target.name}")
            if self._target.bundles != found.bundles:
                raise Conflict(409, "Conflict", "it has changed")
            self._target.put(tuple(bundle for _ in found.bundles))

        await self._fate.around(effect)


class StoreView:
    """One process's access to the store; implements `Store`."""

    def __init__(self, world: CertificateWorld, fate: Fate) -> None:
        self._world, self._fate = world, fate

    def __str__(self) -> str:
        return "the store"

    async def read(self) -> Snapshot:
        await self._fate.around()
        return Snapshot(self._world.material, self._world.version)

    async def write(self, material: Material, instead_of: Snapshot) -> None:
        def effect() -> None:
            self._world.written("store")
            if self._world.version != instead_of.version:
                raise Changed("the store")
            self._world.put(material)

        await self._fate.around(effect)


@dataclass
class CertificateWorld:
    """See the top of this file."""

    seed: int = 0
    losses: float = 0.0
    material: Material = field(default_factory=Material)
    version: int = 0
    writes: list[str] = field(default_factory=list)
    served: list[Certificate] = field(default_factory=list)
    """What replicas may serve now: the newest, and those before it until all have the newest."""

    ever_served: list[Certificate] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.targets = [Target(name, self) for name in ("mutating", "validating", "pets")]
        self._keepers: list[asyncio.Task[None]] = []
        self._known: dict[tuple[Certificate, bytes], list[tuple[float, float]]] = {}
        self.outages: list[str] = []

    # What happens in it.

    def start_leader(self) -> None:
        """A new process leads."""
        fate = Fate(random.Random(self.rng.random()), self.losses)
        keeper = Keeper(
            StoreView(self, fate),
            [View(each, fate) for each in self.targets],
            names=NAMES,
            authority="test",
            lifetimes=LIFETIMES,
        )
        self._keepers.append(asyncio.create_task(keeper.run()))

    async def kill_leader(self) -> None:
        """Whoever leads is gone, in the middle of whatever it does."""
        while self._keepers:
            keeper = self._keepers.pop()
            keeper.cancel()
            await asyncio.wait([keeper])
            assert keeper.cancelled(), keeper.exception()

    def put(self, material: Material) -> None:
        """Store it, and let the replicas find it."""
        self.material, self.version = material, self.version + 1
        found = certificates_in(material.certificate)
        if found and material.key and found[0].valid_at(clock.now()) and found[0] not in self.served:
            self.served.append(found[0])
            self.ever_served.append(found[0])
            self.later(SERVED_WITHIN, self._all_serve, found[0])
        self.check()

    def written(self, what: str) -> None:
        """Somebody has written this, or tried to."""
        self.writes.append(what)

    def later(self, within: float, act: Callable[..., None], *arguments: object) -> None:
        asyncio.get_running_loop().call_later(self.rng.uniform(0.5, 1) * within, act, *arguments)

    def _all_serve(self, newest: Certificate) -> None:
        if newest in self.served:
            self.served = self.served[self.served.index(newest) :]

    # What must hold.

    def check(self) -> None:
        """Note an outage unless every API server trusts whatever is served."""
        now = clock.now().timestamp()
        for target in self.targets:
            # Until a target has its first bundle, there is nothing that anybody could rely on.
            if target.excused or not target.installed or not all(target.heard):
                continue
            for served in self.served:
                for bundle in {*target.bundles, *target.heard}:
                    if not any(since <= now <= until for since, until in self._trusted(served, bundle)):
                        self.outages.append(f"{clock.now()}: {target.name} does not trust {served.since}")

    def _trusted(self, served: Certificate, bundle: bytes) -> Iterable[tuple[float, float]]:
        """From when until when whoever has the bundle trusts the certificate."""
        known = self._known.get((served, bundle))
        if known is None:
            known = self._known[served, bundle] = [
                (max(served.since, each.since).timestamp(), min(served.until, each.until).timestamp())
                for each in certificates_in(bundle)
                if served.vouched_for_by(each)
            ]
        return known

    def healthy(self) -> bool:
        """Whether all is as it is in the end: one authority, trusted by all, and its certificate served."""
        authorities = [certificates_in(bundle) for each in self.targets for bundle in each.bundles]
        return len(self.served) == 1 and all(
            len(each) == 1 and self.served[0].vouched_for_by(each[0]) for each in authorities
        )

    async def passing(self, seconds: float) -> None:
        """Let time pass, and check again and again: what serves or trusts may expire without any change."""
        until = clock.monotonic() + seconds
        while (left := until - clock.monotonic()) > 0:
            await asyncio.sleep(min(left, 5.0))
            self.check()
            if self.outages:
                raise Outage(self.outages[0])
            for keeper in self._keepers:
                if keeper.done() and not keeper.cancelled():
                    keeper.result()
