"""The lines of an author's code in a stack or a traceback."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable, Iterator
from inspect import currentframe, unwrap
from itertools import groupby
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

_LIBRARY = {
    *("aiohappyeyeballs", "aiohttp", "click", "cryptography", "httptools", "jinja2", "kubernetes_asyncio"),
    *("manager", "manager_console", "manager_kinds", "manager_kubernetes_asyncio", "manager_shards"),
    *("manager_tools", "manager_tracing", "msgspec", "multidict", "opentelemetry", "orjson"),
    *("prometheus_client", "pydantic", "pydantic_core", "structlog", "uvloop", "yaml", "yarl"),
}
"""The packages of the library and of its direct dependencies."""

_TEMPLATE = "manager_tools.scaffold.project."
"""Modules of the library that `init` copies into an author's project."""
_PYTHONS = sysconfig.get_path("stdlib")
_LOOP = str(Path(_PYTHONS) / "asyncio")
_MOST_FRAMES = 100
"""The number of traceback frames that are searched: errors of several tasks have long tracebacks."""


def line_that_asks() -> str:
    """Return file and line of the innermost caller outside of the library; empty if there is none.

    It searches the current task only.
    """
    frame: FrameType | None = currentframe()
    while frame is not None and not frame.f_code.co_filename.startswith(_LOOP):
        if (found := line_of(frame, frame.f_lineno)) is not None:
            return found
        frame = frame.f_back
    return ""


def line_of(frame: FrameType, number: int) -> str | None:
    """Return file and line of a frame; None for the library, its direct dependencies, and Python."""
    file, module = frame.f_code.co_filename, frame.f_globals.get("__name__", "")
    if module.partition(".")[0] in _LIBRARY:
        is_ours = not module.startswith(_TEMPLATE)
    else:
        is_ours = file.startswith((_PYTHONS, "<")) and "site-packages" not in file
    return None if is_ours else _place(file, module, number)


def place_of(function: Callable[..., object]) -> str:
    """Return file and line of a function's definition; empty if Python code does not define it."""
    function = unwrap(function)
    code = getattr(function, "__code__", None)
    return "" if code is None else _place(code.co_filename, function.__module__, code.co_firstlineno)


def _place(file: str, module: str, number: int) -> str:
    # As many last parts of the path as the module's name has: the parts before differ between machines.
    parts = Path(file).parts[-1 - module.count(".") :]
    return f"{'/'.join(parts)}:{number}"


def line_in(place: TracebackType | None) -> str:
    """Return the innermost line of a traceback outside of the library; empty if there is none."""
    found = ""
    for _ in range(_MOST_FRAMES):
        if place is None:
            break
        found = line_of(place.tb_frame, place.tb_lineno) or found
        place = place.tb_next
    return found


def format_exception(error: BaseException) -> Iterator[str]:
    """Yield the parts of Python's text of an exception, with the library's frames folded.

    A traceback without an author's frame is shown as a whole, because the library itself has failed. In other
    tracebacks, the last frame is always shown.
    """
    shown = traceback.TracebackException.from_exception(error, compact=True)
    _fold(shown, error)
    yield from shown.format()


def _fold(shown: traceback.TracebackException, error: BaseException) -> None:
    """Fold the library's frames in the text of an exception, of its causes and of its members."""
    left = [(shown, error)]
    while left:
        shown, error = left.pop()
        shown.stack = _folded(shown.stack, error.__traceback__)
        pairs = [(shown.__cause__, error.__cause__), (shown.__context__, error.__context__)]
        if isinstance(error, BaseExceptionGroup) and shown.exceptions is not None:
            pairs += zip(shown.exceptions, error.exceptions, strict=True)
        left += [(text, each) for text, each in pairs if text is not None and each is not None]


def _folded(stack: traceback.StackSummary, place: TracebackType | None) -> Any:
    """Return the lines of a stack, with the library's frames folded if there are any other frames."""
    authors = [line_of(frame, number) is not None for frame, number in traceback.walk_tb(place)]
    if len(authors) != len(stack) or not any(authors):
        return stack
    authors[-1] = True  # the line that raised the error
    lines = _Lines()
    for is_shown, run in groupby(zip(authors, stack, strict=True), key=lambda each: each[0]):
        frames = [frame for _, frame in run]
        if is_shown:
            lines += traceback.StackSummary.from_list(frames).format()
        else:
            lines.append(f"  … {'a frame' if len(frames) == 1 else f'{len(frames)} frames'} of the library\n")
    return lines


class _Lines(list[str]):
    """The text lines of a stack, with the interface of `traceback.StackSummary`."""

    def format(self, **_: Any) -> list[str]:
        return self
