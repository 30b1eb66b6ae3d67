"""What is measured."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

Work: TypeAlias = Callable[[], object] | Callable[[], Awaitable[object]]
"""What is timed. Called again and again, so it leaves everything as it found it; or a coroutine function."""


@dataclasses.dataclass(frozen=True, slots=True)
class Benchmark:
    """A piece of work.

    Attributes:
        name: the suite's, a dot, and its own.
        about: what one unit of it is, for people.
        prepare: enters with the work ready to be done, and leaves with nothing of it left. It runs in an
            event loop of the kind that the manager has.
        units: how many units one call of the work does.
        against: the names of others of the same suite, that it is to be compared with.
    """

    name: str
    about: str
    prepare: Callable[[], AbstractAsyncContextManager[Work]]
    units: int = 1
    against: tuple[str, ...] = ()


def ready(make: Callable[[], Work]) -> Callable[[], AbstractAsyncContextManager[Work]]:
    """For work that leaves nothing behind but memory: `make` prepares it."""

    @contextlib.asynccontextmanager
    async def prepare() -> AsyncIterator[Work]:
        yield make()

    return prepare
