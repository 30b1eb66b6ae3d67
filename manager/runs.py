"""What happened in each reconcile: the one record of it, of which logs, metrics and pages tell.

The runner makes a `Run` for each reconcile. Whoever sends a request or records an Event within it finds it by
`current_run`, and adds to it. When it has ended, it is kept as bytes, in a `History`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar, Token
from functools import cache

import msgspec

from manager.api import GroupVersionKind, ObjectKey, Resource

NO_ANSWER = 0
"""Stands for a status code where no complete answer came."""

SPARED = -1
"""Stands for a status code where nothing was sent, because nothing would have changed."""

CALLED = -2
"""Stands for a status code of a call outside of the cluster: `error` has how it ended."""

MOST_TRIGGERS, MOST_REQUESTS, MOST_EVENTS = 16, 32, 16
"""How many of each a run keeps. The others are counted."""

LONGEST_TEXT = 300
"""Characters of an error's or an Event's text that are kept."""

_WORDS = {
    "asked": "asked for by the program",
    "back-off": "again, after its back-off",
    "requeue": "again, as it said itself",
}


class Trigger(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Something that asked for a reconcile."""

    why: str
    """`event` (of a watch), `found` (it was there when the controller started), `freed` (a name that the
    object waited for may be free), `requeue` (its own Result), `back-off`, `probe` (to see whether `name`
    answers), `answered` (`name` has answered), `resync`, `timer`, `asked` (by the program),
    `person` (by one called `name`)."""

    at: float = 0.0
    """When, on the loop's clock; of a watch event, when it arrived."""

    change: str = ""
    """Of an event: ADDED, MODIFIED or DELETED."""

    source: str = ""
    """Of an event: what the object is to the controller. `for` (its own kind), `owns` or `watches`."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    old: int = 0
    """The resourceVersion before; 0 when there was none."""

    new: int = 0
    """The resourceVersion after; 0 when there is none."""

    @property
    def text(self) -> str:
        """What it was, in a few words."""
        match self.why:
            case "event":
                return f"{self.kind} {self.change.lower()}"
            case "found":
                return f"{self.kind} found"
            case "freed":
                return f"{self.kind} {self.name}, for whose name it waits, {self.change.lower()}"
            case "probe":
                return f"to try {self.name}"
            case "person":
                return f"asked for by {self.name}"
            case "answered":
                return f"{self.name} has answered"
        return _WORDS.get(self.why, self.why)


class Sent(msgspec.Struct, array_like=True, gc=False):
    """A request to the API server, one that was spared, or a call of something else."""

    verb: str
    """A method in small letters, or `apply`; with `, dry run` if it was one. `call` of something else."""

    path: str
    """Of a call, `service/method`."""

    at: float
    """When it began, on the loop's clock."""

    name: str = ""
    """Of what is created, which the path does not name."""

    code: int = NO_ANSWER
    """The status of the last answer, `NO_ANSWER`, `SPARED`, or `CALLED`."""

    attempts: int = 0
    seconds: float = 0.0
    """What the attempts took, without the waits between them."""

    error: str = ""
    """Of a call that failed: a word for it."""

    def answered(self, code: int, seconds: float) -> None:
        """Another attempt is over."""
        self.code = code
        self.attempts += 1
        self.seconds += seconds


def resource_and_name(path: str) -> tuple[str, str]:
    """What a request's path is of: the resource and its subresource; and the object's name, if it has one."""
    parts = path.strip("/").split("/")
    rest = parts[2 if parts[0] == "api" else 3 :]
    if rest[:1] == ["namespaces"] and len(rest) > 2:  # noqa: PLR2004 - and the name of one
        rest = rest[2:]
    return "/".join(rest[:1] + rest[2:]), "".join(rest[1:2])


