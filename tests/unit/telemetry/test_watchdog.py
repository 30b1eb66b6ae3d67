"""Watchdog for a process that does not end by itself: tests with real threads and in real time."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from manager.telemetry.watchdog import Watchdog
from tests.unit.conftest import LogLines

pytestmark = pytest.mark.usefixtures("log_lines")

SOON = 0.05
LONG = 3600.0
WAIT = 30.0


LOCK_HELD = """
import re, time
from manager.telemetry.watchdog import Watchdog

with Watchdog() as watchdog:
    now = time.monotonic()
    watchdog.limit("the lease was lost", now + 0.2, latest=now + 0.4, since=now)
    re.match("(a+)+$", "a" * 64 + "b")
"""
"""Program whose regular expression backtracks for years, while no other thread can run."""


class Exits:
    """Fake exit that records the exit codes, and does not end the process.

    Attributes:
        armed: seconds after which `faulthandler` would end the process; None if it would not.
    """

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.ended = threading.Event()
        self.armed: float | None = None

    def exit(self, code: int) -> None:
        self.codes.append(code)
        self.ended.set()

    def arm(self, seconds: float, **how: Any) -> None:
        assert how == {"exit": True, "file": 2}
        self.armed = seconds

    def disarm(self) -> None:
        self.armed = None


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> Exits:
    exits = Exits()
    monkeypatch.setattr(os, "_exit", exits.exit)
    monkeypatch.setattr(faulthandler, "dump_traceback_later", exits.arm)
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", exits.disarm)
    return exits


def limit(watchdog: Watchdog, seconds: float, *, late: float = LONG) -> None:
    now = time.monotonic()
    watchdog.limit("the lease was lost", now + seconds, latest=now + seconds + late, since=now)


@pytest.mark.parametrize("late", [LONG, -LONG], ids=["in time", "too late, after a freeze"])
def test_watchdog_flushes_the_log_and_ends_the_process_after_its_time_limit(
    exits: Exits, log_lines: LogLines, late: float
):
    flushed: list[float] = []
    with Watchdog(before_exit=flushed.append) as watchdog:
        limit(watchdog, SOON, late=late)
        assert exits.ended.wait(WAIT)
    assert exits.codes == [1]
    [line] = log_lines
    assert line["event"].startswith("ended by force: ")
    assert line["reason"] == "the lease was lost"
    assert 0 < flushed[0] <= 0.5


def test_watchdog_ends_process_when_the_watchdog_itself_fails(
    exits: Exits, log_lines: LogLines, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "read", None)
    with Watchdog() as watchdog:
        limit(watchdog, LONG)
        assert exits.ended.wait(WAIT)
    assert exits.codes == [1]
    assert [line["event"] for line in log_lines] == ["the watchdog failed"]


def test_watchdog_does_not_end_the_process_when_its_time_limit_is_lifted(exits: Exits):
    with Watchdog() as watchdog:
        limit(watchdog, 10 * SOON)
        limit(watchdog, LONG)
        watchdog.lift("the lease was lost")
        watchdog.lift("the lease was lost")
        assert not exits.ended.wait(14 * SOON)
        assert watchdog.due() is None


def test_watchdog_does_not_extend_its_limit_at_a_second_stop_request(exits: Exits):
    with Watchdog(stop_within=LONG) as watchdog:
        watchdog.stopping()
        due = watchdog.due()
        time.sleep(0.01)
        watchdog.stopping()
        assert watchdog.due() == due
        limit(watchdog, SOON)  # the earlier limit counts
        assert exits.ended.wait(WAIT)


def test_watchdog_ends_process_whose_interpreter_lock_is_held():
    ended = subprocess.run(
        [sys.executable, "-c", LOCK_HELD], check=False, capture_output=True, text=True, timeout=WAIT
    )
    assert ended.returncode == 1
    assert "Timeout" in ended.stderr
    assert f"{os.sep}re{os.sep}__init__.py" in ended.stderr  # Python 3.15 calls the function prefixmatch


def test_watchdog_arms_faulthandler_for_the_earliest_time_at_which_the_process_must_end(exits: Exits):
    watchdog = Watchdog(stop_within=LONG)
    limit(watchdog, 0)
    assert not exits.ended.wait(2 * SOON)  # the watchdog is not entered, so it does not end the process
    limit(watchdog, LONG, late=100)
    assert exits.armed is None
    with watchdog:
        assert exits.armed == pytest.approx(LONG + 100, abs=WAIT)
        limit(watchdog, 2 * LONG, late=100)
        assert exits.armed == pytest.approx(2 * LONG + 100, abs=WAIT)
        watchdog.stopping()
        assert exits.armed == pytest.approx(LONG + 1, abs=WAIT)
        watchdog.lift("asked to stop")
        assert exits.armed == pytest.approx(2 * LONG + 100, abs=WAIT)
        watchdog.lift("the lease was lost")
        assert exits.armed is None
        limit(watchdog, LONG)
    assert exits.armed is None


def run_stuck(exits: Exits, stuck: Callable[[], Any]) -> None:
    """Run a coroutine that does not end within the limit of the watchdog."""

    async def main() -> None:
        watchdog.watch(asyncio.get_running_loop())
        await stuck()

    with Watchdog() as watchdog, asyncio.Runner() as runner:
        limit(watchdog, SOON)
        runner.run(main())


def test_forced_end_logs_the_task_that_ignored_its_cancellation(exits: Exits, log_lines: LogLines):
    over = asyncio.Event()

    async def innermost() -> None:
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()

    async def stubborn() -> None:
        await innermost()

    async def main() -> None:
        task = asyncio.create_task(stubborn(), name="the stubborn one")
        innocent = asyncio.create_task(asyncio.sleep(LONG), name="an innocent one")
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.to_thread(exits.ended.wait, WAIT)
        over.set()
        await task
        innocent.cancel()

    run_stuck(exits, main)
    [line] = log_lines
    assert "task the stubborn one" in line["still_running"]
    assert "task an innocent one" not in line["still_running"]
    assert "in stubborn" in line["stack"]
    assert "in innermost" in line["stack"]
    assert "await over.wait()" in line["stack"]


def test_forced_end_logs_the_task_and_stack_that_block_the_event_loop(exits: Exits, log_lines: LogLines):
    async def main() -> None:
        asyncio.current_task().set_name("the blocking one")
        exits.ended.wait(WAIT)

    run_stuck(exits, main)
    [line] = log_lines
    assert line["still_running"] == ["task the blocking one, running"]
    assert "exits.ended.wait(WAIT)" in line["stack"]


def test_watchdog_warns_once_about_a_task_that_blocks_the_loop(exits: Exits, log_lines: LogLines):
    async def blocking() -> None:
        named = asyncio.current_task()
        assert named is not None
        named.set_name("memcached-worker-1 default/m")
        until = time.monotonic() + WAIT
        while not log_lines and time.monotonic() < until:
            time.sleep(0.01)  # noqa: ASYNC251 - the test blocks the loop
        time.sleep(0.5)  # noqa: ASYNC251

    with Watchdog() as watchdog, asyncio.Runner() as runner:
        watchdog.watch(runner.get_loop())
        runner.run(blocking())
    (line,) = log_lines
    assert line["log_level"] == "warning"
    assert line["task"] == "memcached-worker-1 default/m"
    assert "in blocking" in line["stack"]
    assert exits.codes == []


def test_forced_end_log_names_working_threads_and_omits_idle_threads(exits: Exits, log_lines: LogLines):
    with ThreadPoolExecutor(thread_name_prefix="pool") as pool:
        pool.submit(int).result()
        working = threading.Thread(target=exits.ended.wait, args=(WAIT,), name="working")
        working.start()
        run_stuck(exits, lambda: asyncio.sleep(8 * SOON))
        working.join()
    [line] = log_lines
    assert line["still_running"] == ["thread working"]


def test_watchdog_ends_a_process_whose_exit_waits_for_a_working_thread(exits: Exits):
    pool = ThreadPoolExecutor()
    with Watchdog(stop_within=SOON) as watchdog:
        pool.submit(int).result()
        time.sleep(2 * SOON)  # the pool's thread waits for work again
    assert watchdog.due() is None
    assert not exits.ended.wait(4 * SOON)
    pool.shutdown()
    with Watchdog(stop_within=SOON):
        lingering = threading.Thread(target=exits.ended.wait, args=(WAIT,))
        lingering.start()
    assert exits.ended.wait(WAIT)
    lingering.join()
    assert exits.codes == [1]
