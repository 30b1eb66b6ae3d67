from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from manager.process.runnables import Runnable, Runnables

pytestmark = pytest.mark.virtual_time


class Recorded:
    """Runnables that note what becomes of them."""

    def __init__(self) -> None:
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.runnables = Runnables(self.failure)
        self.notes: list[str] = []

    def start(self, name: str, *, slow_end: float = 0.0) -> None:
        async def run() -> None:
            self.notes.append(f"{name} started")
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(slow_end)
                self.notes.append(f"{name} ended")

        self.runnables.start(Runnable(name, run))


async def fail() -> None:
    raise ValueError("broken")


async def end() -> None:
    pass


async def cancel_itself() -> None:
    raise asyncio.CancelledError


async def test_runnables_stop_newest_first_and_wait_for_each():
    recorded = Recorded()
    recorded.start("first")
    recorded.start("second", slow_end=5.0)
    await asyncio.sleep(0)
    await recorded.runnables.stop()
    assert recorded.notes == ["first started", "second started", "second ended", "first ended"]
    assert not recorded.failure.done()


async def test_runnables_report_a_failure_and_keep_the_others_running():
    recorded = Recorded()
    recorded.start("good")
    recorded.runnables.start(Runnable("bad", fail))
    with pytest.raises(ValueError, match="broken"):
        await recorded.failure
    assert recorded.notes == ["good started"]
    await recorded.runnables.stop()


async def test_runnables_report_only_the_first_failure():
    recorded = Recorded()
    recorded.runnables.start(Runnable("bad", fail))
    recorded.runnables.start(Runnable("worse", cancel_itself))
    await recorded.runnables.stop()
    with pytest.raises(ValueError, match="broken"):
        await recorded.failure


async def test_runnables_report_a_failure_during_stop():
    recorded = Recorded()

    async def fail_at_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("broken")

    recorded.runnables.start(Runnable("bad", fail_at_the_end))
    await asyncio.sleep(0)
    await recorded.runnables.stop()
    with pytest.raises(ValueError, match="broken"):
        await recorded.failure


async def test_runnable_that_ends_by_itself_is_no_failure():
    recorded = Recorded()
    recorded.runnables.start(Runnable("short", end))
    await asyncio.sleep(1)
    await recorded.runnables.stop()
    assert not recorded.failure.done()


async def test_runnables_report_foreign_cancellation_as_failure():
    recorded = Recorded()
    recorded.runnables.start(Runnable("odd", cancel_itself))
    with pytest.raises(RuntimeError, match="odd was cancelled, and not by its owner"):
        await recorded.failure


@pytest.mark.parametrize("runnable", [end, fail, cancel_itself])
async def test_runnable_that_never_ran_is_stopped_without_failure(
    runnable: Callable[[], Coroutine[Any, Any, None]],
):
    recorded = Recorded()
    recorded.runnables.start(Runnable("idle", runnable))
    await recorded.runnables.stop()
    assert not recorded.failure.done()


async def test_runnables_stop_can_be_repeated_after_cancellation():
    recorded = Recorded()
    recorded.start("first")
    recorded.start("second", slow_end=5.0)
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await recorded.runnables.stop()
    assert recorded.notes == ["first started", "second started"]
    await recorded.runnables.stop()
    assert recorded.notes[2:] == ["second ended", "first ended"]
    assert not recorded.failure.done()
