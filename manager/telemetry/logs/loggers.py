"""Where a logger comes from: by name, or from the reconcile that is running; and structlog, made lean.

structlog imports rich wherever that is installed, for a renderer that is not used here: some seventy modules
and four megabytes. While structlog is imported, these packages look as if they were not there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_UNWANTED = ("rich", "better_exceptions")


@contextmanager
def _hidden(names: tuple[str, ...]) -> Iterator[None]:
    """Make imports of `names` fail inside the block, except for modules that are already imported."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type] # None is how an import is refused
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


with _hidden(_UNWANTED):
    import structlog


LONGEST = 1024
"""Characters of one value."""


def shortened(text: str, longest: int = LONGEST) -> str:
    """Return the text, or the beginning of a longer one with the number of missing characters."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest} more characters)"


def on_one_line(text: str) -> str:
    """Return the text; escape it like `repr` if it has characters that control a terminal."""
    return text if text.isprintable() else repr(text)[1:-1]


def get_logger(name: str, **fields: Any) -> FilteringBoundLogger:
    """Return a logger whose lines carry `logger=name` and `fields`.

    It may be called at import, before logging is set up: the logger reads the settings when it is used. A hot
    path calls `.bind()` once and keeps the result, which saves that look-up per line.
    """
    return cast("FilteringBoundLogger", structlog.get_logger(logger_name=name, **fields))


_outside = get_logger("reconcile")
_current: ContextVar[FilteringBoundLogger] = ContextVar("reconcile_log", default=_outside)


reconcile_log = _current.get
"""Returns the logger of the reconcile that the calling task is running.

Its lines carry controller, namespace, name and reconcile_id. Outside a reconcile it is a plain logger.
"""

set_reconcile_log = _current.set
"""Makes a logger what `reconcile_log()` returns in this task, until its token is given back."""

reset_reconcile_log = _current.reset
"""Undoes the `set_reconcile_log` that returned a token, in the same task."""
