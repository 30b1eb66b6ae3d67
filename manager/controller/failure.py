"""The classes of failures, and common reporting and retries for objects that fail for the same cause."""

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

# The object has changed since the cache was updated, or another client was faster, or leads now.
_RACES = (AlreadyExists, Conflict, Fenced, NotFound)

# Errors in the program: a retry raises them again, and only another release helps.
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
"""These dependencies are separate for each namespace: quotas and roles may concern one namespace only, and so
may a 500 that a webhook or the store causes. So failures in one namespace do not delay other namespaces."""

_FURTHER = (_SERVER, _SERVER_HERE, _PERMISSION, _DEFINITION, None)
"""The order from no answer to an answer for the object itself: a write that gets further had an answer."""

# Causes that are no fault of an object, and that changes of objects rarely fix. The first matching type
# counts.
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
"""Errors that a later attempt may avoid although nobody has changed anything."""

_refuses_one = re.compile(r"denied (the )?request|violates PodSecurity| usage per |failed quota").search
"""Matches a refusal by admission because of the object's content: an answer, whatever its status code."""

_calls_webhook = re.compile(r"failed calling webhook|conversion webhook for ").search
"""Matches errors that the API server could not call a webhook, until someone repairs the webhook."""

_particulars = re.compile(r""" "[^"]*" | '[^']*' | (?:[^\W0-9]|[.-])*[0-9][\w.-]* """, re.VERBOSE)


class Failure(IntEnum):
    """Classes of failed reconciles in rising severity; a group of exceptions has its highest class."""

    TERMINAL = 0
    """No retry helps: the reconciler says so, or the reconciled object does not fit its model."""

    RACE = 1
    """Another client was faster; the next attempt sees its changes. This is no error."""

    FAULT = 2
    """An error of the API server, the network or the system, such as a time-out: its message suffices."""

    UNEXPECTED = 3
    """An unexpected exception; its traceback is important."""

    PANIC = 4
    """An exception that only an error in the program raises."""

    @classmethod
    def of(
        cls, error: BaseException, *, primary: GroupVersionKind | None = None, key: ObjectKey | None = None
    ) -> Failure:
        """Classify a reconciler's exception; `key` and `primary` are the reconciled object and its kind."""
        if isinstance(error, BaseExceptionGroup):
            return max(cls.of(each, primary=primary, key=key) for each in error.exceptions)
        if isinstance(error, TerminalError):
            return cls.TERMINAL
        # A repair of another object does not requeue this one, so only a retry helps.
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
    """The difference from other causes with the same type, such as the server's message without names and
    numbers, or the line in the program that raised the error."""

    awaited: str | None
    """The dependency that has to answer again, or to answer differently; None if there is another cause."""

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Return the cause of a reconciler's exception; for a group, type and detail of its worst member."""
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
    """Return whether a retry may succeed without a change, as after a conflict or an outage of the server."""
    return all(
        isinstance(leaf, _TRANSIENT)
        and not isinstance(leaf, ApplyConflict)
        and not (isinstance(leaf, ApiError) and (_refuses_one(leaf.message) or _calls_webhook(leaf.message)))
        for leaf in _leaves(error)
    )


def describe(error: BaseException, reasons: Mapping[type[Exception], str]) -> tuple[str, str]:
    """Return the reason and message to show for an error; `reasons` are the operator's, by exception type.

    The text of an unexpected exception may quote a secret, so the message has only its type.
    """
    _note_lines(error)
    leaves = list(_leaves(error))
    worst = max(leaves, key=Failure.of)
    reason = next((each for kind, each in reasons.items() if isinstance(worst, kind)), None)
    told: tuple[type[BaseException], ...] = (KubeError, OSError, TerminalError, Undeclared, *reasons)
    texts = (
        explain(each) if isinstance(each, told) else f"{type(each).__name__}; see the manager's log"
        for each in leaves
    )
    return reason or _camel_case(worst), "; ".join(dict.fromkeys(texts))


