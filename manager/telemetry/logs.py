"""Structured logs: JSON lines in a container, readable columns on a terminal.

Every line has `ts` (RFC 3339, UTC, milliseconds), `level` (debug, info, warn, error), `logger` and `msg`;
other fields belong to the logger and the call. If one of these has such a name, the line has it with a `_`,
such as `ts_`. A thread writes the lines to standard error, so a stalled reader never blocks the event loop.
Up to 8 MiB of lines wait for the reader; further lines are dropped and counted. A value has at most 1,024
characters, because untrusted clients supply some values, and no value can imitate a line.

    log = get_logger("cache.reflector")
    log.warning("watch closed", kind="Pod", reason="expired")

Inside a reconcile, `reconcile_log()` returns the logger with its controller, object and id.
"""

from __future__ import annotations

import json
import logging
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from queue import SimpleQueue
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, cast

import orjson

from manager.util import clock
from manager.util.author_code import format_exception
from manager.util.memory import imports_blocked

if TYPE_CHECKING:
    from structlog.typing import EventDict, FilteringBoundLogger

with imports_blocked("rich", "better_exceptions", "greenlet"):
    import structlog  # without these: 70 modules, four megabytes, for an unused renderer

LONGEST = 1024
"""Characters of one value."""


def shortened(text: str, longest: int = LONGEST) -> str:
    """Return the text, or the beginning of a longer one with the number of missing characters."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest} more characters)"


def on_one_line(text: str) -> str:
    """Return the text, escaped like `repr` if it has characters that control a terminal."""
    return text if text.isprintable() else repr(text)[1:-1]


def get_logger(name: str, **fields: Any) -> FilteringBoundLogger:
    """Return a logger with `logger=name` and `fields` in its lines; it may be called at import.

    Frequently executed code calls `.bind()` once and keeps the result, which saves a look-up of the settings
    per line.
    """
    return cast("FilteringBoundLogger", structlog.get_logger(logger_name=name, **fields))


_outside = get_logger("reconcile")
_current: ContextVar[FilteringBoundLogger] = ContextVar("reconcile_log", default=_outside)


reconcile_log = _current.get
"""Returns the logger of the reconcile in which the calling task runs.

Its lines have controller, namespace, name and reconcile_id. Outside of a reconcile, it is a plain logger.
"""

set_reconcile_log = _current.set
"""Sets the logger that `reconcile_log()` returns in this task; the returned token undoes that."""

reset_reconcile_log = _current.reset
"""Undoes the `set_reconcile_log` that returned the token, in the same task."""


_LEVELS = {"warning": "warn", "critical": "error", "exception": "error", "notset": "debug"}
_LONG_NUMBER = 64
"""The number of bits from which on an integer is logged as text; orjson writes at most 64 bits."""

_LONGEST_PART = 4 * 1024
"""Characters of one step of a traceback, or of its message."""

_LONGEST_TRACEBACK = 32 * 1024
"""Characters of a whole traceback (some two hundred steps), and of the field `stack`, which our code sets."""

_OPTIONS = orjson.OPT_NON_STR_KEYS


def timestamp() -> str:
    """Return the time in RFC 3339, in UTC with milliseconds: `2026-11-21T08:31:02.123Z`."""
    return clock.now().isoformat(timespec="milliseconds")[:-6] + "Z"


def _line_of(method: str, event: EventDict) -> tuple[dict[Any, Any], BaseException | None]:
    exception, stack = _exception(event.pop("exc_info", None)), event.pop("stack", None)
    line: dict[Any, Any] = {
        "ts": timestamp(),
        "level": _LEVELS.get(method, method),
        "logger": event.pop("logger_name", ""),
        "msg": _bounded(event.pop("event", "")),
    }
    line |= {f"{name}_" if name in line else name: _bounded(value) for name, value in event.items()}
    if stack is not None:
        line["stack"] = shortened(_text(stack), _LONGEST_TRACEBACK)
    return line, exception


def render_json(_logger: Any, method: str, event: EventDict) -> bytes:
    """Return one line of JSON without the newline; it never fails, as `repr` replaces unsuitable values."""
    line, exception = _line_of(method, event)
    if exception is not None:
        line.setdefault("error", shortened(_text(exception) or type(exception).__name__))
        line["stacktrace"] = _traceback(exception)
    try:
        return _visible(orjson.dumps(line, default=_shown, option=_OPTIONS))
    except TypeError:
        # For example because of a lone surrogate, which is rare, so a slow way is fine.
        plain = {str(key): value if isinstance(value, str) else _shown(value) for key, value in line.items()}
        return json.dumps(plain).encode()


def _visible(line: bytes) -> bytes:
    """Escape characters in JSON that some readers take for a line end, or that control a terminal."""
    text = line.decode()
    if text.isprintable():
        return line
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text).encode()


class ConsoleLines:
    """Renderer of lines for users: time, level, message, logger, then `key=value` pairs."""

    def __init__(self, *, colours: bool) -> None:
        """Create a renderer; `colours` adds ANSI colours, which only a terminal understands."""
        self._render = structlog.dev.ConsoleRenderer(
            colors=colours,
            timestamp_key="ts",
            event_key="msg",
            sort_keys=False,
            pad_event_to=40,
        )

    def __call__(self, logger: Any, method: str, event: EventDict) -> bytes:
        """Return an event as one line without newline; lines of a stack or an exception follow, indented.

        Because of the indentation, no value can imitate a log line.
        """
        line, exception = _line_of(method, event)
        if not line["logger"]:
            del line["logger"]
        if "exception" in line:  # structlog would append the value as a line
            line["exception_"] = line.pop("exception")
        details = line.pop("stack", "").splitlines()
        if exception is not None:
            details += _traceback(exception).rstrip("\n").split("\n")
        message = on_one_line(_text(line["msg"]))
        line = {name: _bare_or_quoted(value) for name, value in line.items()} | {"msg": message}
        text = self._render(logger, method, line)
        return "\n  ".join([text, *map(on_one_line, details)]).encode(errors="backslashreplace")


class _Escaped:
    """A text whose terminal control characters are shown as Python's escapes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return repr(self._text)


