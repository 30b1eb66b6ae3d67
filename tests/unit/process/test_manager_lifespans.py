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


@pytest.mark.parametrize(
    ("takes", "error", "fails", "seconds"),
    [
        (0.0, OSError("stuck"), False, 0),
        (0.0, OSError("stuck"), True, 0),
        (1.0, TimeoutError("its own"), False, 1),
        (3600.0, None, False, 5),
    ],
)
async def test_manager_reports_or_abandons_a_lifespan_that_fails_to_close(
    takes: float, error: Exception | None, fails: bool, seconds: float, log_lines: LogLines
):
    house = House()
    house.lifespan("first")

    @asynccontextmanager
    async def stuck() -> AsyncIterator[None]:
        yield
        await asyncio.sleep(takes)
        if error is not None:
            raise error

    async def broken() -> None:
        raise ValueError("broken")

    house.manager.add(Lifespan(stuck, name="the connection to the store"))
    if fails:
        house.run_beside("broken", broken)
    await house.start()
    house.stop.set()
    if error is None:
        await house.ended()
    else:
        with pytest.raises(ValueError if fails else type(error)) as raised:
            await house.ended()
        assert (raised.value.__cause__ if fails else raised.value) is error
    assert asyncio.get_running_loop().time() == pytest.approx(seconds)
    assert house.notes[-1] == "first closed"
    late = [line["what"] for line in log_lines if line["event"] == "resource not closed in time"]
    assert late == ([] if error else ["the connection to the store"])
