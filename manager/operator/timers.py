"""Methods that are called at intervals: `@every(30)`."""

from __future__ import annotations

import asyncio
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from manager.api import ObjectKey
from manager.cache import Informer
from manager.controller import TickerSource
from manager.controller.failure import Failure, explain
from manager.process.manager import Runnable
from manager.settings import Setting
from manager.telemetry.logs import get_logger
from manager.util.rate_limit import Repeats

if TYPE_CHECKING:
    from manager.operator.operator import Operator

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__every__"
_OF_AN_OBJECT, _OF_THE_OPERATOR = 2, 0


@dataclass(frozen=True, slots=True)
class Timer:
    """A method that is called every `seconds`."""

    name: str
    seconds: float | Setting[float]
    jitter: float
    for_each: bool
    """For each object, or once for all."""


def every(seconds: float | Setting[float], *, jitter: float = 0.1) -> Callable[[F], F]:
    """Call the method of an operator every so many seconds, plus or minus the part `jitter`.

    With `(self, obj, ctx)` it is called for each object that exists and is not being deleted, just before its
    `reconcile`; its changes of the status are written with it. With `(self)` it is called once for all
    objects, in the leader, once the caches are in sync. `seconds` may be a Setting.

    An exception of the first form is an error of the reconcile, and retried like one. After TerminalError,
    the object is called for again once something has changed. An exception of the second form is logged.
    """
    if not isinstance(seconds, Setting) and not seconds > 0:
        raise ValueError(f"@every needs more than 0 seconds, not {seconds}")
    if not 0 <= jitter <= 1:
        raise ValueError(f"@every needs a jitter from 0 to 1, not {jitter}")

    def mark(method: F) -> F:
        setattr(method, _MARK, (seconds, jitter))
        return method

    return mark


def timers_of(cls: type, members: Mapping[str, Any]) -> Iterator[Timer]:
    """Yield the timers among an operator's members. Raises TypeError for an unsuitable method."""
    for name, member in members.items():
        if (marked := getattr(member, _MARK, None)) is None:
            continue
        takes = len(inspect.signature(member).parameters) - 1
        if not inspect.iscoroutinefunction(member) or takes not in {_OF_AN_OBJECT, _OF_THE_OPERATOR}:
            raise TypeError(
                f"{cls.__name__}.{name}: @every is for `async def {name}(self, obj, ctx)`, or for "
                f"`async def {name}(self)`, which is called once for all objects"
            )
        yield Timer(name, marked[0], marked[1], for_each=takes == _OF_AN_OBJECT)


class Timers:
    """Timers of one operator, and the objects for which they are due."""

    def __init__(self, operator: Operator[Any]) -> None:
        self._operator = operator
        self.due: defaultdict[ObjectKey, dict[str, None]] = defaultdict(dict)
        """The names of each object's timers that are due."""

    def sources(self, objects: Informer) -> Iterator[TickerSource]:
        """Yield sources that enqueue each object when one of its timers is due."""
        rng = self._operator.manager.rng
        for timer in self._operator.timers:
            if timer.for_each:
                ask = self._asks(timer, objects)
                yield TickerSource(self._seconds(timer), ask, jitter=timer.jitter, why="timer", rng=rng)

    def runnables(self, informers: Iterable[Informer]) -> Iterator[Runnable]:
        """Yield the runnables of timers for all objects; each waits until `informers` are in sync."""
        informers = tuple(informers)
        for timer in self._operator.timers:
            if not timer.for_each:
                run = self._calls(timer, informers)
                yield Runnable(f"{self._operator.name}-{timer.name}", run, leader_only=True)

    def take(self, key: ObjectKey) -> tuple[str, ...]:
        """Return the names of the object's due timers, and clear them."""
        return tuple(self.due.pop(key, ()))

    def give_back(self, key: ObjectKey, names: Iterable[str]) -> None:
        """Mark timers of an object as due again."""
        self.due[key] |= dict.fromkeys(names)

    def _seconds(self, timer: Timer) -> float:
        seconds = timer.seconds
        return self._operator.settings[seconds] if isinstance(seconds, Setting) else seconds

    def _asks(self, timer: Timer, objects: Informer) -> Callable[[], list[ObjectKey]]:
        def ask() -> list[ObjectKey]:
            keys = [record.key for record in objects.list() if not record.deleting]
            for key in keys:
                self.due[key][timer.name] = None
            # The method is called with the reconcile that a change asks for.
            return [key for key in keys if not self._operator.failure_reports.is_terminal(key)]

        return ask

    def _calls(self, timer: Timer, informers: tuple[Informer, ...]) -> Callable[[], Any]:
        async def run() -> None:
            for informer in informers:
                await informer.wait_synced()
            call, rng, seconds = (
                getattr(self._operator, timer.name),
                self._operator.manager.rng,
                self._seconds(timer),
            )
            repeats = Repeats()
            while True:
                await asyncio.sleep(seconds * (1 + rng.uniform(-timer.jitter, timer.jitter)))
                try:
                    await call()
                except Exception as error:  # noqa: BLE001 - the operator's code may raise anything
                    if (times := repeats.count()) is not None:
                        trace = error if Failure.of(error).has_traceback else None
                        get_logger("controller").error(
                            "a timer failed",
                            controller=self._operator.name,
                            timer=timer.name,
                            error=explain(error),
                            times=times,
                            exc_info=trace,
                        )

        return run
