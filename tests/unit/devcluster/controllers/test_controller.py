from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
import uvloop

from devcluster.controllers import controller as module
from devcluster.controllers.controller import WorkQueue
from tests.unit.devcluster.controllers.conftest import Cluster, pod


def test_work_queue_delivers_a_key_whose_delay_ends_before_the_timer_starts(monkeypatch: pytest.MonkeyPatch):
    """Simulate a process that pauses after it reads the clock and before it starts the timer."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        late = SimpleNamespace(time=lambda: loop.time() - 1, call_at=loop.call_at)
        monkeypatch.setattr(
            module, "asyncio", SimpleNamespace(get_running_loop=lambda: late, Event=asyncio.Event)
        )
        queue = WorkQueue()
        key = ("", "a")
        for seconds in (0.001, 0.5, 0.0):
            queue.add_after(key, seconds)
        assert await queue.get() == key
        queue.done(key)
        await asyncio.sleep(0)
        assert len(queue) == 0

    uvloop.run(main())


@pytest.mark.virtual_time
async def test_unexpected_error_that_ends_all_controllers_is_logged(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the fault")

    monkeypatch.setattr(WorkQueue, "done", broken)
    await cluster.settled("pods", pod())
    assert "all controllers have stopped" in caplog.text
    assert "RuntimeError: the fault" in caplog.text
