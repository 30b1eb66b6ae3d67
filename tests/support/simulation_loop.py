"""An event loop in virtual time, in which each simulated process has a clock of its own.

    def test_something():
        simulate(main())

Nothing ever waits: when there is nothing to do, time jumps to the next timer. A task started in a context in
which `process_clock` is set sees time pass at that clock's rate, and so does everything it starts; its timers
fire when its own clock says so. So two processes in one loop can have clocks that drift apart.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple

__all__ = ["ProcessClock", "SimulationLoop", "process_clock", "simulate"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = 1_800_000_000.0
ROUNDING = 1e-6


@dataclass(frozen=True)
class ProcessClock:
    """A clock that gains `rate` seconds a second, starts at `offset`, and is `skew` off in wall time."""

    rate: float = 1.0
    offset: float = 0.0
    skew: float = 0.0


TRUE_CLOCK = ProcessClock()

process_clock: ContextVar[ProcessClock] = ContextVar("process_clock", default=TRUE_CLOCK)


class SimulationLoop(asyncio.SelectorEventLoop):
    """See the top of this file."""

    def __init__(self) -> None:
        self.true_time = 0.0
        super().__init__(_TimeMachine(self))

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
        # Late by a trifle rather than early by a rounding error, after which no time would pass any more.
        true_when = (when - clock.offset) / clock.rate + ROUNDING
        return super().call_at(true_when, callback, *args, context=context)

    def freeze(self, seconds: float) -> None:
        """Let time pass in the middle of whatever runs, as when a process is stopped or computes for long."""
        self.true_time += seconds


class _TimeMachine(selectors.BaseSelector):
    """Waits for nothing."""

    def __init__(self, loop: SimulationLoop) -> None:
        self._loop = loop
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        self._keys[fileobj] = selectors.SelectorKey(fileobj, int(fileobj), events, data)
        return self._keys[fileobj]

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("the simulation has come to a standstill: no timer, nothing to run")
        self._loop.true_time += max(0.0, timeout)
        return []

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys[fileobj]

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


def simulate(main: Coroutine[Any, Any, T]) -> T:
    """Run it in a new simulation."""
    with asyncio.Runner(loop_factory=SimulationLoop) as runner:
        return runner.run(main)
