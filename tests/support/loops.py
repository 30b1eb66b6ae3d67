"""Running a test in each of the event loops that the manager may have: their sockets and TLS differ."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

LOOPS = (asyncio.SelectorEventLoop, uvloop.new_event_loop)


def in_each_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Makes a test of a coroutine function; its fixtures may not be asynchronous ones."""

    @functools.wraps(test)
    def run(*, loop_factory: Callable[[], asyncio.AbstractEventLoop], **fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(test(**fixtures))

    asked_for = inspect.signature(test)
    factory = inspect.Parameter("loop_factory", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = asked_for.replace(  # type: ignore[attr-defined]
        parameters=[*asked_for.parameters.values(), factory]
    )
    return pytest.mark.parametrize("loop_factory", LOOPS, ids=["asyncio", "uvloop"])(run)
