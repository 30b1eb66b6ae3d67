"""The classification of failures, and shared reporting and retries for objects that fail for one cause."""

from __future__ import annotations

import asyncio
import random
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import islice
from typing import Self

from manager.api import GroupVersionKind, ObjectKey
from manager.api.rights import Undeclared
from manager.client import ApplyConflict, Undecodable
from manager.controller.queue import WorkQueue
from manager.controller.reconciler import Priority, Request, TerminalError
from manager.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Fenced,
    Forbidden,
    KubeError,
    NoMatch,
    NotFound,
    ServerError,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from manager.telemetry.runs import Trigger
from manager.util.author_code import line_in
from manager.util.backoff import Backoff
from manager.util.rate_limit import Repeats, TokenBucket

# A write meets what happened since the cache last heard: changed, created, deleted, or no longer our turn.
_RACES = (AlreadyExists, Conflict, Fenced, NotFound)

# Found out about by running, not by asking the world: a retry meets them again, a release mends them.
_PANICS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
    SystemError,
    TypeError,
)


_SERVER, _SERVER_HERE = "the API server", "the API server for this namespace"
_PERMISSION, _DEFINITION = "a permission", "a definition"

_OF_A_NAMESPACE = {_SERVER_HERE, _PERMISSION}
"""Each namespace waits for its own. A quota, or a role, may be of one of them. A 500 may be of some objects,
which a webhook or the store cannot take: whoever may write those makes none of the others wait."""

_FURTHER = (_SERVER, _SERVER_HERE, _PERMISSION, _DEFINITION, None)
"""From no answer to one that is the object's own: a write that gets further has had an answer."""

# Failures that objects do not cause and that changes to objects rarely fix. The first matching type counts.
_AWAITED: dict[type[Exception], str] = {
    TransportError: _SERVER,
    ServiceUnavailable: _SERVER,
    ServerTimeout: _SERVER,
    ServerError: _SERVER_HERE,
    TooManyRequests: _SERVER,
    Unauthorized: _SERVER,
    Forbidden: _PERMISSION,
    NoMatch: _DEFINITION,
}

_TRANSIENT = (*_RACES, ServerError, TooManyRequests, TransportError, Unauthorized)
"""Errors that a later attempt may well not meet, although nobody has changed anything for it."""

_refuses_one = re.compile(r"denied (the )?request|violates PodSecurity| usage per |failed quota").search
"""Whether admission refuses an object for what it has in it: an answer, whatever its status code is."""

_calls_webhook = re.compile(r"failed calling webhook|conversion webhook for ").search
"""Whether the API server could not call a webhook: that is over when somebody mends it."""

_particulars = re.compile(r""" "[^"]*" | '[^']*' | (?:[^\W0-9]|[.-])*[0-9][\w.-]* """, re.VERBOSE)


class Failure(IntEnum):
    """The kinds of failed reconciles. A group of exceptions is of the highest kind among them."""

    TERMINAL = 0
    """No retry can mend it: the reconciler says so, or its own object is not of its model's shape."""

    RACE = 1
    """Somebody else was quicker; the next attempt sees what they did. Nothing is wrong."""

    FAULT = 2
    """The API server, the network or a time-out: what is to be said is in the message."""

    UNEXPECTED = 3
    """An exception nobody planned for; where it came from matters."""

    PANIC = 4
    """An exception that only a fault in the program raises."""

    @classmethod
    def of(
        cls, error: BaseException, *, primary: GroupVersionKind | None = None, key: ObjectKey | None = None
    ) -> Failure:
        """Classify a reconciler's exception for `key`, the key of a `primary`."""
        if isinstance(error, BaseExceptionGroup):
            return max(cls.of(each, primary=primary, key=key) for each in error.exceptions)
        if isinstance(error, TerminalError):
            return cls.TERMINAL
        # The repair of another object does not requeue this one, so only a further attempt helps.
        if isinstance(error, Undecodable) and (error.gvk, error.key) == (primary, key):
            return cls.TERMINAL
        if isinstance(error, _RACES) and not isinstance(error, ApplyConflict):
            return cls.RACE
        if isinstance(error, (KubeError, OSError)):
            return cls.FAULT
        return cls.PANIC if isinstance(error, _PANICS) else cls.UNEXPECTED

    @property
    def has_traceback(self) -> bool:
        """Return whether the log needs the traceback."""
        return self >= Failure.UNEXPECTED


