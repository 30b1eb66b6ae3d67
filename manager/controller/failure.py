"""What kind of failure an exception is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Self

from manager.api import GroupVersionKind, ObjectKey
from manager.client import ApplyConflict, Undecodable
from manager.controller.reconciler import TerminalError
from manager.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Fenced,
    Forbidden,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)

__all__ = ["Cause", "Failure", "explain"]

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


# What no object is at fault for, and no change of an object mends.
_AWAITED: dict[type[Exception], str] = {
    TransportError: "the API server",
    ServerError: "the API server",
    TooManyRequests: "the API server",
    Unauthorized: "the API server",
    Forbidden: "a permission",
}

_particulars = re.compile(r""" "[^"]*" | '[^']*' | [\w.-]*[0-9][\w.-]* """, re.VERBOSE)


class Failure(IntEnum):
    """Kinds of failed reconciles. A group of exceptions is of the highest kind among them."""

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
        """Classify what a reconciler raised when it was called with `key`, the key of a `primary`."""
        if isinstance(error, BaseExceptionGroup):
            return max(cls.of(each, primary=primary, key=key) for each in error.exceptions)
        if isinstance(error, TerminalError):
            return cls.TERMINAL
        # Nobody calls again because some other object was mended: that takes another attempt.
        if isinstance(error, Undecodable) and (error.gvk, error.key) == (primary, key):
            return cls.TERMINAL
        if isinstance(error, _RACES) and not isinstance(error, ApplyConflict):
            return cls.RACE
        if isinstance(error, (KubeError, OSError)):
            return cls.FAULT
        return cls.PANIC if isinstance(error, _PANICS) else cls.UNEXPECTED

    @property
    def has_traceback(self) -> bool:
        """Whether the place it was raised at belongs in the log."""
        return self >= Failure.UNEXPECTED


@dataclass(frozen=True, slots=True)
class Cause:
    """What is the same when several objects fail for one reason."""

    error: str
    """The type of the error."""

    detail: str
    """What tells it from others of the type: what the server said, without names and whatever has digits,
    or where in the program it was raised."""

    awaited: str | None
    """What has to answer again, or answer differently, if that is all that is wrong."""

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """The cause of what a reconciler raised; of a group, that of its worst."""
        leaves = list(_leaves(error))
        worst = max(leaves, key=Failure.of)
        awaited = {_awaited(leaf) for leaf in leaves}
        return cls(type(worst).__name__, _detail(worst), awaited.pop() if len(awaited) == 1 else None)

    def broader(self) -> Self:
        """The same for all errors of the type."""
        return replace(self, detail="")


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _awaited(error: BaseException) -> str | None:
    return next((name for kind, name in _AWAITED.items() if isinstance(error, kind)), None)


def _detail(error: BaseException) -> str:
    if isinstance(error, ApiError):
        return f"{error.status} {error.reason} {_particulars.sub('…', error.message[:300])}"
    if isinstance(error, OSError):
        return str(error.errno)
    place = error.__traceback__
    if not Failure.of(error).has_traceback or place is None:
        return ""
    while place.tb_next is not None:
        place = place.tb_next
    return f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}"


def explain(error: BaseException) -> str:
    """The error in a line: its message, or its type when it has none; of a group, each of its errors."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(explain, error.exceptions))
    return str(error) or type(error).__name__
