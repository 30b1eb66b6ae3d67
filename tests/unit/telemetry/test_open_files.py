from __future__ import annotations

import asyncio
import errno
import os
import resource
from typing import Any

import pytest
from structlog.testing import capture_logs

from manager.telemetry.open_files import Reserve, raised_limit, report_exhaustion


@pytest.mark.virtual_time
async def test_descriptor_exhaustion_is_logged_at_growing_intervals(monkeypatch: pytest.MonkeyPatch):
    open_, left = os.open, False

    def opening(*path: Any) -> int:
        if not left:
            raise OSError(errno.EMFILE, "Too many open files")
        return open_(*path)

    monkeypatch.setattr(os, "open", opening)
    with capture_logs() as lines:
        watching = asyncio.create_task(report_exhaustion())
        await asyncio.sleep(0.5)
        assert len(lines) == 1
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert lines[0]["limit"] == limit
        await asyncio.sleep(600)
        assert 2 <= len(lines) <= 5
        left, told = True, len(lines)
        await asyncio.sleep(3600)
        assert len(lines) == told
        watching.cancel()
        await asyncio.wait([watching])


@pytest.mark.parametrize(("hard", "allowed"), [(100, True), (resource.RLIM_INFINITY, True), (100, False)])
def test_open_files_limit_is_raised_to_the_hard_limit_if_allowed(
    monkeypatch: pytest.MonkeyPatch, hard: int, allowed: bool
):
    now = [28, hard]

    def setrlimit(_: int, limits: tuple[int, int]) -> None:
        if not allowed:
            raise ValueError("not allowed to raise maximum limit")
        now[:] = limits

    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(now))
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    assert raised_limit() >= 100 if allowed else raised_limit() == 28
    assert now == ([hard, hard] if allowed else [28, hard])


def test_closed_descriptor_reserve_releases_no_descriptor():
    with Reserve() as reserve:
        assert reserve.give_up()
        assert not reserve.give_up()
        assert reserve.take()
    reserve.take()
    assert not reserve.give_up()
