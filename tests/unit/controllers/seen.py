"""Operator on an in-process control plane, with counts of its reconciles and writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

from devcluster.errors import StatusError
from devcluster.http_call import ApiRequest, ApiResponse
from manager import AnyOperator
from manager_tools.testing import World, operated

Object = dict[str, Any]
NAMESPACE = "default"


class Seen:
    """Observer of one operator; `api` is another client of the control plane."""

    def __init__(self, world: World, operator: AnyOperator) -> None:
        self.world, self.api = world, world.cluster.client
        self._name, self._kind = operator.name, operator.kind
        self.resource = f"{operator.kind.plural}.{operator.kind.gvk.group}"
        self.writes = self.refusals = 0
        """Number of patches that the server has handled, and number of next patches that it refuses."""
        self._answer = world.cluster.handle
        world.cluster.handle = self._seen  # type: ignore[method-assign]

    async def _seen(self, request: ApiRequest) -> ApiResponse:
        if request.method == "PATCH" and f"/{self._kind.plural}/" in request.path:
            if self.refusals:
                self.refusals -= 1
                raise StatusError(500, "InternalError", "by the test")
            self.writes += 1
        return await self._answer(request)

    @property
    def reconciles(self) -> int:
        """Return the number of reconciles of the operator."""
        samples = self.world.manager.metrics.reconcile_total.collect()[0].samples
        mine = (each for each in samples if each.labels["controller"] == self._name)
        return int(sum(each.value for each in mine if each.name.endswith("_total")))

    async def cost(self, *changes: Awaitable[object]) -> tuple[int, int]:
        """Return the number of reconciles and the number of writes that all these changes cause."""
        reconciles, writes = self.reconciles, self.writes
        for each in changes:
            await each
        await asyncio.sleep(60)  # virtual time, in which terminating pods end
        return self.reconciles - reconciles, self.writes - writes

    async def create(self, name: str, spec: Any, **metadata: Any) -> None:
        body = {"metadata": {"name": name, **metadata}, "spec": spec}
        await self.api.create(self.resource, NAMESPACE, body)

    async def patch(self, name: str, **changes: Any) -> None:
        await self.api.patch(self.resource, NAMESPACE, name, changes)

    def status(self, name: str) -> Object:
        return self.api.peek(self.resource, NAMESPACE, name).get("status", {})

    async def events_of(self, name: str) -> list[tuple[str, int]]:
        """Return reason and count of each Event about an object, the oldest first."""
        await self.world.manager.events.flush(1.0)
        events = self.api.list("events", NAMESPACE)
        about = [each for each in events if each["involvedObject"]["name"] == name]
        about.sort(key=lambda each: int(each["metadata"]["resourceVersion"]))
        return [(each["reason"], each["count"]) for each in about]


@asynccontextmanager
async def seen(operator: AnyOperator, *more: AnyOperator) -> AsyncIterator[Seen]:
    """Run the operators on a new control plane; yield an observer of the first operator."""
    async with operated(operator, *more) as world:
        found = Seen(world, operator)
        await asyncio.sleep(1)
        yield found
