"""Pytest plugin that shows where a test is when it reaches its time limit.

The test fails with the stacks of all threads and tasks, and a hanging clean-up fails too. If C code holds the
interpreter lock, no Python code can run. Then the process prints its stacks and exits, and pytest-xdist
continues in a new process.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

GRACE = 20.0
"""Seconds for a test's clean-up after its time limit."""

MOST_CROWDED = 5.0
LOW_PRIORITY = 20.0
"""Factor for processes of low priority, as in `.ci/run`: other processes may take almost all the CPU."""

_stderr = 2


def pytest_configure() -> None:
    """Duplicate the stderr descriptor before pytest captures stderr."""
    global _stderr  # noqa: PLW0603 -- one for the process, as pytest's is
    _stderr = os.dup(2)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give tests marked `whole` or `long` a limit of five minutes, unless they have their own limit."""
    if item.get_closest_marker("timeout") is None and any(map(item.get_closest_marker, ("whole", "long"))):
        item.add_marker(pytest.mark.timeout(300))


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Start our timers and return True; outside of the main thread, return None to use pytest-timeout's."""
    if threading.current_thread() is not threading.main_thread():
        return None  # pytest-timeout then uses its own timers
    now = time.monotonic  # a local name, because a simulation replaces it in modules
    began = now()

    def fail(_signal: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True
        rest = began + settings.timeout * crowding() - now()
        signal.setitimer(signal.ITIMER_REAL, rest if rest > 0 else GRACE)
        if rest <= 0:
            limit = f"{item.nodeid} is not over after {now() - began:.1f} s"
            pytest.fail(f"{limit}\n{stacks(frame)}")

    def cancel() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        faulthandler.cancel_dump_traceback_later()

    item.cancel_timeout = cancel  # type: ignore[attr-defined]  # where pytest-timeout looks for it
    longest = settings.timeout * max(MOST_CROWDED, crowding())
    faulthandler.dump_traceback_later(longest + 3 * GRACE, exit=True, file=_stderr)
    signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    return True


def crowding() -> float:
    """Return the factor by which a busy machine extends time limits; 1 up to two processes per CPU."""
    if os.nice(0) > 0:
        return LOW_PRIORITY
    return min(max(os.getloadavg()[0] / (2 * (os.cpu_count() or 1)), 1.0), MOST_CROWDED)


def stacks(current: FrameType | None) -> str:
    """Return the stacks of all threads and tasks; `current` is the frame of the calling thread."""
    frames = {**sys._current_frames(), threading.get_ident(): current}
    parts = list[str]()
    for thread in threading.enumerate():
        if thread.ident in frames:
            parts += f"thread {thread.name}:\n", *traceback.format_stack(frames[thread.ident])
    for task in _tasks():
        parts += f"task {task.get_name()} of {_name(task.get_coro())}:\n", *_awaits(task.get_coro())
    return "".join(parts)


def _tasks() -> list[asyncio.Task[Any]]:
    found = [each for each in gc.get_objects() if isinstance(each, asyncio.Task) and not each.done()]
    return sorted(found, key=lambda task: task.get_name())


def _name(awaited: Any) -> str:
    return str(getattr(awaited, "__qualname__", awaited))


def _awaits(awaited: Any) -> Iterator[str]:
    """Yield the stack of a coroutine and of everything that it awaits, down to a future."""
    while awaited is not None:
        frame = _first(awaited, "cr_frame", "gi_frame", "ag_frame")
        if frame is None:
            yield f"  waits for {awaited!r}\n"
            return
        yield from traceback.StackSummary.extract([(frame, frame.f_lineno)]).format()
        awaited = _first(awaited, "cr_await", "gi_yieldfrom", "ag_await")


def _first(value: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(value, name, None)) is not None), None)