def _bare_or_quoted(value: Any) -> Any:
    return _Escaped(value) if isinstance(value, str) and not value.isprintable() else value


def _bounded(value: Any) -> Any:
    """Return the value, or its shortened text if it is long: logs contain untrusted clients' input."""
    if isinstance(value, str):
        return shortened(value)
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if value.bit_length() < _LONG_NUMBER else shortened(_shown(value))
    try:
        text = orjson.dumps(value, default=_shown, option=_OPTIONS)
    except TypeError:  # an integer of more than 64 bits, or a cycle
        return shortened(_shown(value))
    return value if len(text) <= LONGEST else shortened(text.decode())


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a log line must not break the code that logs
        return f"<{type(value).__name__} that cannot be shown>"


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - as above
        return _shown(value)


def _traceback(exception: BaseException) -> str:
    """Return a traceback with the library's frames folded, and long parts shortened."""
    text = "".join(shortened(part, _LONGEST_PART) for part in format_exception(exception))
    if len(text) <= _LONGEST_TRACEBACK:
        return text
    half = _LONGEST_TRACEBACK // 2
    return f"{text[:half]}\n… ({len(text) - 2 * half} more characters)\n{text[-half:]}"


def _exception(info: Any) -> BaseException | None:
    """Return the exception for a value of `exc_info`: itself, a tuple, or True for the current one."""
    if isinstance(info, tuple):
        info = info[1]
    if isinstance(info, BaseException):
        return info
    return sys.exc_info()[1] if info else None


MAX_WAITING = 8 * 1024 * 1024
"""Bytes that wait for a slow reader. Lines beyond that are dropped and counted."""

_FOR_A_LINE = 64
"""Bytes that a line needs in memory besides its own."""

_BATCH_BYTES = 64 * 1024