def _camel_case(error: BaseException) -> str:
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
        return str(error)  # the message names the kind
    place = error.__traceback__
    if not Failure.of(error).has_traceback or place is None:
        return ""
    while place.tb_next is not None:
        place = place.tb_next
    return f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}"


def explain(error: BaseException) -> str:
    """Describe the error: its message, or else its type; for a group, each of its errors."""
    _note_lines(error)
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(explain, error.exceptions))
    return _text_of(error) or type(error).__name__


def _text_of(error: BaseException) -> str:
    """Return the message as valid UTF-8; empty if the error cannot be converted to text.

    A file name that is not UTF-8 has lone surrogates in Python, which JSON does not allow.
    """
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an author's `__str__` may raise anything
        return ""
    return text.encode(errors="backslashreplace").decode()


def _note_lines(error: BaseException, around: str = "") -> None:
    """Set a missing `asked_at` in a Forbidden error: the line of the operator's code in the traceback."""
    if isinstance(error, BaseExceptionGroup):
        found = line_in(error.__traceback__) or around
        for each in error.exceptions:
            _note_lines(each, found)
    elif isinstance(error, Forbidden) and not error.asked_at and error.missing_right is not None:
        error.asked_at = line_in(error.__traceback__) or around


_MOST, _MORE = 64, 60.0
"""The number of distinguished causes, and the seconds after which one more is distinguished, because some
messages never repeat. Further causes are distinguished only by error type and dependency."""

_PROBE_AFTER = (1.0, 15.0)
"""The first and the longest pause, in seconds, between two attempts at a dependency that does not answer."""

_RELEASED, _SPREAD = 2, 0.2
"""The number of objects that may retry after one object has had an answer, and their spread in seconds."""


@dataclass(slots=True, eq=False)
class FailureGroup:
    """A cause, and the objects whose last reconcile failed because of it."""

    cause: Cause
    since: float
    """The loop time of the first failure."""
    failures: int = 0
    """The number of reconciles that have failed for the cause."""
    keys: set[Request] = field(default_factory=set)
    repeats: Repeats = field(default_factory=Repeats)


@dataclass(slots=True)
class _Awaited:
    """A dependency that does not answer, and the objects waiting for it, least recently tried first."""

    pause: Backoff
    keys: OrderedDict[Request, None] = field(default_factory=OrderedDict)
    probe: Request | None = None
    """The object that tries next, whatever its own back-off is; None only if no object waits."""


class FailingObjects:
    """The failing objects of a controller, by the cause of their failure.

    The back-off of objects that wait for a dependency (`Cause.awaited`) cannot predict when it answers again.
    So one of these objects is tried every few seconds. When this object gets an answer, two more are tried,
    then two more for each answer to these, and so on. The others wait for the end of their back-off.

    Memory is at most one entry for each failing object.
    """

    def __init__(self, queue: WorkQueue[Request], *, rng: random.Random) -> None:
        self._queue = queue
        self._rng = rng
        self._of: dict[Request, FailureGroup] = {}
        self._groups: dict[Cause, FailureGroup] = {}
        self._awaited: dict[tuple[str, str], _Awaited] = {}
        """The waiting objects, by dependency and place."""
        self._new = TokenBucket(rate=1 / _MORE, burst=_MOST)

    def __len__(self) -> int:
        return len(self._of)

    def failed(self, key: Request, cause: Cause) -> tuple[FailureGroup, bool]:
        """Record that the reconcile of `key` failed for `cause`; any retry is already in the queue.

        Returns the group, and whether the object has just joined it.
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
        """Record that `key` did not fail; return its former group if the group is now empty, else None."""
        group = self._of.pop(key, None)
        if group is None:
            return None
        group.keys.discard(key)
        self._leave(key, group, None)
        return None if group.keys else group

    def forget_ended(self) -> None:
        """Forget causes without failing objects, so that their next failure counts as the first one."""
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
        """End the wait of `key` for a dependency; it then waits for `then` (None: for nothing)."""
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
