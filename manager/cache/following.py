"""Following the objects of ranges that change: what is new is listed, and then all of it is watched."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from manager.cache.intake import Intake
from manager.cache.reflector import Reflector
from manager.shards.ranges import Ranges

# Ranges are given up one by one. What others work on may arrive for so long; it is dropped.
NARROW_AFTER = 5.0


class RangeFollower:
    """Keeps the intake of one namespace at the ranges that are wanted.

    While more is listed, the watch of what was known goes on. The next one begins where both are complete, so
    nothing is missed, and nothing is listed twice. When that does not succeed at once, all is listed anew.
    """

    def __init__(self, intake: Intake, reflector: Reflector) -> None:
        assert intake.ranges is not None
        self._intake = intake
        self._reflector = reflector
        self._wanted = intake.ranges
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        reflector.ranges = intake.ranges

    def want(self, ranges: Ranges) -> None:
        """From now on these are wanted, and nothing of others is taken in any more."""
        self._wanted = ranges
        self._intake.leave(ranges)
        self._changed.set()

    async def run(self) -> None:
        """Follow the server until cancelled."""
        async with asyncio.TaskGroup() as watches:
            while True:
                await self._changed.wait()
                self._changed.clear()
                more = self._wanted - self._taken
                if more.numbers:
                    await self._take(more)
                elif self._reflector.ranges == self._taken:
                    continue
                else:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(NARROW_AFTER):
                            await self._changed.wait()
                    if self._changed.is_set():
                        continue
                    if self._taken.numbers and not self._reflector.follows:
                        self._changed.set()  # what is listed now would be listed again
                        continue
                    await self._end_watch()
                # What is taken in may have become less meanwhile.
                self._reflector.ranges = self._taken
                if self._taken.numbers:
                    self._watching = watches.create_task(self._reflector.run(), name="watch ranges")
                else:
                    self._reflector.problem = None  # nothing is asked for
                if self._taken != self._wanted:
                    self._changed.set()

    @property
    def _taken(self) -> Ranges:
        assert self._intake.ranges is not None
        return self._intake.ranges

    async def _take(self, more: Ranges) -> None:
        found = None
        if self._intake.known and self._reflector.follows:
            found = await self._reflector.list_more(more)
        await self._end_watch()
        wanted = self._wanted
        if found is not None and self._reflector.follows:
            listed, version = found
            self._intake.extend(more & wanted, listed, version)
        else:
            self._intake.restart(wanted)
            self._reflector.start_over()

    async def _end_watch(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None
