"""The definition of a benchmark."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

Work: TypeAlias = Callable[[], object] | Callable[[], Awaitable[object]]
"""The timed function or coroutine function. It is called repeatedly, so it must leave no changes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Benchmark:
    """A piece of work to measure.

    Attributes: name: the suite's name, a dot, and the benchmark's own name. about: one unit of the work, for
    people. prepare: enters with the work ready, and leaves without a trace. It runs in an event loop of the
    manager's kind. units: the number of units per call of the work. against: the names of benchmarks of the
    same suite to compare with.
    """

    name: str
    about: str
    prepare: Callable[[], AbstractAsyncContextManager[Work]]
    units: int = 1
    against: tuple[str, ...] = ()


def ready(make: Callable[[], Work]) -> Callable[[], AbstractAsyncContextManager[Work]]:
    """Return a `prepare` for work that leaves only memory behind; `make` creates the work."""

    @contextlib.asynccontextmanager
    async def prepare() -> AsyncIterator[Work]:
        yield make()

    return prepare
