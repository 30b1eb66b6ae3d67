"""Where a logger comes from: by name, or from the reconcile that is running."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, cast

from manager.logs.lean import structlog

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def get_logger(name: str, **fields: Any) -> FilteringBoundLogger:
    """A logger whose lines carry `logger=name` and `fields`.

    May be called at import, before logging is set up: the settings are read when it is used.
    A hot path calls `.bind()` once and keeps the result, which saves that look-up per line.
    """
    return cast("FilteringBoundLogger", structlog.get_logger(logger_name=name, **fields))


_outside = get_logger("reconcile")
_current: ContextVar[FilteringBoundLogger] = ContextVar("reconcile_log", default=_outside)


def reconcile_log() -> FilteringBoundLogger:
    """The logger of the reconcile that the calling task is running.

    Its lines carry controller, namespace, name and reconcile_id. Outside a reconcile it is a
    plain logger.
    """
    return _current.get()


def set_reconcile_log(log: FilteringBoundLogger) -> Token[FilteringBoundLogger]:
    """Make `log` what `reconcile_log()` answers in this task until the token is given back."""
    return _current.set(log)


def reset_reconcile_log(token: Token[FilteringBoundLogger]) -> None:
    """Undo the `set_reconcile_log` that returned `token`, in the same task."""
    _current.reset(token)
