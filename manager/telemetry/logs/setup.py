"""Set-up and tear-down of a process's logging, including the loggers of libraries."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import structlog

from manager.telemetry.logs.loggers import get_logger
from manager.telemetry.logs.render import ConsoleLines, render_json
from manager.telemetry.logs.writer import LineWriter

if TYPE_CHECKING:
    from structlog.typing import EventDict

_QUIET = {
    # Debug prints each selector call.
    "asyncio": logging.INFO,
    # gRPC logs its polling engine, and each request once more.
    "_cygrpc": logging.WARNING,
    "grpc": logging.WARNING,
}


class BridgeHandler(logging.Handler):
    """Handler that passes each record of the standard library to a structured logger, formatted once."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record under its own logger's name and level; never fails."""
        level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
        get_logger(record.name).log(level, _message(record), exc_info=record.exc_info)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - a library's message that does not fit its arguments is shown all the same
        return f"{record.msg!r} % {record.args!r}"


def _install(level: int) -> BridgeHandler:
    """Route the standard library's root logger, and warnings, through our lines from `level` on."""
    handler = BridgeHandler()
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    for name, quietest in _QUIET.items():
        logging.getLogger(name).setLevel(max(level, quietest))
    logging.captureWarnings(True)
    return handler


def _remove(handler: BridgeHandler) -> None:
    """Undo `_install`."""
    logging.captureWarnings(False)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.NOTSET)
    root = logging.getLogger()
    root.removeHandler(handler)
    root.setLevel(logging.WARNING)


LogLevel = Literal["debug", "info", "warn", "error"]
"""The least level whose lines are written."""

LogFormat = Literal["auto", "json", "console"]
"""How lines look; `auto` is console on a terminal and JSON elsewhere."""

CLOSE_TIMEOUT = 2.0
"""Seconds the end of the process waits for a reader that stalls."""

_LEVELS: dict[LogLevel, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}


class _Sink:
    """The end of structlog's chain: every level writes the rendered line."""

    def __init__(self, writer: LineWriter) -> None:
        write = writer.write
        self.debug = self.info = self.warning = self.error = self.critical = write


@contextmanager
def configured(
    *, level: LogLevel = "info", log_format: LogFormat = "auto", fd: int = 2
) -> Iterator[LineWriter]:
    """Configure logging within the block; at its end, flush the queued lines.

    `fd` is the output, by default standard error. Yields the writer; before a sudden end (`os._exit`), the
    caller must call its `flush`.
    """
    terminal = os.isatty(fd)
    render: Callable[[Any, str, EventDict], bytes] = render_json
    if log_format == "console" or (log_format == "auto" and terminal):
        render = ConsoleLines(colours=terminal and "NO_COLOR" not in os.environ)
    writer = LineWriter(
        fd,
        dropped_line=lambda lines, size: render(
            None,
            "warning",
            {"logger_name": "logs", "event": "log lines dropped", "lines": lines, "bytes": size},
        ),
    )
    sink = _Sink(writer)
    structlog.configure(
        processors=[render],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        # Whatever a logger is made with: a line of log must not end what it tells of.
        logger_factory=lambda *_: sink,
        # Not cached: a logger made at import would keep the settings of an earlier context.
        cache_logger_on_first_use=False,
    )
    handler = _install(_LEVELS[level])
    try:
        yield writer
    finally:
        _remove(handler)
        structlog.reset_defaults()
        writer.close(CLOSE_TIMEOUT)


@contextmanager
def captured(tell: Callable[[str, dict[str, Any]], object], *, level: LogLevel = "info") -> Iterator[None]:
    """Lines go to `tell`, as their level and fields, while the context lasts: for tests and simulations."""

    def end(_logger: Any, method: str, fields: EventDict) -> Any:
        tell(method, dict(fields))
        raise structlog.DropEvent

    structlog.configure(
        processors=[end],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=lambda *_: None,
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.reset_defaults()
