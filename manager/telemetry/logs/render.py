"""Rendering of a log event as the bytes of one line."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, TextIO

import orjson
import structlog

from manager.telemetry.logs.loggers import LONGEST, on_one_line, shortened
from manager.util import clock
from manager.util.author_code import format_exception

if TYPE_CHECKING:
    from structlog.typing import EventDict

_LEVELS = {"warning": "warn", "critical": "error", "exception": "error", "notset": "debug"}
_LONG_NUMBER = 64
"""Bits of what JSON cannot hold as a number."""

_LONGEST_PART = 4 * 1024
"""Characters of one step of a traceback, or of its message."""

_LONGEST_TRACEBACK = 32 * 1024
"""Characters of all of it: some two hundred steps. So many may `stack` have, which is this program's own."""

_OPTIONS = orjson.OPT_NON_STR_KEYS


def timestamp() -> str:
    """Now, as RFC 3339 in UTC with milliseconds: `2026-11-21T08:31:02.123Z`."""
    return clock.now().isoformat(timespec="milliseconds")[:-6] + "Z"


def render_json(_logger: Any, method: str, event: EventDict) -> bytes:
    """Render one line of JSON without the newline; never fail, as `repr` replaces unsuitable values."""
    line: dict[Any, Any] = {
        "ts": timestamp(),
        "level": _LEVELS.get(method, method),
        "logger": event.pop("logger_name", ""),
        "msg": _bounded(event.pop("event", "")),
    }
    exception, stack = _exception(event.pop("exc_info", None)), event.pop("stack", None)
    for name, value in event.items():
        line[name] = _bounded(value)
    if stack is not None:
        line["stack"] = shortened(_text(stack), _LONGEST_TRACEBACK)
    if exception is not None:
        line.setdefault("error", shortened(_text(exception) or type(exception).__name__))
        line["stacktrace"] = _traceback(exception)
    try:
        return _visible(orjson.dumps(line, default=_shown, option=_OPTIONS))
    except TypeError:
        # A lone surrogate, for one: rare, so slow is fine.
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
        """`colours` adds ANSI colours, which only a terminal understands."""
        self._render = structlog.dev.ConsoleRenderer(
            colors=colours,
            exception_formatter=_write_traceback,
            timestamp_key="ts",
            event_key="msg",
            sort_keys=False,
            pad_event_to=40,
        )

    def __call__(self, logger: Any, method: str, event: EventDict) -> bytes:
        """Render an event as one line without its newline; lines of an exception or a stack follow, indented.

        Because of the indentation, no value can imitate a log line.
        """
        message, exception = event.pop("event", ""), _exception(event.pop("exc_info", None))
        stack = event.pop("stack", None)
        event = {name: _bare_or_quoted(_bounded(value)) for name, value in event.items()}
        event["ts"] = timestamp()
        event["level"] = _LEVELS.get(method, method)
        event["msg"] = on_one_line(shortened(_text(message)))
        event["exc_info"] = exception
        if stack is not None:
            lines = shortened(_text(stack), _LONGEST_TRACEBACK).splitlines()
            event["stack"] = "\n".join(f"  {on_one_line(line)}" for line in lines)
        return self._render(logger, method, event).encode(errors="backslashreplace")


class _Escaped:
    """A text with characters that a terminal would obey, and that are shown as Python writes them."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return repr(self._text)


def _bare_or_quoted(value: Any) -> Any:
    return _Escaped(value) if isinstance(value, str) and not value.isprintable() else value


def _bounded(value: Any) -> Any:
    """Return the value, or its shortened text if it is long, as logs contain untrusted clients' input."""
    if isinstance(value, str):
        return shortened(value)
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if value.bit_length() < _LONG_NUMBER else shortened(_shown(value))
    try:
        text = orjson.dumps(value, default=_shown, option=_OPTIONS)
    except TypeError:  # an integer of more than 64 bits, a cycle
        return shortened(_shown(value))
    return value if len(text) <= LONGEST else shortened(text.decode())


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a line of log must not end what it tells of
        return f"<{type(value).__name__} that cannot be shown>"


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - as above
        return _shown(value)


def _traceback(exception: BaseException) -> str:
    """Format a traceback with the library's frames folded, and long parts shortened."""
    text = "".join(shortened(part, _LONGEST_PART) for part in format_exception(exception))
    if len(text) <= _LONGEST_TRACEBACK:
        return text
    half = _LONGEST_TRACEBACK // 2
    return f"{text[:half]}\n… ({len(text) - 2 * half} more characters)\n{text[-half:]}"


def _write_traceback(out: TextIO, info: Any) -> None:
    exception = _exception(info)
    if exception is not None:
        out.writelines(f"\n  {on_one_line(line)}" for line in _traceback(exception).rstrip("\n").split("\n"))


def _exception(info: Any) -> BaseException | None:
    """Return the exception that `exc_info` stands for: itself, a tuple, or True for the current one."""
    if isinstance(info, BaseException):
        return info
    if isinstance(info, tuple):
        found = info[1]
        return found if isinstance(found, BaseException) else None
    return sys.exc_info()[1] if info else None
