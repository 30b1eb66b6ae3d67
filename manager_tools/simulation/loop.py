"""An event loop in virtual time: when no callback is ready, time jumps to the next timer.

The loop has no network except its `services`. A thread of `run_in_executor` takes no time: it ends before the
next callback runs. So all callbacks run in the same order each time. With a random generator, tasks that are
ready at the same time run in a random order.

`virtual_time` puts the running loop of asyncio into virtual time for a while, so that a test needs no loop of
its own.

A task that is started in a context with `process_clock` uses that clock, and so do all tasks it starts. Its
timers follow that clock, and its callbacks do not run while the clock is paused. So several simulated
processes in one loop can have different clocks, and can freeze.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
import selectors
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar, TypeVarTuple
from weakref import ref

from manager_tools.simulation.guards import in_thread, operators_line
from manager_tools.simulation.services import Services

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = 1_800_000_000.0
TICKS = 1_000_000
"""The number of steps of time per second: microseconds, so that sums of durations are exact."""
ROUNDING = 1e-3
"""The share of a step that may be an error of floating-point rounding."""


@dataclass(eq=False)
class ProcessClock:
    """A clock that shows `offset` seconds plus `rate` seconds per true second.

    Its time of day advances at `rate`, too, and is wrong by `skew` seconds at the true time 0.
    """

    rate: float = 1.0
    offset: float = 0.0
    skew: float = 0.0
    paused: list[asyncio.Handle] | None = field(default=None, repr=False)
    """The callbacks that wait while the process is frozen; None if it is not frozen."""
    most_turns: int = 2**62
    """The maximum number of callbacks per minute; above it `overworked` is called, to pause or raise."""
    overworked: Callable[[], None] = field(default=lambda: None, repr=False)
    turns: int = 0
    minute: int = 0

    def drift(self, rate: float) -> None:
        """Change the rate; the clock's current time stays the same."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        now, before = loop.true_time, self.rate
        self.rate = rate
        self.offset += now * (before - rate)
        self.skew += now * (before - rate)
        for place, (when, number, timer) in enumerate(loop._scheduled):
            if timer._context.get(process_clock, TRUE_CLOCK) is self:
                timer._when = now + (when - now) * before / rate
                loop._scheduled[place] = timer._when, number, timer
        heapq.heapify(loop._scheduled)

    def be_right(self) -> None:
        """Advance at the true rate from now on, and show the true time of day."""
        self.drift(1.0)
        self.skew = 0.0

    def resume(self) -> None:
        """End a freeze, and schedule the callbacks that became due during the freeze."""
        waiting, self.paused = self.paused or (), None
        loop: Any = asyncio.get_running_loop()
        loop._ready.extend(waiting)


TRUE_CLOCK = ProcessClock()

process_clock: ContextVar[ProcessClock] = ContextVar("process_clock", default=TRUE_CLOCK)


def _refused(method: str) -> Any:
    async def refuse(loop: VirtualLoop, *_: Any, **__: Any) -> NoReturn:
        loop.services.refuse(f"loop.{method}() is called")

    return refuse