@dataclass(frozen=True, slots=True)
class Cause:
    """The common cause of several objects' failures."""

    error: str
    """The type of the error."""

    detail: str
    """What tells it from others of the type: what the server said, without names and whatever has digits,
    or where in the program it was raised."""

    awaited: str | None
    """What has to answer again, or answer differently, if that is all that is wrong."""

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Return the cause of a reconciler's exception; of a group, the cause of its worst member."""
        leaves = list(_leaves(error))
        worst = max(leaves, key=Failure.of)
        awaited = {_awaited(leaf) for leaf in leaves}
        first = None if None in awaited else min(awaited, key=_FURTHER.index)
        return cls(type(worst).__name__, _detail(worst), first)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def is_transient(error: BaseException) -> bool:
    """Return whether the error is a lost race, or an API server that is away or busy for the moment."""
    return all(
        isinstance(leaf, _TRANSIENT)
        and not isinstance(leaf, ApplyConflict)
        and not (isinstance(leaf, ApiError) and (_refuses_one(leaf.message) or _calls_webhook(leaf.message)))
        for leaf in _leaves(error)
    )


def describe(error: BaseException, reasons: Mapping[type[Exception], str]) -> tuple[str, str]:
    """Return reason and message of an error for the object's readers; `reasons` are the author's.

    The text of an unexpected exception may quote a secret, so the message has only its type.
    """
    _note_lines(error)
    leaves = list(_leaves(error))
    worst = max(leaves, key=Failure.of)
    reason = next((each for kind, each in reasons.items() if isinstance(worst, kind)), None)
    told: tuple[type[BaseException], ...] = (KubeError, OSError, TerminalError, Undeclared, *reasons)
    texts = (
        explain(each)
        if isinstance(each, told)
        else f"{type(each).__name__}; the log of the manager says more"
        for each in leaves
    )
    return reason or _camel_case(worst), "; ".join(dict.fromkeys(texts))


def _camel_case(error: BaseException) -> str:
    """Return the name of the error's type as conditions and Events take it for a reason."""
    if isinstance(error, TimeoutError):
        return "Timeout"
    return re.sub(r"[^A-Za-z0-9]|^[0-9_]+", "", type(error).__name__)[:128] or "Failed"


def _awaited(error: BaseException) -> str | None:
    if isinstance(error, ApiError) and _refuses_one(error.message):
        return None
    return next((name for kind, name in _AWAITED.items() if isinstance(error, kind)), None)


def _detail(error: BaseException) -> str:
    if isinstance(error, ApiError):
        return f"{error.status} {error.reason} {_particulars.sub('…', error.message[:300])}"
    if isinstance(error, OSError):
        return str(error.errno)
    if isinstance(error, NoMatch):
        return str(error)  # names the kind
    place = error.__traceback__
    if not Failure.of(error).has_traceback or place is None:
        return ""
    while place.tb_next is not None:
        place = place.tb_next
    return f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}"


def explain(error: BaseException) -> str:
    """Describe the error in a line: its message, else its type; of a group, each of its errors."""
    _note_lines(error)
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(explain, error.exceptions))
    return _text_of(error) or type(error).__name__


def _text_of(error: BaseException) -> str:
    """Return the message, as UTF-8 can carry it; empty if the error cannot say any.

    A file name that is no UTF-8 has lone surrogates in Python, which JSON does not take.
    """
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an author's `__str__` may raise anything
        return ""
    return text.encode(errors="backslashreplace").decode()


def _note_lines(error: BaseException, around: str = "") -> None:
    """Note where in the author's code a request came from that another task has sent."""
    if isinstance(error, BaseExceptionGroup):
        found = line_in(error.__traceback__) or around
        for each in error.exceptions:
            _note_lines(each, found)
    elif isinstance(error, Forbidden) and not error.asked_at and error.missing_right is not None:
        error.asked_at = line_in(error.__traceback__) or around


_MOST, _MORE = 64, 60.0
"""So many causes are told apart, and one more after each so many seconds, as some messages never come twice.
Of other causes, only the type of the error counts."""

_PROBE_AFTER = (1.0, 15.0)
"""Seconds between two attempts at something that does not answer, at first and at last."""

_RELEASED, _SPREAD = 2, 0.2
"""How many of those that wait may try for each one that has had an answer, spread over so many seconds."""


@dataclass(slots=True, eq=False)
class FailureGroup:
    """A cause, and the objects whose last reconcile failed for it."""

    cause: Cause
    since: float
    """Since when, on the loop's clock."""
    failures: int = 0
    """How many reconciles have failed for it."""
    keys: set[Request] = field(default_factory=set)
    repeats: Repeats = field(default_factory=Repeats)


