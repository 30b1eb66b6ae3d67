"""The event loop: the scheduling of long work, deadlines, the lag of timers, and threads."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

import msgspec
from prometheus_client import Histogram

T = TypeVar("T")

SMALL = 64 * 1024
"""Bytes of JSON that can be read in a few milliseconds, whatever their content."""

_LAG_INTERVAL = 1.0

_MOST = 32
"""The maximum number of threads of each group: Python's largest default. They are created on demand."""

_is_work: ContextVar[bool] = ContextVar("is_work", default=False)
_asked: ContextVar[set[Future[Any]] | None] = ContextVar("asked", default=None)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the constructor of the event loop: uvloop if it is installed, otherwise the standard one."""
    try:
        import uvloop  # noqa: PLC0415 - 3 ms, 1.5 MB; not available on every platform
    except ImportError:
        return asyncio.new_event_loop

    class ExactLoop(uvloop.Loop):
        """A uvloop with `time.monotonic` as its clock.

        uvloop's own clock counts milliseconds, and stands still while callbacks run, even if the process is
        suspended meanwhile.
        """

        time = staticmethod(time.monotonic)

    return ExactLoop


async def observe_lag(lag: Histogram) -> None:
    """Record, once a second and until cancelled, how late the loop runs a timer."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LAG_INTERVAL
        await asyncio.sleep(_LAG_INTERVAL)
        lag.observe(max(0.0, loop.time() - due))


class _OwnThreads(Executor):
    """An executor that runs each call in a new daemon thread."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        result: Future[T] = Future()
        result.set_running_or_notify_cancel()  # the call continues after its caller is cancelled

        def run() -> None:
            try:
                result.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                result.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return result


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a new thread, for which the end of the process does not wait.

    Reconcilers may occupy the few threads of `asyncio.to_thread` for long. Work for the API server, such as
    reading a token or looking up the server's address, must not wait for these threads, because reconcilers
    and the lease need it.
    """
    return await asyncio.get_running_loop().run_in_executor(_OwnThreads(), work)


_waiting: dict[asyncio.AbstractEventLoop, deque[asyncio.Future[None]]] = {}
"""The callers that wait for a turn, by their loops."""


async def own_turn(size: int) -> None:
    """Wait until the event loop has time to process `size` bytes; return at once for few bytes.

    In each iteration, one caller continues, in the order of the calls: all together would block the loop.
    """
    if size <= SMALL:
        return
    loop = asyncio.get_running_loop()
    if loop not in _waiting:
        _waiting[loop] = deque()
        loop.call_soon(_begin_next, loop)
    turn = loop.create_future()
    _waiting[loop].append(turn)
    await turn


def _begin_next(loop: asyncio.AbstractEventLoop) -> None:
    queue = _waiting[loop]
    while queue:
        if not (turn := queue.popleft()).done():  # the future of a cancelled caller is done
            turn.set_result(None)
            loop.call_soon(_begin_next, loop)
            return
    del _waiting[loop]


async def unless(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> tuple[T] | None:
    """Return the result of `work` in a tuple; None if the event is set first, which cancels `work`."""
    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, waiting):
            task.cancel()
        await asyncio.wait((working, waiting))
    return None if working.cancelled() else (working.result(),)


class Portions:
    """The division of long work into portions of some milliseconds, so that other tasks run in between.

    Call `await portions.begin(len(record.raw))` before each step of the work.
    """

    _size = 0

    async def begin(self, size: int) -> None:
        """Begin a step with `size` bytes of JSON; wait first if the steps since the last wait are large."""
        self._size += size
        if self._size > SMALL:
            await own_turn(self._size)
            self._size = size