class NotVirtual(RuntimeError):
    """An error: the running loop does not support virtual time."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time; the module's docstring describes it."""

    # Attributes of the standard library's event loops that type stubs lack.
    _ready: Any
    _closed: bool
    _debug: bool
    _stopping: bool
    _default_executor: Any
    _selector: Any
    _scheduled: list[Any]
    """The timers, each after its time and number, so that timers themselves are never compared."""

    def __init__(self, rng: random.Random | None = None) -> None:
        super().__init__(selectors.SelectSelector())  # the selector is never polled
        self._begin(0, rng)

    def _begin(self, ticks: int, rng: random.Random | None = None) -> None:
        self._ticks = ticks
        self._timers = 0
        self._rng = rng
        self._epoch = EPOCH - ticks / TICKS
        self.on_wall_clock: Callable[[], None] = lambda: None
        """A callback for each read of the time of day."""
        self.services = Services()
        """The services that can be reached by name."""
        self._clock_resolution = 0.5 / TICKS

    @property
    def true_time(self) -> float:
        """Return the loop's seconds, from 0 in a new loop, independent of the processes' clocks."""
        return self._ticks / TICKS

    def time(self) -> float:
        """Return the seconds on the clock of the calling process."""
        clock = process_clock.get()
        return self._ticks / TICKS * clock.rate + clock.offset

    def wall_clock(self) -> float:
        """Return the time of day, in Unix seconds, that `manager.util.clock.now` shows."""
        self.on_wall_clock()
        clock = process_clock.get()
        return self._epoch + self.true_time * clock.rate + clock.skew

    def set_wall_clock(self, seconds: float) -> None:
        """Set `wall_clock` to a time in Unix seconds; it then advances with the virtual time."""
        self._epoch += seconds - self.wall_clock()

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule a timer as in any loop; `when` is on the clock of the calling process."""
        clock = process_clock.get()
        if clock is not TRUE_CLOCK:
            # Fire slightly late rather than early after rounding errors.
            when = (when - clock.offset) / clock.rate + 1 / TICKS
        if self._closed:
            raise RuntimeError("Event loop is closed")
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        timer._scheduled = True  # type: ignore[attr-defined] # asyncio has it, its types do not
        self._timers += 1
        heapq.heappush(self._scheduled, (when, self._timers, timer))
        return timer

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule a timer as in any loop; `delay` is in seconds on the clock of the calling process."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def create_task(  # type: ignore[override]
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **more: Any
    ) -> asyncio.Task[Any]:
        """Create a task as in any loop, and record the process that owns it."""
        task: asyncio.Task[Any] = super().create_task(coro, name=name, context=context, **more)
        owned: Any = task
        owned.process_clock = (
            process_clock.get() if context is None else context.get(process_clock, TRUE_CLOCK)
        )
        if (starter := asyncio.current_task(self)) is not None:
            owned.started_by = ref(starter)
        return task

    def tasks_of(self, clock: ProcessClock) -> list[asyncio.Task[Any]]:
        """Return the pending tasks of the process with that clock."""
        return [task for task in asyncio.all_tasks(self) if getattr(task, "process_clock", None) is clock]

    @property
    def timers(self) -> list[Any]:
        """Return the pending timers."""
        return [timer for _, _, timer in self._scheduled if not timer.cancelled()]

    def timers_of(self, clock: ProcessClock) -> list[asyncio.TimerHandle]:
        """Return the pending timers of the process with that clock."""
        return [each for each in self.timers if each._context.get(process_clock, TRUE_CLOCK) is clock]

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run `func` in a thread; virtual time stops until it has ended or calls `ThreadHold.wait`."""
        if executor is None:
            executor = self._default_executor or ThreadPoolExecutor()
            self._default_executor = executor
        heard: SimpleQueue[ThreadHold | None] = SimpleQueue()

        line = operators_line()

        def work() -> T:
            _thread.heard = heard
            with in_thread(line):
                return func(*args)

        running = executor.submit(work)
        running.add_done_callback(lambda _: heard.put(None))
        hold = heard.get()
        if hold is not None:
            hold.held.append(running)
            return asyncio.wrap_future(running, loop=self)
        # Python versions differ in whether a done future calls back at once or in the next turn.
        ended: asyncio.Future[T] = self.create_future()
        self.call_soon(_settle, ended, running)
        return ended

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: all functions in the executor's threads have ended."""

    # The network

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        """Return the simulated address of a service; refuse an unknown name."""
        number = int(port or 0)
        address = self.services.look_up(_text(host), number)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, number))]

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connect a socket to the service at the address; the socket itself transfers no data."""
        self.services.take(sock, str(address[0]), int(address[1]))

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        sock: socket.socket | None = None,
        **_: Any,
    ) -> tuple[asyncio.Transport, Any]:
        """Connect a protocol to the service at this host and port, or at the socket's address."""
        where = (_text(host or ""), int(port or 0)) if sock is None else sock
        return self.services.connect(protocol_factory, where, ssl)

    async def start_tls(self, transport: Any, *_: Any, **__: Any) -> Any:
        """Return the transport unchanged, because the simulated network is not encrypted."""
        return transport

    async def getnameinfo(self, sockaddr: Any, *_: Any) -> NoReturn:
        """Raise NotRepeatable, because the call needs a network."""
        self.services.refuse(f"the name of {sockaddr[0]} is looked up")

    create_datagram_endpoint = _refused("create_datagram_endpoint")
    create_server = _refused("create_server")
    create_unix_connection = _refused("create_unix_connection")
    create_unix_server = _refused("create_unix_server")

    def _run_once(self) -> None:
        """Run callbacks as asyncio's loops do, but in virtual time; callbacks of frozen processes wait.

        One call runs all iterations until the loop stops, because one call for each would be slower.
        """
        ready, shuffles = self._ready, self._rng is not None
        while True:
            self._add_due()
            turn = list(ready)
            ready.clear()
            if shuffles and len(turn) > 1:
                self._shuffle(turn)
            minute = self._ticks // (60 * TICKS)
            for handle in turn:
                if handle._cancelled:
                    continue
                context = handle._context
                clock = context.get(process_clock, TRUE_CLOCK)
                if clock.minute != minute:
                    clock.minute, clock.turns = minute, 0
                clock.turns += 1
                if clock.turns > clock.most_turns and clock.paused is None:
                    clock.overworked()
                if clock.paused is not None:
                    clock.paused.append(handle)
                    continue
                try:
                    context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - as in any loop
                    what = f"Exception in callback {handle!r}"
                    self.call_exception_handler({"message": what, "exception": error, "handle": handle})
            if self._stopping or self.__class__ is not VirtualLoop:
                return

    def _add_due(self) -> None:
        """Make due timers ready; if no callback is ready, advance the time to the next timer.

        Then time advances by at least one step, or a task whose timer is early by rounding would never end.
        """
        scheduled, ready = self._scheduled, self._ready
        while scheduled and scheduled[0][2]._cancelled:
            heapq.heappop(scheduled)
        if not ready and not self._stopping:
            if not scheduled:
                raise RuntimeError("the simulation has come to a standstill: no timer, nothing to run")
            due = math.ceil(scheduled[0][0] * TICKS - ROUNDING)
            self._ticks = max(due, self._ticks + 1)
        now = self._ticks / TICKS + self._clock_resolution
        while scheduled and scheduled[0][0] < now:
            ready.append(heapq.heappop(scheduled)[2])

    def _shuffle(self, turn: list[Any]) -> None:
        """Shuffle the tasks among the callbacks in `turn`; all other callbacks keep their places."""
        assert self._rng is not None
        places = [place for place, each in enumerate(turn) if _is_task(each)]
        if len(places) > 1:
            tasks = [turn[place] for place in places]
            chance = self._rng.random
            tasks.sort(key=lambda _: chance())
            for place, task in zip(places, tasks, strict=True):
                turn[place] = task


