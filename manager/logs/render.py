"""From what a logging call was given to the bytes of one line."""

from __future__ import annotations

import json
import sys
import traceback
from typing import TYPE_CHECKING, Any

import orjson

from manager import clock
from manager.logs.lean import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict

_LEVELS = {"warning": "warn", "critical": "error", "exception": "error", "notset": "debug"}
_OPTIONS = orjson.OPT_NON_STR_KEYS


def timestamp() -> str:
    """Now, as RFC 3339 in UTC with milliseconds: `2026-11-21T08:31:02.123Z`."""
    return clock.now().isoformat(timespec="milliseconds")[:-6] + "Z"


def render_json(_logger: Any, method: str, event: EventDict) -> bytes:
    """One line of JSON, without the newline. Never fails: what JSON cannot hold is shown by `repr`."""
    line: dict[Any, Any] = {
        "ts": timestamp(),
        "level": _LEVELS.get(method, method),
        "logger": event.pop("logger_name", ""),
        "msg": event.pop("event", ""),
    }
    exception = _exception(event.pop("exc_info", None))
    line.update(event)
    if exception is not None:
        line.setdefault("error", str(exception) or type(exception).__name__)
        line["stacktrace"] = "".join(traceback.format_exception(exception))
    try:
        return orjson.dumps(line, default=repr, option=_OPTIONS)
    except TypeError:
        # A lone surrogate, an integer of more than 64 bits, a cycle: rare, so slow is fine.
        plain = {str(key): value if isinstance(value, str) else repr(value) for key, value in line.items()}
        return json.dumps(plain).encode()


class ConsoleLines:
    """Renders lines for people: time, level, message, logger, then `key=value` pairs."""

    def __init__(self, *, colours: bool) -> None:
        """`colours` adds ANSI colours, which only a terminal understands."""
        self._render = structlog.dev.ConsoleRenderer(
            colors=colours,
            exception_formatter=structlog.dev.plain_traceback,
            timestamp_key="ts",
            event_key="msg",
            sort_keys=False,
            pad_event_to=40,
        )

    def __call__(self, logger: Any, method: str, event: EventDict) -> bytes:
        """One line, or several when an exception comes with it, without the last newline."""
        event["ts"] = timestamp()
        event["level"] = _LEVELS.get(method, method)
        event["msg"] = event.pop("event", "")
        event["exc_info"] = _exception(event.pop("exc_info", None))
        return self._render(logger, method, event).encode(errors="backslashreplace")


def _exception(info: Any) -> BaseException | None:
    """The exception that `exc_info` stands for: itself, a tuple, or True for the current one."""
    if isinstance(info, BaseException):
        return info
    if isinstance(info, tuple):
        found = info[1]
        return found if isinstance(found, BaseException) else None
    return sys.exc_info()[1] if info else None
