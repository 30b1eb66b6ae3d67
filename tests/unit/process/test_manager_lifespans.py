"""Contexts that are open as long as the manager runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from manager.process.manager import CannotStart, Lifespan
from tests.unit.conftest import LogLines
from tests.unit.manager_house import House

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("log_lines")]


def add_failing(house: House, error: Exception, *, name: str | None = None) -> None:
    @asynccontextmanager
    async def failing() -> AsyncIterator[None]:
        raise error
        yield

    house.manager.add(Lifespan(failing, name=name))


@pytest.mark.parametrize(
    ("error", "name", "told"),
    [
        (OSError("address in use"), None, "address in use"),
        (OSError("no route"), "the store's channel", "cannot start the store's channel: no route"),
        (TimeoutError(), "the store's channel", "cannot start the store's channel: TimeoutError"),
        (KeyError("x"), "the store's channel", "cannot start the store's channel: KeyError: 'x'"),
        (KeyError("x"), None, "KeyError: 'x'"),
    ],
)
async def test_manager_raises_cannot_start_when_a_lifespan_fails_to_open(
    error: Exception, name: str | None, told: str
):
    house = House()
    house.lifespan("first")
    house.runnable("helper")
    add_failing(house, error, name=name)
    house.lifespan("last")
    await house.start()
    with pytest.raises(CannotStart) as raised:
        await house.ended()
    assert str(raised.value) == told
    assert raised.value.__cause__ is error
    assert house.notes == ["first opened", "first closed"]


async def test_manager_stops_cleanly_while_a_lifespan_is_opening():
    house = House()
    house.lifespan("first")
    house.runnable("helper")

    @asynccontextmanager
    async def slow() -> AsyncIterator[None]:
        house.notes.append("slow began")
        try:
            await asyncio.sleep(3600)
        finally:
            house.notes.append("slow gave up")
        yield

    house.manager.add(Lifespan(slow))
    await house.start()
    await house.stopped()
    assert house.notes == ["first opened", "slow began", "slow gave up", "first closed"]
    assert asyncio.get_running_loop().time() == pytest.approx(0)


async def test_lifespan_opens_and_closes_in_the_same_task():
    house = House()
    tasks: list[asyncio.Task[Any] | None] = []

    @asynccontextmanager
    async def channel() -> AsyncIterator[None]:
        tasks.append(asyncio.current_task())
        yield
        tasks.append(asyncio.current_task())

    house.manager.add(Lifespan(channel))
    await house.start()
    await house.stopped()
    assert tasks == [house.task, house.task]


async def test_manager_failure_is_raised_from_close_error_of_lifespan():
    house = House()

    @asynccontextmanager
    async def stuck() -> AsyncIterator[None]:
        yield
        raise OSError("stuck")

    async def broken() -> None:
        raise ValueError("broken")

    house.manager.add(Lifespan(stuck))
    house.run_beside("broken", broken)
    await house.start()
    with pytest.raises(ValueError, match="broken") as raised:
        await house.ended()
    assert str(raised.value.__cause__) == "stuck"


@pytest.mark.parametrize(("seconds", "error"), [(0, OSError), (3600, TimeoutError)])
async def test_manager_raises_close_error_of_lifespan_after_clean_stop(
    seconds: float, error: type[Exception]
):
    house = House()

    @asynccontextmanager
    async def stuck() -> AsyncIterator[None]:
        yield
        async with asyncio.timeout(1):
            await asyncio.sleep(seconds)
        raise OSError("stuck")

    house.manager.add(Lifespan(stuck))
    await house.start()
    house.stop.set()
    with pytest.raises(error):
        await house.ended()


async def test_manager_gives_up_closing_a_stuck_lifespan_after_a_moment(log_lines: LogLines):
    house = House()
    house.lifespan("first")

    @asynccontextmanager
    async def stuck() -> AsyncIterator[None]:
        yield
        await asyncio.sleep(3600)

    house.manager.add(Lifespan(stuck, name="the connection to the store"))
    await house.start()
    await house.stopped()
    assert asyncio.get_running_loop().time() == pytest.approx(5)
    assert house.notes[-1] == "first closed"
    [line] = [line for line in log_lines if line["event"] == "resource not closed in time"]
    assert line["what"] == "the connection to the store"