class LineWriter:
    """A writer of lines to a file descriptor, in order, from its own thread.

    In the event loop, writing to a pipe with a stalled reader would block the renewal of the lease. Lines
    beyond the limit are dropped; a later line reports their number.
    """

    def __init__(
        self, fd: int, *, dropped_line: Callable[[int, int], bytes], max_waiting: int = MAX_WAITING
    ) -> None:
        """Start the thread; `dropped_line` renders a line with the numbers of dropped lines and bytes."""
        self._fd = fd
        self._dropped_line = dropped_line
        self._max_waiting = max_waiting
        self._queue: SimpleQueue[bytes | threading.Event | None] = SimpleQueue()
        self._waiting = 0
        self._dropped = self._dropped_bytes = 0
        self._counting = threading.Lock()  # held only during an addition
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Queue one line without its newline, in any thread. Never fails; waits only after `close`."""
        if self._closed:
            self._write_all(line + b"\n")
            return
        size = len(line) + _FOR_A_LINE
        with self._counting:
            if self._waiting and self._waiting + size > self._max_waiting:
                self._dropped += 1
                self._dropped_bytes += len(line)
                return
            self._waiting += size
        self._queue.put(line)

    def flush(self, timeout: float) -> bool:
        """Wait for at most `timeout` seconds until all present lines are written; return whether they are."""
        if self._closed:
            self._thread.join(timeout)
            return not self._thread.is_alive()
        written = threading.Event()
        self._queue.put(written)
        return written.wait(timeout)

    def close(self, timeout: float) -> None:
        """Write the waiting lines, for at most `timeout` seconds; later lines are written by the caller."""
        if not self._closed:
            self._queue.put(None)
            self._thread.join(timeout)
            self._closed = True

    def _run(self) -> None:
        is_open = True
        while is_open or not self._queue.empty():  # other threads may queue lines during `close`
            batch, size = list[bytes](), 0
            item = self._queue.get()
            while isinstance(item, bytes):
                batch.append(item)
                size += len(item)
                if size >= _BATCH_BYTES or self._queue.empty():
                    break
                item = self._queue.get()
            is_open = is_open and item is not None
            if batch:
                self._write_all(b"\n".join(batch) + b"\n")
            with self._counting:
                self._waiting -= size + len(batch) * _FOR_A_LINE
                lines, dropped = self._dropped, self._dropped_bytes
                self._dropped = self._dropped_bytes = 0
            if lines:
                self._write_all(self._dropped_line(lines, dropped) + b"\n")
            if isinstance(item, threading.Event):
                item.set()

    def _write_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                select.select((), (self._fd,), ())
            except OSError:
                # The reader is gone, and there is no other place to report the error.
                return


LogLevel = Literal["debug", "info", "warn", "error"]
"""The lowest level whose lines are written."""

LogFormat = Literal["auto", "json", "console"]
"""The format of lines; `auto` is console on a terminal and JSON elsewhere."""

CLOSE_TIMEOUT = 2.0
"""Seconds for which the end of the process waits for a stalled reader."""

_QUIET = {
    # At debug level, asyncio logs each selector call.
    "asyncio": logging.INFO,
    # gRPC logs its polling engine, and each request once more.
    "_cygrpc": logging.WARNING,
    "grpc": logging.WARNING,
}


class BridgeHandler(logging.Handler):
    """Handler that passes each record of the standard library to a structured logger, formatted once."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record under its own logger's name and level, with the fields of the running reconcile."""
        level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
        try:
            library_message = record.getMessage()
        except Exception:  # noqa: BLE001 - show even a message that does not fit its arguments
            library_message = f"{record.msg!r} % {record.args!r}"
        reconcile_log().bind(logger_name=record.name).log(level, library_message, exc_info=record.exc_info)


@contextmanager
def _bridged(level: int) -> Iterator[None]:
    """Log the records of the standard library's root logger, from `level` on, and Python's warnings."""
    root, handler = logging.getLogger(), BridgeHandler()
    root.addHandler(handler)
    root.setLevel(level)
    for name, quietest in _QUIET.items():
        logging.getLogger(name).setLevel(max(level, quietest))
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        for name in _QUIET:
            logging.getLogger(name).setLevel(logging.NOTSET)
        root.removeHandler(handler)
        root.setLevel(logging.WARNING)


@contextmanager
def _structured(process: Callable[[Any, str, EventDict], Any], level: int, sink: object) -> Iterator[None]:
    """Make structured loggers pass their events through `process` to a method of `sink`."""
    structlog.configure(
        processors=[process],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Accept any logger arguments: a log line must not break the code that logs.
        logger_factory=lambda *_: sink,
        # Not cached: a logger created at import would keep the settings of an earlier context.
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.reset_defaults()


@contextmanager
def configured(
    *, level: LogLevel = "info", log_format: LogFormat = "auto", fd: int = 2
) -> Iterator[LineWriter]:
    """Configure logging to the file descriptor `fd` within the block; flush the queued lines at its end.

    Before a sudden end (`os._exit`), the caller must call `flush` of the yielded writer.
    """
    terminal = os.isatty(fd)
    render: Callable[[Any, str, EventDict], bytes] = render_json
    if log_format == "console" or (log_format == "auto" and terminal):
        render = ConsoleLines(colours=terminal and "NO_COLOR" not in os.environ)

    def dropped_line(lines: int, size: int) -> bytes:
        event = {"logger_name": "logs", "event": "log lines dropped", "lines": lines, "bytes": size}
        return render(None, "warning", event)

    number = logging.getLevelNamesMapping()[level.upper()]
    writer = LineWriter(fd, dropped_line=dropped_line)
    sink = SimpleNamespace(**dict.fromkeys(("debug", "info", "warning", "error", "critical"), writer.write))
    try:
        with _structured(render, number, sink), _bridged(number):
            yield writer
    finally:
        writer.close(CLOSE_TIMEOUT)


@contextmanager
def captured(tell: Callable[[str, dict[str, Any]], object], *, level: LogLevel = "info") -> Iterator[None]:
    """Call `tell(level, fields)` for each log line within the block, in tests and simulations."""

    def end(_logger: Any, method: str, fields: EventDict) -> Any:
        tell(method, dict(fields))
        raise structlog.DropEvent

    with _structured(end, logging.getLevelNamesMapping()[level.upper()], None):
        yield
