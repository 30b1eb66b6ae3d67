"""What kind of failure an exception is."""

from __future__ import annotations

from enum import IntEnum

from manager.client import Undecodable
from manager.controller.errors import TerminalError
from manager.kube.errors import AlreadyExists, Conflict, Fenced, KubeError, NotFound

__all__ = ["Failure", "explain"]

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


class Failure(IntEnum):
    """Kinds of failed reconciles. A group of exceptions is of the highest kind among them."""

    TERMINAL = 0
    """No retry can mend it: the reconciler says so, or the object is not of its model's shape."""

    RACE = 1
    """Somebody else was quicker; the next attempt sees what they did. Nothing is wrong."""

    FAULT = 2
    """The API server, the network or a time-out: what is to be said is in the message."""

    UNEXPECTED = 3
    """An exception nobody planned for; where it came from matters."""

    PANIC = 4
    """An exception that only a fault in the program raises."""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Classify what a reconciler raised."""
        if isinstance(error, BaseExceptionGroup):
            return max(map(cls.of, error.exceptions))
        if isinstance(error, (TerminalError, Undecodable)):
            return cls.TERMINAL
        if isinstance(error, _RACES):
            return cls.RACE
        if isinstance(error, (KubeError, OSError)):
            return cls.FAULT
        return cls.PANIC if isinstance(error, _PANICS) else cls.UNEXPECTED

    @property
    def has_traceback(self) -> bool:
        """Whether the place it was raised at belongs in the log."""
        return self >= Failure.UNEXPECTED


def explain(error: BaseException) -> str:
    """The error in a line: its message, or its type when it has none; of a group, each of its errors."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(explain, error.exceptions))
    return str(error) or type(error).__name__