def _text(host: str | bytes) -> str:
    return host.decode() if isinstance(host, bytes) else host


def _is_task(handle: Any) -> bool:
    return isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)


def _settle(future: asyncio.Future[T], ended: Future[T]) -> None:
    if future.done():
        return
    if (error := ended.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(ended.result())


_thread = threading.local()


class ThreadHold:
    """A gate that blocks threads for some virtual time, from their call of `wait` until `release`."""

    def __init__(self) -> None:
        self.held: list[Future[Any]] = []
        self._released = threading.Event()

    def wait(self) -> None:
        """Block the calling thread until the hold is released."""
        if not self._released.is_set():
            _thread.heard.put(self)
            self._released.wait(30)  # do not hang if the test fails earlier

    def release(self) -> None:
        """Let the waiting threads continue, and return when they have ended."""
        ended: SimpleQueue[Future[Any]] = SimpleQueue()
        for each in self.held:
            each.add_done_callback(ended.put)
        self._released.set()
        for _ in self.held:
            ended.get()


def freeze(seconds: float) -> None:
    """Let `seconds` pass while no callback runs, as during a long computation."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop._ticks += round(seconds * TICKS)


@contextmanager
def virtual_time(start: float | None = None) -> Iterator[VirtualLoop]:
    """Put the running loop into virtual time during the block; its wall clock begins at `start` (Unix time).

    Timers that are already set keep their times. The loop does not read from its open sockets during the
    block. Raises NotVirtual for a loop that is not asyncio's own.
    """
    running: Any = asyncio.get_running_loop()
    kind: Any = type(running)
    if issubclass(kind, VirtualLoop):
        if start is not None:
            running.set_wall_clock(start)
        yield running
        return
    if kind is not asyncio.SelectorEventLoop:
        kind = f"{kind.__module__}.{kind.__qualname__}"
        raise NotVirtual(f"virtual time needs asyncio.SelectorEventLoop, and the running loop is a {kind}")
    selector, resolution, since = running._selector, running._clock_resolution, running.time()
    running.__class__ = VirtualLoop
    running._begin(math.ceil(since * TICKS))
    running._selector = selectors.SelectSelector()
    running._scheduled = [(each._when, -1 - index, each) for index, each in enumerate(running._scheduled)]
    heapq.heapify(running._scheduled)
    running.set_wall_clock(EPOCH if start is None else start)
    try:
        yield running
    finally:
        ended, left = running.time(), running.timers
        running.__class__ = asyncio.SelectorEventLoop
        running._selector.close()
        running._selector, running._clock_resolution = selector, resolution
        for timer in left:
            timer._when += running.time() - ended
        running._scheduled = left
        heapq.heapify(left)
        running._timer_cancelled_count = 0


def simulate(main: Coroutine[Any, Any, T], rng: random.Random | None = None) -> T:
    """Run a coroutine in a new `VirtualLoop`, and return its result.

    `rng` shuffles the tasks that are ready at the same time; None keeps their order.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(rng)) as runner:
        return runner.run(main)
