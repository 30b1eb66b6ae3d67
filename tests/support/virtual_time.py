"""An event loop in virtual time: nothing waits; when there is nothing to do, time jumps to the next timer.

    @pytest.mark.virtual_time
    async def test_something(): ...

It has no sockets, and a thread that the loop is asked for takes no time: it has ended before anything else
happens. So what happens in it happens in the same order each time.

A task started in a context in which `process_clock` is set sees time pass at that clock's rate, and so does
everything it starts; its timers fire when its own clock says so. So two processes in one loop can have clocks
that drift apart.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import Context, ContextVar
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar, TypeVarTuple

__all__ = ["ProcessClock", "ThreadHold", "VirtualLoop", "freeze", "process_clock", "simulate"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = 1_800_000_000.0
TICKS = 1_000_000
"""Time goes on in microseconds: sums of what a test waits for are as a person would write them."""
ROUNDING = 1e-3
"""The part of a tick that is an error of floating point."""


@dataclass(frozen=True)
class ProcessClock:
    """A clock that gains `rate` seconds a second, starts at `offset`, and is `skew` off in wall time."""

    rate: float = 1.0
    offset: float = 0.0
    skew: float = 0.0


TRUE_CLOCK = ProcessClock()

process_clock: ContextVar[ProcessClock] = ContextVar("process_clock", default=TRUE_CLOCK)


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the top of this file."""

    def __init__(self) -> None:
        self._ticks = 0
        super().__init__(_TimeMachine(self))
        self._clock_resolution = 0.5 / TICKS

    @property
    def true_time(self) -> float:
        return self._ticks / TICKS

    def time(self) -> float:
        clock = process_clock.get()
        return self.true_time * clock.rate + clock.offset

    def wall_clock(self) -> float:
        """What `manager.clock.now` shows."""
        clock = process_clock.get()
        return EPOCH + self.true_time * clock.rate + clock.skew

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        clock = process_clock.get()
        if clock is not TRUE_CLOCK:
            # Late by a trifle rather than early by a rounding error.
            when = (when - clock.offset) / clock.rate + 1 / TICKS
        return super().call_at(when, callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        if executor is None:
            executor = self._default_executor = self._default_executor or ThreadPoolExecutor()
        heard: SimpleQueue[ThreadHold | None] = SimpleQueue()

        def work() -> T:
            _thread.heard = heard
            return func(*args)

        running = executor.submit(work)
        running.add_done_callback(lambda _: heard.put(None))
        hold = heard.get()
        if hold is not None:
            hold.held.append(running)
        return asyncio.wrap_future(running, loop=self)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """None of its threads has anything to do."""

    def jump(self) -> None:
        """To the next timer, but ahead in any case: by the clock of a process it may be a trifle later."""
        if not self._scheduled:
            raise RuntimeError("the simulation has come to a standstill: no timer, nothing to run")
        due = math.ceil(self._scheduled[0].when() * TICKS - ROUNDING)
        self._ticks = max(due, self._ticks + 1)


_thread = threading.local()


class ThreadHold:
    """Keeps threads from ending while time goes on; they call `wait`."""

    def __init__(self) -> None:
        self.held: list[Future[Any]] = []
        self._released = threading.Event()

    def wait(self) -> None:
        if not self._released.is_set():
            _thread.heard.put(self)
            self._released.wait(30)  # a test that fails before is not to hang

    def release(self) -> None:
        """They have ended when this returns."""
        ended: SimpleQueue[Future[Any]] = SimpleQueue()
        for each in self.held:
            each.add_done_callback(ended.put)
        self._released.set()
        for _ in self.held:
            ended.get()


class _TimeMachine(selectors.BaseSelector):
    """Waits for nothing."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        self._keys[fileobj] = selectors.SelectorKey(fileobj, number, events, data)
        return self._keys[fileobj]

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._loop.jump()
        return []

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys[fileobj]

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


def freeze(seconds: float) -> None:
    """Let time pass in the middle of whatever runs, as when a process is stopped or computes for long."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop._ticks += round(seconds * TICKS)


def simulate(main: Coroutine[Any, Any, T]) -> T:
    """Run it in a loop of its own, for a test that does so several times."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