@dataclass(slots=True)
class _Awaited:
    """A dependency that does not answer, and the objects that wait for it, least recently tried first."""

    pause: Backoff
    keys: OrderedDict[Request, None] = field(default_factory=OrderedDict)
    probe: Request | None = None
    """Who tries next, soon, whatever its own back-off is; always one of the keys, if there are any."""


class FailingObjects:
    """The failing objects of a controller, by the cause of their failure.

    If objects wait for a dependency to answer again (`Cause.awaited`), their back-off does not predict when
    it will. So one of the waiting objects tries every few seconds. When it gets an answer, two others may
    try, then two more for each of these, and so on. All objects retry soon, at the pace of the answers, and
    none does if the answer was a single one.

    Memory is at most one entry for each failing object.
    """

    def __init__(self, queue: WorkQueue[Request], *, rng: random.Random) -> None:
        self._queue = queue
        self._rng = rng
        self._of: dict[Request, FailureGroup] = {}
        self._groups: dict[Cause, FailureGroup] = {}
        self._awaited: dict[tuple[str, str], _Awaited] = {}
        """By what is waited for, and where."""
        self._new = TokenBucket(rate=1 / _MORE, burst=_MOST)

    def __len__(self) -> int:
        """How many objects fail."""
        return len(self._of)

    def failed(self, key: Request, cause: Cause) -> tuple[FailureGroup, bool]:
        """Record that the reconcile of `key` failed for `cause`; the queue already has its next attempt.

        Returns the group, and whether the object has newly joined it.
        """
        group, before = self._find(cause), self._of.get(key)
        if before is not None and before.cause.awaited != cause.awaited:
            self._leave(key, before, cause.awaited)
        if before is not group:
            if before is not None:
                before.keys.discard(key)
            self._of[key] = group
            group.keys.add(key)
        group.failures += 1
        if cause.awaited is not None:
            self._wait(key, cause.awaited)
        return group, before is not group

    def ended(self, key: Request) -> FailureGroup | None:
        """Record that the reconcile of `key` did not fail; return the group that this ends, if any."""
        group = self._of.pop(key, None)
        if group is None:
            return None
        group.keys.discard(key)
        self._leave(key, group, None)
        return None if group.keys else group

    def forget_ended(self) -> None:
        """Let the next failure of a cause that nothing fails for be the first."""
        self._groups = {cause: group for cause, group in self._groups.items() if group.keys}

    def _find(self, cause: Cause) -> FailureGroup:
        group = self._groups.get(cause)
        if group is None:
            if len(self._groups) >= _MOST:
                self.forget_ended()
            if len(self._groups) >= _MOST or not self._new.try_acquire():
                cause = replace(cause, detail="")
            now = asyncio.get_running_loop().time()
            group = self._groups.setdefault(cause, FailureGroup(cause, now))
        return group

    def _wait(self, key: Request, name: str) -> None:
        if (awaited := self._awaited.get(place := _place(name, key))) is None:
            first, last = _PROBE_AFTER
            pause = Backoff(base=first, cap=last, jitter=0.5, rng=self._rng)
            awaited = self._awaited[place] = _Awaited(pause)
        awaited.keys[key] = None
        awaited.keys.move_to_end(key)
        if awaited.probe is None or awaited.probe == key:
            self._probe(awaited, name)

    def _probe(self, awaited: _Awaited, name: str) -> None:
        awaited.probe = next(iter(awaited.keys))
        self._try(awaited.probe, "probe", name, after=awaited.pause.next())

    def _try(self, key: Request, why: str, name: str, *, after: float) -> None:
        trigger = Trigger(why, asyncio.get_running_loop().time(), name=name)
        self._queue.add(key, priority=Priority.LOW, after=after, trigger=trigger)

    def _leave(self, key: Request, group: FailureGroup, then: str | None) -> None:
        """End the wait of `key` for one dependency, and begin its wait for `then`, if any."""
        name = group.cause.awaited
        if name is None:
            return
        awaited = self._awaited[place := _place(name, key)]
        del awaited.keys[key]
        if not awaited.keys:
            del self._awaited[place]
        elif _FURTHER.index(then) > _FURTHER.index(name):
            self._release(awaited, name)
        elif awaited.probe == key:
            self._probe(awaited, name)

    def _release(self, awaited: _Awaited, name: str) -> None:
        awaited.pause.reset()
        awaited.probe = next(iter(awaited.keys))
        for key in tuple(islice(awaited.keys, _RELEASED)):
            awaited.keys.move_to_end(key)
            self._try(key, "answered", name, after=self._rng.uniform(0, _SPREAD))


def _place(name: str, key: Request) -> tuple[str, str]:
    return name, key.namespace if name in _OF_A_NAMESPACE else ""
