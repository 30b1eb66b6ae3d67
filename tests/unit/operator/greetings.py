"""Greeting kinds, and an operator whose reconcile calls the test's function."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, ClassVar

from pydantic import Field

from manager import Context, Operator, Result, rbac
from manager.api import ApiModel, Condition, ObjectKey, ObjectMeta, Resource, crd, list_map
from manager.telemetry.runs import ReconcileRecord
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Secret
from manager_tools.testing import World, operated


class GreetingStatus(ApiModel):
    text: str = ""
    observed_generation: int | None = None
    conditions: Annotated[list[Condition], list_map("type")] = Field(default_factory=list)


class GreetingSpec(ApiModel):
    name: str = "you"


@crd()
class Greeting(Resource, group="test.example.com", version="v1", plural="greetings"):
    spec: GreetingSpec = Field(default_factory=GreetingSpec)
    status: GreetingStatus = Field(default_factory=GreetingStatus)


@crd()
class WideGreeting(
    Resource, group="test.example.com", version="v1", plural="widegreetings", namespaced=False
):
    spec: GreetingSpec = Field(default_factory=GreetingSpec)
    status: GreetingStatus = Field(default_factory=GreetingStatus)


Act = Callable[["Doing", Any, Context], Awaitable[Result | None]]


class Doing(Operator[Any]):
    """Operator whose reconcile calls the test's function."""

    owns = (Secret,)
    act: ClassVar[Any] = None

    def setup(self) -> None:
        self.seen: list[str] = []
        self.forgotten: list[str] = []
        LAST.append(self)

    async def reconcile(self, obj: Any, ctx: Context) -> Result | None:
        self.seen.append(obj.metadata.name)
        return await type(self).act(self, obj, ctx)  # type: ignore[no-any-return]

    async def gone(self, key: ObjectKey) -> None:
        self.forgotten.append(key.name)


LAST: list[Doing] = []


def doing(act: Act, kind: type[Resource] = Greeting, **attributes: Any) -> type[Doing]:
    """Return an operator of that kind whose reconcile calls `act`."""
    kept = {"act": staticmethod(act), "kind": kind, "name": kind.gvk.kind.lower()}
    if kind.gvk == Greeting.gvk:
        kept["conditions"] = ("Available", "Progressing", "Degraded")
    return type("Doing", (Doing,), {**kept, **attributes})


@asynccontextmanager
async def greeted(
    act: Act, until: Callable[[Greeting], Any] = lambda it: it.status.text, **attributes: Any
) -> AsyncIterator[tuple[World, Greeting]]:
    """Run an operator with the reconcile `act`; yield its world, and the greeting that `until` accepts."""
    async with operated(doing(act, **attributes), objects=[greeting()]) as world:
        yield world, await world.until(greeting(namespace="default"), until)


async def rename(world: World, obj: Greeting, name: str) -> Greeting:
    """Set the name in the spec, and return the greeting when its status contains the name."""
    await world.update(obj, lambda it: setattr(it.spec, "name", name))
    return await world.until(obj, lambda it: it.status.text == name)


MAY_PATCH = (rbac(groups="test.example.com", resources="greetings", verbs="patch"),)


def greeting(name: str = "hello", **metadata: Any) -> Greeting:
    return Greeting(metadata=ObjectMeta(name=name, **metadata))


def secret(name: str, namespace: str = "default") -> Secret:
    return Secret(metadata=ObjectMeta(name=name, namespace=namespace), type="Opaque")


def said(obj: Greeting) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in obj.status.conditions}


async def patch_status(world: World, obj: Resource, **status: Any) -> None:
    """Patch the status as another client does."""
    path = f"{obj.plural}.{obj.gvk.group}", obj.metadata.namespace, obj.metadata.name
    await world.cluster.client.patch(*path, {"status": status}, subresource="status")


def events(world: World) -> list[tuple[str, str, int]]:
    """Return reason, message and count of each Event, sorted by name."""
    found = world.cluster.client.list("events", "default")
    return [(each["reason"], each["message"], each["count"]) for each in found]


def writes(world: World) -> int:
    return world.cluster.store.version


async def recorded(world: World, enough: Callable[[list[ReconcileRecord]], bool]) -> list[ReconcileRecord]:
    """Return the reconcile records of the greeting as soon as `enough` accepts them."""
    runs: list[ReconcileRecord] = []
    while not runs or not enough(runs):
        await asyncio.sleep(0.02)
        runs = world.manager.history.of("greeting").of(ObjectKey("default", "hello"))
    return runs


async def idle(operator: Doing, obj: Greeting, ctx: Context) -> None:
    """Do nothing."""


async def settled(world: World, *, pause: float = 0.05) -> int:
    """Wait until no write arrives for `pause` seconds; return the number of writes to the server."""
    version = -1
    while version != writes(world):
        version = writes(world)
        await asyncio.sleep(pause)
    return version


def deployment(name: str = "child", *, image: str = "image:1", replicas: int = 0) -> Deployment:
    labels, port = {"app": "hello"}, {"name": "web", "containerPort": 80}
    container = {"name": "main", "image": image, "ports": [port]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return Deployment(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


async def cleanup(self: Doing, obj: Greeting, ctx: Context) -> Result | None:
    self.seen.append(f"cleanup {obj.metadata.name}")
    ctx.event("Removed", "it is gone", once_written=True)
    return Result(requeue_after=0.01) if self.seen.count("cleanup hello") < 3 else None
