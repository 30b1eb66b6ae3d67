"""The state of a simulated world that its processes share: clock, timeline, violations, use of the clock."""

from __future__ import annotations

import asyncio
import contextvars
import re
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
"""Seconds of a freeze, longer than the Lease duration on each clock."""
_TOKEN = f"{PLANTED}-token"

_BY_TIME = frozenset(("requeue", "timer", "back-off", "resync"))
"""Reconcile triggers that no change causes."""
_TIMER = "timer"
_CONSEQUENCES = 660.0
"""Virtual seconds within which a write may have consequences: a Deployment's deadline is 600."""
_OF_THE_RUNTIME = ("manager.util.clock", "manager_tools.simulation.loop")

current_process: contextvars.ContextVar[str] = contextvars.ContextVar("current_process", default="")


sender: contextvars.ContextVar[Sent | None] = contextvars.ContextVar("sender", default=None)
"""The request for which the control plane acts at present."""


@dataclass
class Weather:
    """The faults of the network and the API server that one process sees at present."""

    delay: float = 0.002
    """The maximum delay in seconds of a request, a response or a part of a stream."""
    loss: float = 0.0
    """The share of requests, and of responses except streams, that are lost with their connection."""
    refusals: float = 0.0
    """The share of requests to which the server responds with 429, 500 or 503."""
    lag: float = 0.0
    """Seconds by which watches, and lists that are streamed by a watch, are late."""
    stale: float = 0.0
    """Seconds by which lists are behind; then watches cannot stream lists."""
    torn: float = 0.0
    """The share of a stream's parts that break off within a line."""
    twice: float = 0.0
    """The share of writes that arrive twice in succession."""
    skips: bool = False
    """Streams pause, and then send only the last state of each object."""
    untrusted: bool = False
    """The API server does not trust the certificate of the process's webhooks."""
    behind: float = 0.0
    """Seconds by which the second of two API servers is behind; lists and watches go to either."""
    refusing: bool = False
    """Connections are refused."""
    silent: bool = False
    """No data arrives in either direction, and no error is reported."""
    no_bookmarks: bool = False
    """Watches send no bookmarks except the one that ends an initial list."""
    slow: float = 0.0
    """The maximum seconds until the server responds, after the request has taken effect."""
    _changes: list[Mapping[str, Any]] = field(default_factory=list, repr=False)

    def change(self, **values: Any) -> Callable[[], None]:
        """Override values until the returned function is called; the last of several overrides applies."""

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


_is_of_upkeep = re.compile(
    r"(?<!\S)/api(s/(coordination|events)\.k8s\.io)?/v1(beta1)?/(namespaces/[^/]+/)?(leases|events)(?![^/?])"
).search


def is_upkeep(text: str) -> bool:
    """Return whether a request's path, or a text with it, is about Leases or Events."""
    return _is_of_upkeep(text) is not None


@dataclass(eq=False)
class Sent:
    """A request that has left a process, for the observers of the simulation."""

    process: str
    method: str
    path: str
    number: int = 0
    """The number of the write among those of its `Network`, from 1; 0 for a read."""
    by_clock: bool = False
    """Whether only the passage of time has caused the reconcile that sent the request."""

    def __str__(self) -> str:
        return f"{self.process}: {self.method} {self.path}"

    @property
    def is_upkeep(self) -> bool:
        """Return whether the request is about Leases or Events, and so changes no operator's object."""
        return is_upkeep(self.path)


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated invariant, with the virtual second at which it was found."""

    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.at:8.3f}  {self.what}"


class ClockUse:
    """A record of operators' writes that the passage of time causes: schedules, timers, times to live.

    Operators then write although no other client has changed an object. Such a write is legitimate if the
    operator reads the time or has a method with `@every`, and if only time has caused the reconcile.
    """

    def __init__(self, operators: Sequence[AnyOperator]) -> None:
        timers = [each for operator in operators for each in operator.timers]
        self._has_common_timers = any(not each.for_each for each in timers)
        self.is_read = bool(timers)
        """Whether an operator has read the time, or has a method with `@every`."""
        self.has_written = False
        """Whether an operator has written because of the time."""
        self.resources: set[str] = set()
        """The resources (`plural.group`) with objects that were created or deleted because of the time."""
        self._runs: set[str] = set()
        self._last = -_CONSEQUENCES

    def was_asked(self) -> None:
        """Record that an operator reads the time of day, if the caller is an operator."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__") in (*_OF_THE_RUNTIME, __name__):
            frame = frame.f_back
        if is_operators(frame.f_code.co_filename):
            self.is_read = True
            if (run := current_record()) is not None:
                self._runs.add(run.id)

    def causes_write(self) -> bool:
        """Return whether only time causes the current write: an `@every` method, or a read of the time."""
        run = current_record()
        if run is None:
            return self._has_common_timers
        triggers = {each.why for each in run.triggers}
        return bool(triggers) and triggers <= _BY_TIME and (_TIMER in triggers or run.id in self._runs)

    def wrote(self, now: float, change: Change) -> None:
        """Record a write that only the time has caused."""
        self.has_written = True
        self._last = now
        if change.old is None or change.new is None:
            self.resources.add(f"{change.key.plural}.{change.key.group}".rstrip("."))

    def explains(self, now: float) -> bool:
        """Return whether a change at the time `now` may be a consequence of a write that `wrote` recorded."""
        return now - self._last <= _CONSEQUENCES


