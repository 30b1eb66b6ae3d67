"""The part of a simulated world that its processes see: clock, time line, violations."""

from __future__ import annotations

import asyncio
import contextvars
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from manager.kube.errors import Forbidden
from manager_tools.simulation.clock_use import ClockUse
from manager_tools.simulation.loop import VirtualLoop
from manager_tools.simulation.network import Sent, Weather
from manager_tools.simulation.workload import PLANTED

if TYPE_CHECKING:
    from devcluster import DevCluster
    from devcluster.storage import Change
    from manager.operator import AnyOperator
    from manager_tools.simulation.control_plane import ControlPlane

__all__ = ["FROZEN", "Scene", "Violation", "current_process"]

FROZEN = 90.0
"""Seconds: more than the lease lasts, on anybody's clock."""
_TOKEN = f"{PLANTED}-token"

current_process: contextvars.ContextVar[str] = contextvars.ContextVar("current_process", default="")


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that has to hold, and did not."""

    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.at:8.3f}  {self.what}"


@dataclass(kw_only=True)
class Scene(ABC):
    """A run of one seed, as its processes, certificates and faults see it."""

    seed: str
    operators: Sequence[AnyOperator]
    replicas: int = 2
    crash_at: tuple[int, str] | None = None
    """A write of a manager, and what comes with it; see `crash_points`."""
    shards: int = 0
    """The number of shards into which managers divide the objects; with 0 one of them leads."""
    clocks_are_right: bool = False
    """Whether managers' clocks are right from the start, and not only when all is calm."""

    timeline: list[tuple[float, str, str]] = field(init=False, default_factory=list)
    violations: list[Violation] = field(init=False, default_factory=list)
    writes: int = field(init=False, default=0)
    looks: int = field(init=False, default=0)
    """How often managers have looked at what is outside of the cluster."""
    rights_taken: int = field(init=False, default=0)
    """How many faults have taken rights of the managers away."""
    trouble_until: float = field(init=False, default=0.0)
    """When the last thing went wrong, or will be over, for which no webhook need be trusted."""
    token: str = field(init=False, default=_TOKEN)
    """What managers can read; there have been so many others before it."""

    def __post_init__(self) -> None:
        self.weathers = [Weather() for _ in range(self.replicas)]
        self.leads: set[int] = set()
        """The numbers of those that lead or wait for a while, where the others share."""
        self.clock_use = ClockUse(self.operators)
        self.tokens_made: set[str] = set()
        """What managers have drawn for passwords, as `ctx.token` makes it a text."""
        self.versions: list[tuple[float, int]] = []
        self.plane: ControlPlane
        self.context = contextvars.copy_context()
        self._refusals: set[str] = set()
        self._ending = False
        self._hopeless = False
        self._main: asyncio.Task[Any]

    @property
    def now(self) -> float:
        """Return the virtual seconds since the start, which no process's clock shows."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return loop.true_time

    @property
    def cluster(self) -> DevCluster:
        """Return the current cluster, or the last one."""
        return self.plane.cluster

    def note(self, process: str, what: str) -> None:
        """Add a line to the time line."""
        self.timeline.append((self.now, process, what))

    def violated(self, what: str) -> None:
        """Note that something does not hold."""
        if not self._ending:
            self.violations.append(Violation(self.now, what))
            self.note("VIOLATED", what)

    def give_up(self, what: str) -> None:
        """Note that something does not hold, and that to go on would have no end."""
        self.violated(what)
        if not self._hopeless:
            self._hopeless = True
            self._main.cancel()

    def forbidden(self, process: str, message: str, asked_at: str) -> None:
        """Note that a manager has asked for what its roles do not grant."""
        refusal = Forbidden(403, "Forbidden", message)
        refusal.asked_at = asked_at
        if refusal.missing_right is not None and str(refusal) not in self._refusals:
            self._refusals.add(str(refusal))
            self.violated(f"{process} has no right: {refusal}")

    def dies_at(self, sent: Sent, when: str) -> bool:
        """Return whether the process dies there; asked before and after each write of a manager."""
        if sent.is_upkeep:
            return False
        if when == "before":
            self.writes += 1
        if self.crash_at != (self.writes, when):
            return False
        self.trouble_until = self.now + FROZEN
        return True

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Have it done after that time, whatever becomes of the process that asks."""
        self.context.copy().run(asyncio.get_running_loop().call_later, seconds, act)

    @abstractmethod
    def check_holder(self, sent: Sent, change: Change | None = None) -> None:
        """Note a violation if another process has the lease."""

    @abstractmethod
    def meddle(self) -> None:
        """Let people change something right after a write of a manager."""