class Told(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An Event that was recorded."""

    type: str
    reason: str
    message: str
    at: float
    """When, on the loop's clock."""


class Run(msgspec.Struct, array_like=True, gc=False):
    """One reconcile. Times are on the loop's clock."""

    controller: str
    namespace: str
    name: str
    id: int
    started: float
    waited: float
    """Seconds for which it could have been run, and was not."""

    attempt: int
    """How many back-offs there were before it."""

    priority: int
    triggers: tuple[Trigger, ...]
    """What asked for it since it was enqueued: the first of them."""

    triggered: int
    """How many there were in all."""

    outcome: str = ""
    """`success`, `requeue`, `requeue_after`, `error` or `cancelled`; empty while it runs."""

    seconds: float = 0.0
    requests: list[Sent] = []
    requested: int = 0
    """How many requests to the API server there were in all, without those that were spared."""

    writes: int = 0
    spared: int = 0
    called: int = 0
    """How many calls there were of what is outside of the cluster."""

    events: list[Told] = []
    recorded: int = 0
    """How many Events there were in all."""

    error: str = ""
    error_type: str = ""
    failure: str = ""
    """What kind of failure: `terminal`, `race`, `fault`, `unexpected` or `panic`."""

    timed_out: bool = False
    next_in: float | None = None
    """Seconds from its end to the next, if it is tried again without a change."""

    skipped: bool = False
    """Whether another run was spared, because only what this one wrote had asked for it."""

    gone: bool = False
    """Whether the object was gone."""

    awaits: str = ""
    """What has to happen before the object goes on, as its operator says it."""

    @property
    def key(self) -> ObjectKey:
        """The object."""
        return ObjectKey(self.namespace, self.name)

    @property
    def why(self) -> str:
        """What asked for it, in a few words."""
        texts = list(dict.fromkeys(trigger.text for trigger in self.triggers))
        return ", ".join(texts[:3]) + (", ..." if len(texts) > 3 else "")  # noqa: PLR2004 - more is no summary

    def shows_gone(self, kind: str) -> bool:
        """Whether the last that was heard of the object itself is that it was deleted."""
        last = ""
        for trigger in self.triggers:
            if trigger.source == "for" and trigger.kind == kind:
                last = trigger.change
        return last == "DELETED"

    def sends(self, verb: str, path: str, name: str) -> Sent:
        """A request begins; what is returned is to be told what becomes of it."""
        sent = Sent(verb, path, _now(), name)
        self.requested += 1
        self.writes += verb != "get"
        if len(self.requests) < MOST_REQUESTS:
            self.requests.append(sent)
        return sent

    def spares(self, verb: str, kind: type[Resource], key: ObjectKey, subresource: str = "") -> None:
        """A request is not needed."""
        self.spared += 1
        if len(self.requests) < MOST_REQUESTS:
            within = f"/namespaces/{key.namespace}" if key.namespace else ""
            path = f"{_group_path(kind.gvk)}{within}/{kind.plural}/{key.name}"
            path = f"{path}/{subresource}" if subresource else path
            self.requests.append(Sent(verb, path, _now(), code=SPARED))

    def records(self, type: str, reason: str, message: str) -> None:  # noqa: A002 - the field's name
        """An Event is recorded."""
        self.recorded += 1
        if self.recorded <= MOST_EVENTS:
            self.events.append(Told(type, reason, message[:LONGEST_TEXT], _now()))


@cache
def _group_path(gvk: GroupVersionKind) -> str:
    return f"/apis/{gvk.group}/{gvk.version}" if gvk.group else f"/api/{gvk.version}"


_current: ContextVar[Run | None] = ContextVar("current_run", default=None)


def current_run() -> Run | None:
    """The reconcile that the calling task belongs to; None outside of one, and after its end."""
    run = _current.get()
    return None if run is None or run.outcome else run


def called(what: str, seconds: float, error: str = "") -> None:
    """Note in the record of the reconcile, if this is one, a call of something outside of the cluster.

    It has ended, and took so long. `what` is `service/method`, without anything that is different for each
    object; `error` a word for how it failed, or nothing.
    """
    if (run := current_run()) is not None:
        run.called += 1
        if len(run.requests) < MOST_REQUESTS:
            at = _now() - seconds
            run.requests.append(
                Sent("call", what, at, code=CALLED, attempts=1, seconds=seconds, error=error[:LONGEST_TEXT])
            )


def _now() -> float:
    return asyncio.get_running_loop().time()


def enter_run(run: Run) -> Token[Run | None]:
    """Have the calling task, and the tasks that it starts, belong to this reconcile."""
    return _current.set(run)


def leave_run(token: Token[Run | None]) -> None:
    """Undo the `enter_run` that returned `token`."""
    _current.reset(token)


BUDGET = 8 * 1024 * 1024
"""Bytes of memory for the runs of a process."""

KEPT_OF_AN_OBJECT = 20
"""Runs of each object that are kept, if there is room."""

GONE_KEPT = 3600.0
"""Seconds for which the runs of an object are kept after it was found gone."""

_SLACK = 64
"""So many dead entries are not worth a rebuild."""

_OF_A_RUN, _OF_AN_OBJECT, _OF_A_GONE_OBJECT = 50, 330, 190
"""Bytes that a run and an object take besides the encoded runs and the name, and one that is gone besides
that; as measured."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Run).decode


class _Ring(msgspec.Struct, gc=False, eq=False):
    """The runs of one object."""

    key: ObjectKey
    runs: tuple[bytes, ...] = ()
    dead: int = 0
    """How many of its entries in the order stand for a run that is gone; they are the first ones."""


_NOTHING = ObjectKey("", "")


def _size_of(key: ObjectKey) -> int:
    return _OF_AN_OBJECT + len(key.namespace) + len(key.name)


class Shelf:
    """The runs of one controller: those of each object, and all in the order of their ends."""

    def __init__(self, controller: str, history: History) -> None:
        self.controller = controller
        self._history = history
        self._rings: dict[ObjectKey, _Ring] = {}
        self._order: deque[_Ring] = deque()
        self._gone: OrderedDict[ObjectKey, float] = OrderedDict()
        self._living = 0
        self.bytes = 0
        """What they take in memory."""

    def __len__(self) -> int:
        return self._living

    def add(self, run: Run) -> None:
        """Keep a run that has ended; older ones go where there is no room."""
        encoded = _encode(run)
        key = ObjectKey(run.namespace, run.name)
        ring = self._rings.get(key)
        size = len(encoded) + _OF_A_RUN
        if ring is None:
            ring = self._rings[key] = _Ring(key)
            size += _size_of(key)
        if len(ring.runs) >= KEPT_OF_AN_OBJECT:
            self._drop_first(ring)
            ring.dead += 1
        ring.runs += (encoded,)
        self._order.append(ring)
        self._living += 1
        self._grow(size)
        now = run.started + run.seconds
        if not run.gone:
            self._is_not_gone(key)
        elif key not in self._gone:
            self._gone[key] = now
            self._grow(_OF_A_GONE_OBJECT)
        if self._gone:
            self._forget_gone(now)
        self._drop_dead()
        self._history.make_room()
        for listener in tuple(self._history.listeners):
            listener(run)

    def of(self, key: ObjectKey) -> list[Run]:
        """The runs of an object, the oldest first."""
        ring = self._rings.get(key)
        return [] if ring is None else [_decode(each) for each in ring.runs]

    def last(self, key: ObjectKey) -> Run | None:
        """The last run of an object."""
        ring = self._rings.get(key)
        return None if ring is None else _decode(ring.runs[-1])

    def latest(self) -> Iterator[Run]:
        """All runs, the latest first. Not to be used on after any more have ended."""
        seen: dict[int, int] = {}
        for ring in reversed(self._order):
            number = seen.get(id(ring), 0) + 1
            if number <= len(ring.runs):
                seen[id(ring)] = number
                yield _decode(ring.runs[-number])

    def drop_oldest(self) -> None:
        """Let the oldest run go."""
        while True:
            ring = self._order.popleft()
            if not ring.dead:
                break
            ring.dead -= 1
        self._drop_first(ring)
        if not ring.runs:
            self._remove(ring)

    def _drop_first(self, ring: _Ring) -> None:
        first, *_ = ring.runs
        ring.runs = ring.runs[1:]
        self._living -= 1
        self._grow(-len(first) - _OF_A_RUN)

    def _remove(self, ring: _Ring) -> None:
        del self._rings[ring.key]
        self._grow(-_size_of(ring.key))
        self._is_not_gone(ring.key)
        ring.key = _NOTHING  # the order may have it for long, and the name is long

    def _is_not_gone(self, key: ObjectKey) -> None:
        if self._gone.pop(key, None) is not None:
            self._grow(-_OF_A_GONE_OBJECT)

    def _forget_gone(self, now: float) -> None:
        while self._gone:
            key, since = next(iter(self._gone.items()))
            if since > now - GONE_KEPT:
                return
            ring = self._rings[key]
            ring.dead += len(ring.runs)
            while ring.runs:
                self._drop_first(ring)
            self._remove(ring)

    def _drop_dead(self) -> None:
        if len(self._order) <= 2 * self._living + _SLACK:
            return
        living: deque[_Ring] = deque()
        for ring in self._order:
            if ring.dead:
                ring.dead -= 1
            else:
                living.append(ring)
        self._order = living

    def _grow(self, size: int) -> None:
        self.bytes += size
        self._history.bytes += size


class History:
    """The last runs of all controllers of a process, within so many bytes.

    When they are used up, the oldest run goes of the controller that has most: who does much does not wash
    away what others did.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._shelves: dict[str, Shelf] = {}
        self.listeners: list[Callable[[Run], None]] = []
        """Each is called with every run that has ended. They are quick, and do not raise."""
        self.bytes = 0
        """What they take in memory."""

    def of(self, controller: str) -> Shelf:
        """The runs of a controller."""
        shelf = self._shelves.get(controller)
        if shelf is None:
            shelf = self._shelves[controller] = Shelf(controller, self)
        return shelf

    def make_room(self) -> None:
        """Let the oldest go, as far as needed."""
        while self.bytes > self._budget:
            max(self._shelves.values(), key=_bytes_of).drop_oldest()


def _bytes_of(shelf: Shelf) -> int:
    return shelf.bytes
