from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from manager.util import clock


def test_now_returns_machine_time_outside_a_loop():
    before = datetime.now(UTC)
    assert before <= clock.now() <= datetime.now(UTC)


async def test_now_returns_wall_clock_of_the_loop(monkeypatch: pytest.MonkeyPatch):
    class Loop:
        wall_clock = staticmethod(lambda: 1_000_000_000.5)

    monkeypatch.setattr(asyncio, "get_running_loop", Loop)
    assert clock.now() == datetime(2001, 9, 9, 1, 46, 40, 500_000, tzinfo=UTC)


@pytest.mark.virtual_time
async def test_monotonic_time_is_the_loops():
    assert clock.monotonic() == 0
    await asyncio.sleep(3600)
    assert clock.monotonic() == 3600
