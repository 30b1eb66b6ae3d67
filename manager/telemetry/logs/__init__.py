"""Structured logs: JSON lines in a container, readable columns on a terminal.

Every line has `ts` (RFC 3339, UTC, milliseconds), `level` (debug, info, warn, error), `logger`
and `msg`; the rest are the fields bound to the logger and given with the call. Lines go to
standard error through a thread, so a reader that stalls never stalls the event loop; 8 MiB wait
for it, and what is dropped beyond that is counted. A value has at most 1,024 characters, because
strangers have a say in some of them, and none can make a line of its own.

    log = get_logger("cache.reflector")
    log.warning("watch closed", kind="Pod", reason="expired")

Within a reconcile, `reconcile_log()` is the logger that carries its controller, object and id.
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
