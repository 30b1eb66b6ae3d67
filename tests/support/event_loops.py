"""Scenarios that have to go the same way on each kind of event loop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

import uvloop

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
"""What makes a loop, by the name of its kind."""

Run = Callable[[Callable[[], Awaitable[None]]], None]
"""Runs a scenario to its end."""


def runner_on(new_loop: Callable[[], asyncio.AbstractEventLoop], *, limit: float = 20) -> Run:
    """What runs scenarios on such a loop, each for `limit` seconds at most."""

    def run(scenario: Callable[[], Awaitable[None]]) -> None:
        async def within_limits() -> None:
            async with asyncio.timeout(limit):
                await scenario()

        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(within_limits())
        asyncio.set_event_loop(None)
        gc.collect()  # what leaked is to fail the test that leaked it

    return run
