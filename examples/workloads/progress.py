"""The progress of the replicas: a bar on a terminal, or one line per step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from examples.workloads.screen import say

__all__ = ["ready_progress"]

Show = Callable[[int], None]
"""Shows the number of ready replicas."""


def ready_progress(what: str, total: int) -> AbstractContextManager[Show]:
    """Show the progress of `what` in a `with` block; the block calls the yielded function."""
    return _bar(what, total) if sys.stderr.isatty() else _lines(what, total)


@contextmanager
def _bar(what: str, total: int) -> Iterator[Show]:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("ready"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=total)
        yield lambda ready: progress.update(task, completed=ready)


@contextmanager
def _lines(what: str, total: int) -> Iterator[Show]:
    shown: int | None = None

    def show(ready: int) -> None:
        nonlocal shown
        if ready != shown:
            say(f"{what}: {ready}/{total} ready")
            shown = ready

    yield show
