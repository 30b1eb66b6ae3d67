"""structlog, without what it takes along to draw tracebacks in colour.

It imports rich wherever that is installed, for a renderer that is not used here: some seventy modules and
four megabytes. While structlog is imported, these packages look as if they were not there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["structlog"]

_UNWANTED = ("rich", "better_exceptions")


@contextmanager
def _hidden(names: tuple[str, ...]) -> Iterator[None]:
    """While entered, importing `names` fails, but for those that somebody has imported already."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type] # None is how an import is refused
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


with _hidden(_UNWANTED):
    import structlog
