"""A watchdog that ends a process which does not end by itself, and logs what still ran."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, Self

from manager.telemetry.logs import get_logger

_SIGNALS = signal.SIGTERM, signal.SIGINT
_FORCED = 1
_STDERR = 2
_LAST_LINES = 0.5
"""Seconds for which a forced end waits for the last log lines, at most."""
_DEEPEST = 20
"""The number of innermost steps of a stack that are shown."""
_LOOK = b"\0"
_SOONEST = 0.001
"""Seconds; a short time that `faulthandler` accepts: it refuses zero, and less."""
_MOST = 10
"""The number of tasks that are shown."""
_BLOCKED = 0.1
"""Seconds between two checks of the loop; a task may block the loop for as long without being named."""
_BLOCKED_AGAIN = 60.0
_AWAITED = ("cr_await", "gi_yieldfrom", "ag_await")
_RECONCILES = "-worker-"
"""A part of the names of tasks that call reconcilers. Other tasks also compute, for example at the start."""


@dataclass(frozen=True, slots=True, order=True)
class _Limit:
    when: float
    latest: float
    since: float
    what: str


class Watchdog:
    """A watchdog that ends the process at a set time, even if the event loop is blocked then.

    A task may swallow its cancellation, a thread cannot be cancelled, and a blocked loop runs no timer: none
    of these may keep a process alive that has lost its lease, or that was asked to stop. Times are those of
    `time.monotonic`, the clock of the program's event loop.

    Inside its context, a thread logs what still runs and ends the process. If that thread cannot run in time,
    because other code holds the interpreter's lock or the process was frozen, `faulthandler` ends the
    process. The watchdog also names a reconciler that blocks the loop, because it computes, or waits without
    `await`.
    """

    def __init__(
        self, *, stop_within: float = 0.0, before_exit: Callable[[float], object] | None = None
    ) -> None:
        """Create a watchdog; the process has `stop_within` seconds after the first `stopping` to end.

        The exit flushes no buffers, so `before_exit` is called first, with its time limit in seconds.
        """
        self._stop_within = stop_within
        self._before_exit = before_exit
        self._loop: asyncio.AbstractEventLoop | None = None
        self._limits: dict[str, _Limit] = {}
        self._thread: threading.Thread | None = None
        self._armed: float | None = None
        """The time at which `faulthandler` ends the process."""
        self._arming = threading.Lock()
        self._reader = self._writer = -1
        self._stop: Callable[[], object] | None = None
        """Asks the loop to stop, while signals are heard."""
        self._is_asked = False
        self._over = False
        self._blocking: tuple[asyncio.Task[Any], threading.Event] | None = None
        self._warn_from = 0.0
        self._other_threads: set[threading.Thread] = set()
        self._log = get_logger("watchdog")

    def __enter__(self) -> Self:
        self._other_threads = set(threading.enumerate())
        # Bind the logger now: it may be needed when logging is already turned off.
        self._log = self._log.bind()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()
        self._arm()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        frames, ours = _frames(), {self._thread, *self._other_threads}
        if any(_is_at_work(each, frames) for each in threading.enumerate() if each not in ours):
            # The interpreter waits for these threads, so the watchdog is still needed.
            self.stopping()
            return
        self._over = True
        if self._armed is not None:
            faulthandler.cancel_dump_traceback_later()
        self._poke()
        self._thread.join()
        self._thread = self._armed = None
        writer, self._writer = self._writer, -1
        os.close(writer)
        os.close(self._reader)

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Observe this loop: log reconciles that block it, and its remaining tasks at a forced end."""
        self._loop = loop
        self._poke()

    def limit(self, what: str, when: float, *, latest: float, since: float) -> None:
        """End the process at `when`, unless this is called again with the same `what`, or `lift` is called.

        Never waits. The last log lines report `what` and `since`. At `latest`, the process ends even without
        these lines.
        """
        self._limits[what] = _Limit(when, latest, since, what)
        self._arm()
        self._poke()

    def lift(self, what: str) -> None:
        """Remove the limit for `what`, if there is one."""
        if self._limits.pop(what, None) is not None:
            self._arm()

    def stopping(self) -> None:
        """Begin the time limit of the stop; later calls have no effect."""
        what = "asked to stop"
        if what not in self._limits:
            now = time.monotonic()
            when = now + self._stop_within
            self.limit(what, when, latest=when + 2 * _LAST_LINES, since=now)

    @contextmanager
    def stop_on_signals(self) -> Iterator[asyncio.Event]:
        """Watch the running loop, and yield an event that the first SIGTERM or SIGINT in the block sets.

        The second signal exits at once with code 1. Both signals work even if the loop is blocked. Use it in
        the main thread.
        """
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self.watch(loop)
        self._stop = partial(loop.call_soon_threadsafe, stop.set)
        self._is_asked = False
        # Not the loop's own handler, which waits until the loop has time. This handler only makes Python
        # catch the signals.
        earlier = {number: signal.signal(number, self._caught) for number in _SIGNALS}
        before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        try:
            yield stop
        finally:
            signal.set_wakeup_fd(before)
            self._stop = None
            for number, handler in earlier.items():
                signal.signal(number, handler)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal even if an operator has set a signal handler of the event loop.

        It runs when the main thread has time, and ensures that later signals are handled at once.
        """
        del frame
        if self._writer < 0 or self._stop is None:
            return
        if signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False) != self._writer:
            with suppress(BlockingIOError):
                os.write(self._writer, bytes([number]))

    def _hear(self, number: int) -> None:
        stop = self._stop  # read it once: the block may end meanwhile
        if stop is None or number not in _SIGNALS:
            return
        log, name = get_logger("signals"), signal.Signals(number).name
        if self._is_asked:
            self._exit(partial(log.error, "a second signal ends the process", signal=name), 2 * _LAST_LINES)
            return
        self._is_asked = True
        self.stopping()
        log.info("received a signal to stop; a second signal ends the process immediately", signal=name)
        with suppress(RuntimeError):  # the loop has just been closed
            stop()

    def due(self) -> float | None:
        """Return the time at which the process will be ended; None if no limit is set."""
        earliest = min(tuple(self._limits.values()), default=None)
        return None if earliest is None else earliest.when

    def _arm(self) -> None:
        """Make `faulthandler` end the process at the earliest time `latest` of any limit."""
        with self._arming:  # the loop's thread sets limits, and this thread does when a signal arrives
            latest = min((limit.latest for limit in tuple(self._limits.values())), default=None)
            if self._thread is None or latest == self._armed:
                return
            self._armed = latest
            if latest is None:
                faulthandler.cancel_dump_traceback_later()
            else:
                left = max(_SOONEST, latest - time.monotonic())
                faulthandler.dump_traceback_later(left, exit=True, file=_STDERR)

    def _poke(self) -> None:
        if self._writer >= 0:
            with suppress(BlockingIOError):  # full: it will look anyway
                os.write(self._writer, _LOOK)

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as error:  # noqa: BLE001 - any error
            # Without the watchdog, the process might never end, so end it at once.
            self._exit(partial(self._log.error, "the watchdog failed", exc_info=error), 2 * _LAST_LINES)

    def _watch(self) -> None:
        readable = select.poll()
        readable.register(self._reader, select.POLLIN)
        while not self._over:
            limit = min(tuple(self._limits.values()), default=None)
            waits = [] if limit is None else [max(0.0, limit.when - time.monotonic())]
            if self._loop is not None:
                waits.append(_BLOCKED)
            if readable.poll(min(waits) * 1000 if waits else None):
                for number in os.read(self._reader, 64):
                    self._hear(number)
                continue
            now = time.monotonic()
            self._look_at_loop(now)
            if limit is None or now < limit.when or self._limits.get(limit.what) is not limit:
                continue  # rounded, moved or lifted
            self._exit(partial(self._log_end, limit), limit.latest - now)
            return

    def _look_at_loop(self, now: float) -> None:
        """Log the reconciler that has blocked the loop since the last check, at most once a minute."""
        loop, before, self._blocking = self._loop, self._blocking, None
        if loop is None or now < self._warn_from:
            return
        try:
            task = asyncio.current_task(loop)
            if task is None or _RECONCILES not in task.get_name():
                return
            if before is not None and before[0] is task and not before[1].is_set():
                stack = traceback.format_stack(_frames().get(threading.main_thread().ident or 0))
                if not before[1].is_set():
                    self._warn_from = now + _BLOCKED_AGAIN
                    self._log.warning(
                        "a reconcile blocks the event loop: it computes, or waits without await",
                        ms=round(_BLOCKED * 1000),
                        task=task.get_name(),
                        stack="".join(stack[-_DEEPEST:]),
                    )
                return
            # This runs when the loop runs any other callback.
            others = threading.Event()
            loop.call_soon_threadsafe(others.set)
            self._blocking = task, others
        except RuntimeError:
            self._loop = None  # the loop is closed

    def _exit(self, last_words: Callable[[], object], left: float) -> None:
        try:
            last_words()
            if self._before_exit is not None:
                # After a freeze nothing is left: then `faulthandler` ends the process at once, with its dump.
                self._before_exit(min(_LAST_LINES, left / 2) if left > 0 else _LAST_LINES)
        finally:
            os._exit(_FORCED)

    def _log_end(self, limit: _Limit) -> None:
        try:
            names, stacks = _still_running(self._loop)
        except Exception as error:  # noqa: BLE001 - the loop may change while it is inspected
            names, stacks = [], f"cannot be shown: {error!r}"
        self._log.error(
            "ended by force: the process did not end in time",
            reason=limit.what,
            seconds=round(time.monotonic() - limit.since, 1),
            still_running=names,
            stack=stacks,
        )


def _still_running(loop: asyncio.AbstractEventLoop | None) -> tuple[list[str], str]:
    """Return names and stacks of the tasks and threads that keep the process from ending.

    These are the running task (if the loop is blocked), cancelled tasks that have not ended, and threads for
    which the interpreter waits. Other tasks are shown only if none of these exists.
    """
    frames, found = _frames(), dict[str, Sequence[str]]()
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and _is_at_work(thread, frames):
            found[f"thread {thread.name}"] = traceback.format_stack(frames[thread.ident or 0])
    if loop is not None:
        running, tasks = asyncio.current_task(loop), asyncio.all_tasks(loop)
        if running is not None:
            frame = frames.get(threading.main_thread().ident or 0)
            found[f"task {running.get_name()}, running"] = traceback.format_stack(frame)
        cancelled = [each for each in tasks if each is not running and each.cancelling()]
        for task in (cancelled or (() if found else list(tasks)))[:_MOST]:
            stack = traceback.StackSummary.extract((each, each.f_lineno) for each in frames_of(task))
            found[f"task {task.get_name()}"] = traceback.format_list(stack)
    return list(found), "\n".join(f"{name}:\n{''.join(stack[-_DEEPEST:])}" for name, stack in found.items())


def frames_of(task: asyncio.Task[Any]) -> Iterator[FrameType]:
    """Yield the frames of a task and all coroutines that it awaits: `Task.get_stack` has one frame."""
    awaited: Any = task.get_coro()
    while awaited is not None:
        for kind in ("cr", "gi", "ag"):
            if (frame := getattr(awaited, f"{kind}_frame", None)) is not None:
                yield frame
        awaited = next(filter(None, (getattr(awaited, name, None) for name in _AWAITED)), None)


def _frames() -> Mapping[int, FrameType]:
    return sys._current_frames()  # noqa: SLF001 - the documented way


def _is_at_work(thread: threading.Thread, frames: Mapping[int, FrameType]) -> bool:
    """Return whether the interpreter waits for the thread; False for a daemon or an idle pool thread."""
    frame = frames.get(thread.ident or 0)
    if thread.daemon or frame is None:
        return False
    module, function = frame.f_globals.get("__name__"), frame.f_code.co_name
    return (module, function) != ("concurrent.futures.thread", "_worker")