class WorkThreads(ThreadPoolExecutor):
    """A thread pool for `asyncio.to_thread` that knows whether a thread still does the controllers' work.

    A thread continues after its caller was cancelled. So a call that was made in `context` counts as work,
    even if its caller has ended. All other calls use separate threads.

    Attributes: `busy`, the futures of such calls; see `ended`.
    """

    def __init__(self) -> None:
        super().__init__(_MOST, thread_name_prefix="work")
        self.busy: set[Future[Any]] = set()
        self._others = ThreadPoolExecutor(_MOST, thread_name_prefix="asyncio")

    @staticmethod
    def context() -> Context:
        """Return a copy of the current context; calls in it, and in its copies, count as work."""
        context = copy_context()
        context.run(_is_work.set, True)
        return context

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Submit a call like any executor; the name of a thread with work contains the calling task."""
        if not _is_work.get():
            return self._others.submit(fn, *args, **kwargs)
        future = super().submit(_named, _asking(), partial(fn, *args, **kwargs))
        for busy in (self.busy, _asked.get()):
            if busy is not None:
                busy.add(future)
                future.add_done_callback(busy.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut down the threads for work and all other threads, like any executor."""
        self._others.shutdown(wait, cancel_futures=cancel_futures)
        super().shutdown(wait, cancel_futures=cancel_futures)


def threads_from_here() -> set[Future[Any]]:
    """Return a set that will contain the `WorkThreads` threads of the calling task, and of tasks it starts.

    Threads that have ended leave the set.
    """
    threads: set[Future[Any]] = set()
    _asked.set(threads)
    return threads


async def ended(threads: set[Future[Any]]) -> None:
    """Wait until the set, as returned by `threads_from_here`, is empty."""
    loop = asyncio.get_running_loop()

    def notify(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed, and no task waits any more
            loop.call_soon_threadsafe(over.set)

    while busy := tuple(threads):
        over = asyncio.Event()
        busy[0].add_done_callback(notify)
        await over.wait()


def _asking() -> str:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return ""  # called in a thread
    return "" if task is None else f" for {task.get_name()}"


def _named(name: str, work: Callable[[], T]) -> T:
    thread = threading.current_thread()
    before = thread.name
    thread.name = before + name
    try:
        return work()
    finally:
        thread.name = before


class Deadline(msgspec.Struct, eq=False):
    """The deadline of one block of code in one task; created by `Deadlines.start`.

    Write the block like this, because a context manager would cost more than all the rest:

        deadline = deadlines.start(seconds)
        try:
            ...
        except asyncio.CancelledError:
            if deadline.missed():
                raise SomeError from None
            raise
        finally:
            deadlines.stop(deadline)
    """

    when: float
    task: asyncio.Task[object]
    cancelling: int
    """The number of cancellations of the task at the start of the block."""
    expired: bool = False
    is_settled: bool = False

    def missed(self) -> bool:
        """Return whether only this deadline has caused the cancellation that was just caught."""
        return self.expired and self.settle() <= self.cancelling

    def settle(self) -> int:
        """Undo this deadline's cancellation if it is not yet undone; return how many others remain."""
        was_settled, self.is_settled = self.is_settled, True
        return self.task.cancelling() if was_settled else self.task.uncancel()


class Deadlines:
    """Deadlines of many concurrent awaits with one timer, at a fraction of the cost of `asyncio.timeout`.

    The timer is set for the earliest deadline, and not changed when a block ends in time.
    """

    def __init__(self) -> None:
        self._running: dict[Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = math.inf

    def start(self, seconds: float) -> Deadline:
        """Begin a block of the current task that has to end within `seconds`."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        deadline = Deadline(loop.time() + seconds, task, task.cancelling())
        self._running[deadline] = None
        if deadline.when < self._armed_for:
            self._arm(deadline.when)
        return deadline

    def stop(self, deadline: Deadline) -> None:
        """End the block."""
        del self._running[deadline]
        if deadline.expired:
            deadline.settle()

    def close(self) -> None:
        """Cancel the timer, after all blocks have ended."""
        self._arm(math.inf)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = when
        self._timer = asyncio.get_running_loop().call_at(when, self._fire) if when < math.inf else None

    def _fire(self) -> None:
        now = asyncio.get_running_loop().time()
        running = [each for each in self._running if not each.expired]
        for deadline in running:
            if deadline.when <= now:
                deadline.expired = True
                deadline.task.cancel()
        self._arm(min((each.when for each in running if not each.expired), default=math.inf))
