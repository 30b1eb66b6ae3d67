"""Structured logs: JSON lines in a container, readable columns on a terminal.

Every line has `ts` (RFC 3339, UTC, milliseconds), `level` (debug, info, warn, error), `logger` and `msg`; the
rest are the fields of the logger and of the call. A thread writes the lines to standard error, so a stalled
reader never blocks the event loop. Up to 8 MiB of lines wait for the reader; further lines are dropped and
counted. A value has at most 1,024 characters, because untrusted clients supply some of them, and no value can
imitate a line.

    log = get_logger("cache.reflector")
    log.warning("watch closed", kind="Pod", reason="expired")

Within a reconcile, `reconcile_log()` returns the logger that carries its controller, object and id.
"""

from __future__ import annotations

from manager.telemetry.logs.loggers import (
    get_logger,
    on_one_line,
    reconcile_log,
    reset_reconcile_log,
    set_reconcile_log,
    shortened,
)
from manager.telemetry.logs.setup import LogFormat, LogLevel, captured, configured
from manager.telemetry.logs.writer import LineWriter

__all__ = [
    "LineWriter",
    "LogFormat",
    "LogLevel",
    "captured",
    "configured",
    "get_logger",
    "on_one_line",
    "reconcile_log",
    "reset_reconcile_log",
    "set_reconcile_log",
    "shortened",
]
