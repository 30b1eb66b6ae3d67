from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator

import pytest
import structlog

from manager.cli.run import StopSignals
from manager.telemetry.watchdog import Watchdog


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


@pytest.fixture
def lines() -> Iterator[list[structlog.typing.EventDict]]:
    with structlog.testing.capture_logs() as captured:
        yield captured


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_first_signal_sets_the_stop_event(
    exits: list[int], lines: list[structlog.typing.EventDict], number: signal.Signals
):
    with Watchdog(stop_within=3600) as watchdog, StopSignals(watchdog) as signals:
        assert not signals.stop.is_set()
        send(number)
        await asyncio.wait_for(signals.stop.wait(), 10)
    assert [line["signal"] for line in lines] == [number.name]
    assert exits == []


@pytest.mark.each_loop
@pytest.mark.parametrize("taken", ["by nobody else", "by a handler of the loop"])
async def test_stop_signals_work_when_the_wakeup_fd_was_changed(exits: list[int], taken: str):
    flushed = threading.Event()
    loop = asyncio.get_running_loop()
    with (
        Watchdog(stop_within=3600, before_exit=lambda _: flushed.set()) as watchdog,
        StopSignals(watchdog) as signals,
    ):
        if taken == "by nobody else":
            signal.set_wakeup_fd(-1)
        else:
            loop.add_signal_handler(signal.SIGUSR1, print)
        send(signal.SIGTERM)
        await asyncio.wait_for(signals.stop.wait(), 10)
        send(signal.SIGTERM)
        assert flushed.wait(10)  # at once again, whatever the loop does
        loop.remove_signal_handler(signal.SIGUSR1)
    assert exits == [1]


async def test_second_signal_exits_at_once_after_the_log_is_flushed(
    exits: list[int], lines: list[structlog.typing.EventDict]
):
    flushed = threading.Event()
    with (
        Watchdog(stop_within=3600, before_exit=lambda _: flushed.set()) as watchdog,
        StopSignals(watchdog) as signals,
    ):
        send(signal.SIGTERM)
        await asyncio.wait_for(signals.stop.wait(), 10)
        assert watchdog.due() is not None
        assert not flushed.is_set()
        send(signal.SIGINT)
        assert await asyncio.to_thread(flushed.wait, 10)
    assert exits == [1]
    assert [line["log_level"] for line in lines[:2]] == ["info", "error"]


async def test_second_signal_exits_the_process_when_the_loop_is_blocked(
    exits: list[int], lines: list[structlog.typing.EventDict]
):
    flushed = threading.Event()
    with (
        Watchdog(stop_within=3600, before_exit=lambda _: flushed.set()) as watchdog,
        StopSignals(watchdog) as signals,
    ):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert flushed.wait(10)
        assert not signals.stop.is_set()  # the loop has not had a turn
    assert exits == [1]
    assert lines[-1]["event"] == "exiting at once on a second signal"


async def test_work_that_ends_before_the_stop_gives_its_result():
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    with Watchdog() as watchdog, StopSignals(watchdog) as signals:
        assert await signals.unless_stopped(work()) == "done"


async def test_work_that_fails_raises_its_error():
    async def work() -> None:
        raise ValueError("wrong")

    with Watchdog() as watchdog, StopSignals(watchdog) as signals, pytest.raises(ValueError, match="wrong"):
        await signals.unless_stopped(work())


async def test_unless_stopped_cancels_the_work_when_stop_is_set():
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with Watchdog() as watchdog, StopSignals(watchdog) as signals:
        signals.stop.set()
        assert await signals.unless_stopped(work()) is None
    assert cancelled.is_set()


async def test_unless_stopped_cancels_the_work_when_it_is_cancelled():
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with Watchdog() as watchdog, StopSignals(watchdog) as signals:
        task = asyncio.create_task(signals.unless_stopped(work()))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert cancelled.is_set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_stop_signals_restore_the_earlier_handler_on_exit(number: signal.Signals):
    def earlier(*_: object) -> None:
        pass

    original = signal.signal(number, earlier)
    try:
        with Watchdog() as watchdog, StopSignals(watchdog):
            assert signal.getsignal(number) is not earlier
        assert signal.getsignal(number) is earlier
    finally:
        signal.signal(number, original)
