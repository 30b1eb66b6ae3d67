"""Greetings, and an operator of them whose reconcile calls the test's function."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, ClassVar

from pydantic import Field

from manager import Context, Operator, Result
from manager.api import (
    ApiModel,
    Condition,
    ObjectKey,
    ObjectMeta,
    Resource,
    crd,
    list_map,
)
from manager.telemetry.runs import ReconcileRecord
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Secret
from manager_tools.testing import World


class GreetingStatus(ApiModel):
    """Status of a greeting."""

    text: str = ""
    observed_generation: int | None = None
    conditions: Annotated[list[Condition], list_map("type")] = Field(default_factory=list)


class GreetingSpec(ApiModel):
    """Spec of a greeting."""

    name: str = "you"


@crd()
class Greeting(Resource, group="test.example.com", version="v1", plural="greetings"):
    """A greeting."""

    spec: GreetingSpec = Field(default_factory=GreetingSpec)
    status: GreetingStatus = Field(default_factory=GreetingStatus)


@crd()
class WideGreeting(
    Resource, group="test.example.com", version="v1", plural="widegreetings", namespaced=False
):
    """A greeting to all."""

    spec: GreetingSpec = Field(default_factory=GreetingSpec)
    status: GreetingStatus = Field(default_factory=GreetingStatus)


Act = Callable[["GreetingOperator", Greeting, Context], Awaitable[Result | None]]


class GreetingOperator(Operator[Greeting]):
    """Operator whose reconcile calls the test's function."""

    owns = (Secret,)
    conditions = ("Available", "Progressing", "Degraded")
    act: ClassVar[Any] = None

    def setup(self) -> None:
        self.seen: list[str] = []
        self.forgotten: list[str] = []
        LAST.append(self)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> Result | None:
        self.seen.append(greeting.metadata.name)
        return await type(self).act(self, greeting, ctx)  # type: ignore[no-any-return]

    async def gone(self, key: ObjectKey) -> None:
        self.forgotten.append(key.name)


LAST: list[GreetingOperator] = []


def doing(act: Act, **attributes: Any) -> type[GreetingOperator]:
    """Return an operator whose reconcile calls `act`."""
    kept = {"act": staticmethod(act), "kind": Greeting, "name": "greeting", **attributes}
    return type("Doing", (GreetingOperator,), kept)


def greeting(name: str = "hello", **metadata: Any) -> Greeting:
    return Greeting(metadata=ObjectMeta(name=name, **metadata))


def secret(name: str, namespace: str = "default") -> Secret:
    return Secret(metadata=ObjectMeta(name=name, namespace=namespace), type="Opaque")


def said(obj: Greeting) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in obj.status.conditions}


def writes(world: World) -> int:
    return world.cluster.store.version


async def recorded(world: World, enough: Callable[[list[ReconcileRecord]], bool]) -> list[ReconcileRecord]:
    """Wait for enough reconcile records of the greeting, and return them."""
    runs: list[ReconcileRecord] = []
    while not runs or not enough(runs):
        await asyncio.sleep(0.02)
        runs = world.manager.history.of("greeting").of(ObjectKey("default", "hello"))
    return runs


async def settled(world: World) -> int:
    """Wait until no more writes arrive; return the number of writes."""
    version = -1
    while version != writes(world):
        version = writes(world)
        await asyncio.sleep(0.05)
    return version


NOW = "2026-11-22T10:00:00Z"


WORLD: list[World] = []


def deployment(**changed: Any) -> Deployment:
    """Return a child with lists and an immutable selector."""
    labels = {"app": "hello", **({} if changed.get("fewer") else {"old": "1"})}
    port = {"name": "web", "containerPort": changed.get("port", 80)}
    container = {"name": "main", "image": changed.get("image", "image:1"), "ports": [port]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return Deployment(metadata=ObjectMeta(name="child", namespace="default"), spec=spec)


async def cleanup(self: GreetingOperator, obj: Greeting, ctx: Context) -> Result | None:
    self.seen.append(f"cleanup {obj.metadata.name}")
    ctx.event("Removed", "it is gone", once_written=True)
    return Result(requeue_after=0.01) if self.seen.count("cleanup hello") < 3 else None
