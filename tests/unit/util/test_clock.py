from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from manager.util import clock


def test_now_returns_system_time_outside_an_event_loop():
    before = datetime.now(UTC)
    assert before <= clock.now() <= datetime.now(UTC)


async def test_now_returns_the_wall_clock_time_of_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    class Loop:
        wall_clock = staticmethod(lambda: 1_000_000_000.5)

    monkeypatch.setattr(asyncio, "get_running_loop", Loop)
    assert clock.now() == datetime(2001, 9, 9, 1, 46, 40, 500_000, tzinfo=UTC)


@pytest.mark.virtual_time
async def test_monotonic_returns_the_time_of_the_event_loop():
    assert clock.monotonic() == 0
    await asyncio.sleep(3600)
    assert clock.monotonic() == 3600
