"""What befalls a process between a reconciler and the servers that it calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any


class Died(BaseException):
    """The process ended here."""


class Hold:
    """Somebody waits for an answer, although what was asked for is done."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        await self.released.wait()


class Fate:
    """What happens at each point, counted from 0.

    An answer is `lost before` or `lost after` what was asked for is done, the process has `died before` or
    `died after` it, or it is refused with an exception.
    """

    def __init__(self, script: Mapping[int, str | Exception] | None = None) -> None:
        self.script = script or {}
        self.meanwhile: dict[int, Callable[[], object]] = {}
        """What somebody else does just before a point is passed."""
        self.passed: list[str] = []
        self._holds: dict[str, Hold] = {}

    def hold(self, what: str) -> Hold:
        """Hold up the next answer to a call of that name."""
        self._holds[what] = Hold()
        return self._holds[what]

    async def pass_through(self, what: str, call: Callable[[], Awaitable[Any]], lost: Exception) -> Any:
        """Do `call`, or not, and tell of it, or not."""
        blow = self.script.get(len(self.passed), "")
        self.meanwhile.pop(len(self.passed), lambda: None)()
        self.passed.append(what)
        if isinstance(blow, Exception):
            raise blow
        if blow == "lost before":
            raise lost
        if blow == "died before":
            raise Died
        answer = await call()
        if what in self._holds:
            await self._holds.pop(what).wait()
        if blow == "lost after":
            raise lost
        if blow == "died after":
            raise Died
        return answer
