"""The part of a simulated world that its processes see: clock, time line, violations, use of the clock."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from devcluster import DevCluster
from devcluster.storage import Change
from manager.kube.errors import Forbidden
from manager.operator import AnyOperator
from manager.telemetry.runs import current_record
from manager_tools.simulation.control_plane import ControlPlane
from manager_tools.simulation.guards import is_operators
from manager_tools.simulation.loop import VirtualLoop
from manager_tools.simulation.plan import PLANTED, Plan

FROZEN = 90.0
"""Seconds: more than the lease lasts, on anybody's clock."""
_TOKEN = f"{PLANTED}-token"

_BY_TIME = frozenset(("requeue", "timer", "back-off", "resync"))
"""Triggers that no change causes."""
_TIMER = "timer"
_CONSEQUENCES = 660.0
"""Virtual seconds in which a write may have consequences: a Deployment gives up its progress after 600."""
_OF_THE_RUNTIME = ("manager.util.clock", "manager_tools.simulation.loop")

current_process: contextvars.ContextVar[str] = contextvars.ContextVar("current_process", default="")


sender: contextvars.ContextVar[Sent | None] = contextvars.ContextVar("sender", default=None)
"""On behalf of which request the control plane does what it does."""


@dataclass
class Weather:
    """Condition of the network, and of the server as one process sees it."""

    delay: float = 0.002
    """Longest time that a request, an answer or a piece of a stream takes, in seconds."""
    loss: float = 0.0
    """Part of the requests, and of the answers, that get lost with their connection."""
    refusals: float = 0.0
    """Part of the requests that the server answers with 429, 500 or 503."""
    lag: float = 0.0
    """Seconds by which watches, and lists that may be answered from a cache, are behind."""
    stale: float = 0.0
    """Seconds by which lists are behind; watches are not streamed lists then."""
    torn: float = 0.0
    """Part of a stream's pieces that break off within a line."""
    twice: float = 0.0
    """Part of the writes that arrive twice, one right after the other."""
    skips: bool = False
    """Streams carry nothing, and then only the last state of each object."""
    untrusted: bool = False
    """The API server does not take the certificate of its webhooks."""
    behind: float = 0.0
    """Seconds by which the second of two API servers is behind; lists and watches go to either."""
    refusing: bool = False
    """No connection can be made."""
    silent: bool = False
    """Nothing arrives, in either direction, and nobody says so."""
    no_bookmarks: bool = False
    """Watches send no bookmarks but the one that ends a list."""
    slow: float = 0.0
    """Seconds that the server takes at most to answer, after what it was asked for has had its effect."""
    _changes: list[Mapping[str, Any]] = field(default_factory=list, repr=False)

    def change(self, **values: Any) -> Callable[[], None]:
        """Override values until the returned function is called; the last of several overrides counts."""

        def undo() -> None:
            self._changes = [each for each in self._changes if each is not values]
            self._sum_up(values)

        self._changes.append(values)
        self._sum_up(values)
        return undo

    def _sum_up(self, names: Iterable[str]) -> None:
        for name in names:
            wanted = [each[name] for each in self._changes if name in each]
            setattr(self, name, wanted[-1] if wanted else getattr(Weather, name))


@dataclass(eq=False)
class Sent:
    """Request that has left a process, as observers of the simulation see it."""

    process: str
    method: str
    path: str
    number: int = 0
    """How many writes of this process came before it."""
    by_clock: bool = False
    """Whether time alone has caused the reconcile that sent it."""

    def __str__(self) -> str:
        return f"{self.process}: {self.method} {self.path}"

    @property
    def is_upkeep(self) -> bool:
        """Return whether it is about leases or Events, and so changes no object of an operator."""
        return "/leases" in self.path or "/events" in self.path


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that has to hold, and did not."""

    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.at:8.3f}  {self.what}"


class ClockUse:
    """Work that operators do because time has passed: schedules, timers, times to live.

    They write something then, although no other client has changed anything. That is no sign of unrest if
    the operator has asked for the time, or has a method with `@every`, and if time alone has caused the
    reconcile.
    """

    def __init__(self, operators: Sequence[AnyOperator]) -> None:
        timers = [each for operator in operators for each in operator.timers]
        self._has_common_timers = any(not each.for_each for each in timers)
        self.is_read = bool(timers)
        """Whether an operator has asked for the time, or has a method with `@every`."""
        self.has_written = False
        """Whether anything was written because of the time."""
        self.resources: set[str] = set()
        """The kinds of which objects were created or deleted because of the time."""
        self._runs: set[str] = set()
        self._last = -_CONSEQUENCES

    def was_asked(self) -> None:
        """Remember whether an operator has just asked the loop for the time of day."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__") in (*_OF_THE_RUNTIME, __name__):
            frame = frame.f_back
        if is_operators(frame.f_code.co_filename):
            self.is_read = True
            if (run := current_record()) is not None:
                self._runs.add(run.id)

    def causes_write(self) -> bool:
        """Return whether time alone has caused the reconcile that the calling task belongs to."""
        run = current_record()
        if run is None:
            return self._has_common_timers
        triggers = {each.why for each in run.triggers}
        return bool(triggers) and triggers <= _BY_TIME and (_TIMER in triggers or run.id in self._runs)

    def wrote(self, now: float, change: Change) -> None:
        """Take note of a write that time alone has caused."""
        self.has_written = True
        self._last = now
        if change.old is None or change.new is None:
            self.resources.add(f"{change.key.plural}.{change.key.group}".rstrip("."))

    def explains(self, now: float) -> bool:
        """Return whether what changes now may be a consequence of such a write."""
        return now - self._last <= _CONSEQUENCES


@dataclass(kw_only=True)
class Scene(ABC):
    """A run of one seed, as its processes, certificates and faults see it."""

    plan: Plan
    operators: Sequence[AnyOperator]
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
        self.weathers = [Weather() for _ in range(self.plan.replicas)]
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
    def seed(self) -> str:
        """Return the seed of the plan, for sources of chance beside the world's own."""
        return str(self.plan.seed)

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
        if self.plan.crash_at != (self.writes, when):
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