@dataclass(kw_only=True)
class Scene(ABC):
    """The state of one run that its processes, certificates and faults use."""

    plan: Plan
    operators: Sequence[AnyOperator]
    clocks_are_right: bool = False
    """Whether managers' clocks are right from the start, or only in the calm phase."""

    timeline: list[tuple[float, str, str]] = field(init=False, default_factory=list)
    violations: list[Violation] = field(init=False, default_factory=list)
    writes: int = field(init=False, default=0)
    looks: int = field(init=False, default=0)
    """The number of managers' reads of external state."""
    rights_taken: int = field(init=False, default=0)
    """The number of present faults that deprive the managers of rights."""
    trouble_until: float = field(init=False, default=0.0)
    """The end of the last fault during which webhooks need not be trusted."""
    token: str = field(init=False, default=_TOKEN)
    """The token that managers can read."""

    def __post_init__(self) -> None:
        self.weathers = [Weather() for _ in range(self.plan.replicas)]
        self.leads: set[int] = set()
        """With shards: the numbers of the replicas that use leader election for a while."""
        self.clock_use = ClockUse(self.operators)
        self.tokens_made: set[str] = set()
        """The random values that managers have used for passwords, as `ctx.token` formats them."""
        self.versions: list[tuple[float, int]] = []
        self.plane: ControlPlane
        self.context = contextvars.copy_context()
        self._refusals: set[str] = set()
        self._ending = False
        self._hopeless = False
        self._main: asyncio.Task[Any]

    @property
    def seed(self) -> str:
        """Return the plan's seed as text; other random generators use it as a part of their seeds."""
        return str(self.plan.seed)

    @property
    def now(self) -> float:
        """Return the virtual seconds since the start, independent of the processes' clocks."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return loop.true_time

    @property
    def cluster(self) -> DevCluster:
        """Return the running cluster; while none runs, the last one."""
        return self.plane.cluster

    def note(self, process: str, what: str) -> None:
        """Add a line with the current virtual time to the timeline."""
        self.timeline.append((self.now, process, what))

    def violated(self, what: str) -> None:
        """Record a violated invariant, which fails the run."""
        if not self._ending:
            self.violations.append(Violation(self.now, what))
            self.note("VIOLATED", what)

    def give_up(self, what: str) -> None:
        """Record a violated invariant, and end the run, which would otherwise never end."""
        self.violated(what)
        if not self._hopeless:
            self._hopeless = True
            self._main.cancel()

    def forbidden(self, process: str, message: str, asked_at: str) -> None:
        """Record a violation if the API server refused a request because of a missing right."""
        refusal = Forbidden(403, "Forbidden", message)
        refusal.asked_at = asked_at
        if refusal.missing_right is not None and str(refusal) not in self._refusals:
            self._refusals.add(str(refusal))
            self.violated(f"{process} has no right: {refusal}")

    def dies_at(self, sent: Sent, when: str) -> bool:
        """Return whether the plan's crash point is here; called before and after each write of a manager."""
        if sent.is_upkeep:
            return False
        if when == "before":
            self.writes += 1
        if self.plan.crash_at != (self.writes, when):
            return False
        self.trouble_until = self.now + FROZEN
        return True

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` after `seconds`, even if the calling process has ended by then."""
        self.context.copy().run(asyncio.get_running_loop().call_later, seconds, act)

    @abstractmethod
    def check_holder(self, sent: Sent, change: Change | None = None) -> None:
        """Record a violation if a process other than the request's sender holds the Lease."""

    @abstractmethod
    def meddle(self) -> None:
        """Let users change any object and child immediately after a manager's write."""
