"""Fault injection between a reconciler and the servers that it calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from devcluster import DevCluster
from devcluster.http_call import ApiResponse
from manager.api import Resource
from manager.kube.errors import ConnectionLost
from manager.kube.wire import WireRequest
from manager_tools.testing import LocalWire
from tests.support.petstores import Held


class Died(BaseException):
    """Simulated end of the process."""


class Fate:
    """Script of faults; its keys are the numbers of calls, from 0.

    "lost before" and "lost after" lose the call before or after the server acts; "died before" and "died
    after" end the process at these moments. An exception in the script is raised instead of the call.
    """

    def __init__(self, script: Mapping[int, str | Exception] | None = None) -> None:
        self.script = script or {}
        self.meanwhile: dict[int, Callable[[], object]] = {}
        """Actions of other clients just before the call with this number."""
        self.passed: list[str] = []
        self._holds: dict[str, Held] = {}

    def hold(self, what: str) -> Held:
        """Delay the response to the next call of this name until the test releases it."""
        self._holds[what] = Held()
        return self._holds[what]

    async def pass_through(self, what: str, call: Callable[[], Awaitable[Any]], lost: Exception) -> Any:
        """Make the call; return its response or raise the scripted fault, which is `lost` for a lost call."""
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
            await self._holds.pop(what).hold()
        if blow == "lost after":
            raise lost
        if blow == "died after":
            raise Died
        return answer


class FatefulWire(LocalWire):
    """HTTP wire on which each write is a fault injection point of `fate`."""

    def __init__(self, cluster: DevCluster, fate: Fate) -> None:
        super().__init__(cluster)
        self._fate = fate

    async def answer(self, request: WireRequest) -> ApiResponse:
        if request.method == "GET":
            return await self.ask(request)
        point, ask = self.point(request), partial(self.ask, request)
        return await self._fate.pass_through(point, ask, ConnectionLost("by fate"))

    async def ask(self, request: WireRequest) -> ApiResponse:
        """Send a request to the server, without faults."""
        return await super().answer(request)

    def point(self, request: WireRequest) -> str:
        """Return the name of this write in the list of calls."""
        return f"{request.method} {unquote(urlsplit(request.path).path)}"


class RecordedEvents:
    """Event recorder that keeps all Events and sends none."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str, str]] = []

    def event(self, obj: Resource, kind: str, reason: str, message: str) -> None:
        self.told.append((obj.metadata.name, kind, reason, message))

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """Return the object's name and the reason of each Event."""
        return [(name, reason) for name, _, reason, _ in self.told]
