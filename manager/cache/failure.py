"""The table that says how a reflector continues after each failure.

A watch that ends in good order counts as the mildest failure.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from manager.kube.errors import (
    BadRequest,
    ConnectionLost,
    DeadlineExceeded,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NoMatch,
    NotFound,
    ProtocolError,
    ServerError,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)

EXPIRED = "expired"
NO_STREAMING = "no-streaming"


class State(enum.Enum):
    """The step that a reflector is in."""

    RESOLVE = "resolve"
    """Ask discovery under which path the kind is served."""
    STREAM = "stream"
    """Get the present content as a stream that turns into a watch; on to LIST where that is not offered."""
    LIST = "list"
    """Get the present content in pages."""
    LIST_WHOLE = "list-whole"
    """Get the present content in one answer, because the server does not keep it long enough for pages."""
    WATCH = "watch"
    """Follow the changes."""
    CHECK = "check"
    """Ask whether the server still has the history that was watched. After its storage was restored from a
    backup, a watch brings nothing until versions are as high as before, and never what came until then."""
    WAIT = "wait"
    """Pause before the next attempt."""


class Pause(enum.Enum):
    """The kind of pause before the next step."""

    NO = "no"
    IF_FRUITLESS = "if-fruitless"
    """Only after a watch that brought nothing and was over soon: else a server that closes every watch at
    once would be asked without end."""
    YES = "yes"


class WatchClosed(KubeError):
    """End of a stream in good order, before the requested time was over."""


class WatchTimedOut(WatchClosed):
    """End of a stream after the requested time."""


class NotStreaming(KubeError):
    """Stream without a mark between the present content and the changes."""


class HistoryRestored(KubeError):
    """Server of an older version than before: its storage was restored, or it is another server."""


class HistoryDoubted(KubeError):
    """A mismatch of the server's objects with the watch, for which there may be a harmless reason."""


class OlderList(KubeError):
    """List of an older version than one that was seen before."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: on these failures, in these states (None: in all), go on in `next` (None: in the same state).

    `reason` is the failure's name in metrics and logs.
    """

    failures: tuple[type[KubeError], ...]
    states: tuple[State, ...] | None
    next: State | None
    reason: str
    pause: Pause


# The first rule that fits counts. A watch goes on from where it was, if that makes sense; after garbage the
# same would come again. A watch that ended before its time is checked first, because the server may have been
# restarted with older storage. A check that fails leads to a list. The last rules mean that a stream which
# fails for a reason not foreseen is tried as pages next, and pages as a stream, so that a server (or a proxy)
# that can do only one is served too.
RULES = (
    Rule((NoMatch, NotFound), None, State.RESOLVE, "not-served", Pause.YES),
    Rule((Unauthorized, Forbidden), None, None, "forbidden", Pause.YES),
    Rule((TooManyRequests, ServiceUnavailable), (State.WATCH,), State.CHECK, "throttled", Pause.YES),
    Rule((TooManyRequests, ServiceUnavailable), None, None, "throttled", Pause.YES),
    Rule((Unreachable, ConnectionLost), (State.WATCH,), State.CHECK, "lost", Pause.YES),
    Rule((Unreachable, ConnectionLost), None, None, "lost", Pause.YES),
    Rule((BadRequest, Invalid, NotStreaming), (State.STREAM,), State.LIST, NO_STREAMING, Pause.NO),
    Rule((Gone,), (State.LIST,), State.LIST_WHOLE, EXPIRED, Pause.NO),
    Rule((Gone,), None, State.STREAM, EXPIRED, Pause.IF_FRUITLESS),
    Rule((HistoryRestored,), None, State.STREAM, "restored", Pause.YES),
    Rule((HistoryDoubted,), None, State.STREAM, "doubted", Pause.YES),
    Rule((OlderList,), None, State.STREAM, "stale", Pause.YES),
    Rule((WatchClosed,), (State.STREAM,), State.LIST, "closed", Pause.IF_FRUITLESS),
    Rule((WatchTimedOut,), None, State.WATCH, "closed", Pause.IF_FRUITLESS),
    Rule((WatchClosed,), None, State.CHECK, "closed", Pause.IF_FRUITLESS),
    Rule((DeadlineExceeded,), (State.WATCH,), State.CHECK, "silent", Pause.IF_FRUITLESS),
    Rule((ProtocolError,), (State.RESOLVE,), None, "garbage", Pause.YES),
    Rule((ProtocolError,), (State.LIST, State.LIST_WHOLE, State.WATCH), State.STREAM, "garbage", Pause.YES),
    Rule((ServerError,), (State.WATCH,), State.CHECK, "server-error", Pause.YES),
    Rule((KubeError,), (State.RESOLVE,), State.RESOLVE, "other", Pause.YES),
    Rule((KubeError,), (State.STREAM,), State.LIST, "other", Pause.YES),
    Rule((KubeError,), None, State.STREAM, "other", Pause.YES),
)


def rule_for(state: State, failure: KubeError) -> Rule:
    """Return the first rule that fits."""
    for rule in RULES:
        if isinstance(failure, rule.failures) and (rule.states is None or state in rule.states):
            return rule
    raise AssertionError("the last rule fits every failure")
