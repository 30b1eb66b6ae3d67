from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from manager import Blocked, Context, Watch, rbac
from manager.api import ObjectKey, ObjectMeta, OwnerReference
from manager.controller import ControllerOptions
from manager.operator.child_progress import changed_fields, is_rolled_out
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import ConfigMap, Secret
from manager_tools.testing import World, operated
from tests.unit.conftest import LogLines
from tests.unit.operator.greetings import (
    LAST,
    MAY_PATCH,
    Act,
    Doing,
    Greeting,
    deployment,
    doing,
    greeted,
    greeting,
    said,
    secret,
)

pytestmark = pytest.mark.virtual_time


class TestUnstableChild:
    """Limit of one change per minute for each child; condition, Event, metric and log report the limit."""

    def gauge(self, world: World, reason: str) -> float:
        [family] = world.manager.metrics.unstable_children.collect()
        return sum(each.value for each in family.samples if each.labels["reason"] == reason)

    async def changes(self, world: World, seconds: float) -> int:
        """Return the number of changes of the child within `seconds`."""
        before = await world.get(Secret, "child")
        await asyncio.sleep(seconds)
        after = await world.get(Secret, "child")
        return int(after.metadata.annotations["n"]) - int(before.metadata.annotations["n"])

    async def test_child_changes_are_limited_to_one_per_minute_when_each_reconcile_changes_the_child(
        self, log_lines: LogLines
    ):
        count = itertools.count(1)

        async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
            child = secret("child")
            child.metadata.annotations = {"n": "0" if obj.spec.name == "calm" else str(next(count))}
            await ctx.apply(child)
            ctx.condition("Available", True, "Greeted")

        def is_limited(obj: Greeting) -> bool:
            return said(obj).get("ChildrenStable") == ("False", "WantedDifferently")

        async with greeted(act, is_limited) as (world, _):
            assert 10 <= next(count) < 20
            await asyncio.sleep(300)
            # The event of each change causes one more reconcile, which increments n but changes nothing.
            assert await self.changes(world, 600) in range(2 * 9, 2 * 13)
            assert self.gauge(world, "WantedDifferently") == 1
            obj = await world.get(Greeting, "hello")
            [condition] = [each for each in obj.status.conditions if each.type == "ChildrenStable"]
            assert "keep changing Secret child at .metadata.annotations.n" in condition.message
            events = await world.events(obj)
            assert events.count("WantedDifferently") == 1, "repeated Events only increase its count"
            assert "Restored" not in events
            warned = [line for line in log_lines if line["event"] == "child is changed too often"]
            assert warned[0]["fields"] == [".metadata.annotations.n"]
            # A change of the spec ends the slowdown at once.
            await world.update(obj, lambda it: setattr(it.spec, "name", "calm"))
            await world.until(obj, lambda it: said(it)["ChildrenStable"] == ("True", "AsWanted"), timeout=5)
            assert (await world.get(Secret, "child")).metadata.annotations["n"] == "0"
            assert self.gauge(world, "WantedDifferently") == 0

    async def test_children_stable_condition_names_the_field_manager_that_reverts_a_child(self):
        async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
            child = secret("child")
            child.metadata.labels = {"for": obj.spec.name}
            await ctx.apply(child)
            ctx.condition("Available", True, "Greeted")

        async def fight(world: World) -> None:
            other = world.client.named("rival")
            while True:
                child = await other.uncached.get(Secret, ObjectKey("default", "child"))
                if child.metadata.labels["for"] != "me":
                    child.metadata.labels["for"] = "me"
                    child.metadata.annotations["n"] = str(int(child.metadata.annotations.get("n", "0")) + 1)
                    await other.patch(child)
                await asyncio.sleep(0.05)

        async with greeted(act, said) as (world, greeted_one):
            async with asyncio.TaskGroup() as group:
                rival = group.create_task(fight(world))
                obj = await world.until(greeted_one, lambda it: "ChildrenStable" in said(it))
                assert said(obj)["ChildrenStable"] == ("False", "ChangedInTurn")
                [told] = [each.message for each in obj.status.conditions if each.type == "ChildrenStable"]
                assert "test-rival had set .metadata.labels.for" in told
                await asyncio.sleep(300)
                assert await self.changes(world, 600) in range(9, 13)
                assert self.gauge(world, "ChangedInTurn") == 1
                assert "ChangedInTurn" in await world.events(obj)
                rival.cancel()
            await world.until(obj, lambda it: said(it)["ChildrenStable"][0] == "True", timeout=300)
            assert (await world.get(Secret, "child")).metadata.labels["for"] == "you"

    async def test_child_changes_slow_down_when_the_child_kind_is_watched_but_not_owned(self):
        count = itertools.count(1)

        async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
            child = ConfigMap(metadata=ObjectMeta(name="child", namespace="default"))
            child.metadata.labels = {"greeting": "hello"}
            child.metadata.annotations = {"n": str(next(count))}
            await ctx.apply(child)

        watches = (Watch(ConfigMap, label="greeting"),)
        rights = (rbac(groups="", resources="configmaps", verbs="*"),)
        async with greeted(act, lambda it: "ChildrenStable" in said(it), watches=watches, rights=rights):
            assert next(count) < 20

    @pytest.mark.parametrize(
        ("reason", "begin"),
        [
            ("CreatedWithoutEnd", "300 reconciles in a minute have created a ConfigMap each"),
            ("PatchedWithoutEnd", "reconciles have patched the object itself 300 times in a minute"),
        ],
    )
    async def test_object_is_blocked_when_each_reconcile_creates_a_child_or_patches_the_object(
        self, reason: str, begin: str
    ):
        count = itertools.count(1)

        async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
            if reason == "PatchedWithoutEnd":
                obj.metadata.annotations["n"] = str(next(count))
                await ctx.patch()
                return
            await ctx.apply(ConfigMap(metadata=ObjectMeta(name=f"child-{next(count)}", namespace="default")))

        operator = doing(act, owns=(ConfigMap,), rights=MAY_PATCH)
        async with operated(operator, objects=[greeting()]) as world:
            obj = await world.until(
                greeting(namespace="default"),
                lambda it: said(it).get("Available", ("", ""))[1] == reason,
                timeout=40,
            )
            assert obj.status.conditions[0].message.startswith(begin)
            assert next(count) < 310
            if reason == "CreatedWithoutEnd":
                assert self.gauge(world, reason) == 1

    async def test_child_changes_caused_by_a_watched_object_are_not_slowed_down(self):
        async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
            child = secret("child")
            source = await ctx.find(ConfigMap, "source")
            child.metadata.annotations = {"n": "0" if source is None else source.metadata.annotations["n"]}
            await ctx.apply(child)

        watches = (Watch(ConfigMap, label="greeting"),)
        async with operated(doing(act, watches=watches), objects=[greeting()]) as world:
            named = ObjectMeta(name="source", labels={"greeting": "hello"}, annotations={"n": "0"})
            source = await world.create(ConfigMap(metadata=named))
            child = await world.until(secret("child"), lambda it: it.metadata.annotations)
            for number in range(1, 50):
                source = await world.update(
                    source, lambda it, n=str(number): it.metadata.annotations.update(n=n)
                )
                await world.until(
                    child, lambda it, n=str(number): it.metadata.annotations["n"] == n, timeout=1
                )
            assert self.gauge(world, "WantedDifferently") == 0


class TestRollouts:
    """Limits of concurrent rollouts of children to a new image."""

    def child(self, obj: Greeting, image: str, *, stuck: bool = False) -> Deployment:
        """Return a Deployment with the object's name; the rollout of a stuck one never completes."""
        child = deployment(obj.metadata.name, image=image, replicas=1)
        if stuck:
            child.spec["template"]["spec"]["nodeSelector"] = {"no": "node"}
        return child

    def image_of(self, child: Deployment) -> str:
        return child.spec["template"]["spec"]["containers"][0]["image"]

    @asynccontextmanager
    async def rolled_out(self, act: Act, *names: str, most: int = 1) -> AsyncIterator[World]:
        """Run an operator with at most `most` concurrent rollouts; yield when all children are rolled out."""
        options = ControllerOptions(max_concurrent_rollouts=most)
        operator = doing(act, owns=(Deployment,), options=options)
        async with operated(operator, objects=[greeting(name) for name in names]) as world:
            for name in names:
                await world.until(deployment(name), is_rolled_out)
            yield world

    async def enqueue(self, *names: str, pause: float = 5) -> None:
        for name in names:
            LAST[-1].enqueue(ObjectKey("default", name))
            await asyncio.sleep(pause)

    async def test_rollouts_are_limited_when_a_new_manager_version_changes_all_children(self):
        image = "image:1"

        async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
            await ctx.apply(self.child(obj, image))

        async def rolling(world: World) -> int:
            """Return the number of children with the new image whose rollout is incomplete."""
            children = await world.client.uncached.list(Deployment, namespace="default")
            new = [each for each in children if self.image_of(each) == image]
            return len([each for each in new if not is_rolled_out(each)])

        names = [f"hello-{number}" for number in range(6)]
        async with self.rolled_out(act, *names, most=2) as world:
            image = "image:2"
            await self.enqueue(*names, pause=0)
            most = waited = 0
            for _ in range(200):
                most = max(most, await rolling(world))
                [family] = world.manager.metrics.rollouts_waiting.collect()
                waited = max(waited, *(int(each.value) for each in family.samples))
                await asyncio.sleep(0.02)
            assert most == 2
            assert waited > 1
            for child in await world.client.uncached.list(Deployment, namespace="default"):
                assert self.image_of(child) == image
                assert is_rolled_out(child)

    async def test_rollout_counts_as_started_when_the_function_passed_to_apply_raises(self):
        image = "image:1"

        def fail(*_: Any) -> tuple[str, str] | None:
            raise LookupError("no words for it")

        async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
            with suppress(LookupError):
                await ctx.apply(self.child(obj, image, stuck=image == "image:2"), changed=fail)

        async with self.rolled_out(act, "first", "second") as world:
            image = "image:2"
            await self.enqueue("first", "second")
            children = await world.client.uncached.list(Deployment, namespace="default")
            assert {self.image_of(each) for each in children} == {"image:1", "image:2"}

    @pytest.mark.parametrize("applies", [False, True])
    async def test_rollout_stays_under_way_while_later_reconciles_are_blocked(self, applies: bool):
        image, blocked = "image:1", False

        async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
            is_first = obj.metadata.name == "first"
            if blocked and is_first and not applies:
                raise Blocked("Waiting", "it waits")
            await ctx.apply(self.child(obj, image, stuck=is_first and image == "image:2"))
            if blocked and is_first:
                raise Blocked("Waiting", "it waits")

        async with self.rolled_out(act, "first", "second") as world:
            image = "image:2"
            await self.enqueue("first")
            blocked = True
            await self.enqueue("first", "second")
            assert self.image_of(await world.get(Deployment, "second")) == "image:1"

    async def test_rollout_ends_when_a_reconcile_is_blocked_after_all_its_children_are_rolled_out(self):
        image = "image:1"

        async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
            await ctx.apply(self.child(obj, image))
            if image == "image:2":
                raise Blocked("Waiting", "it waits")

        async with self.rolled_out(act, "first", "second") as world:
            image = "image:2"
            await self.enqueue("first", "second")
            for name in ("first", "second"):
                assert self.image_of(await world.get(Deployment, name)) == "image:2"

    async def test_spec_change_does_not_wait_for_rollouts_of_other_objects(self):
        image = "image:1"

        async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
            stuck = obj.metadata.name == "first" and image == "image:2"
            wanted = image if obj.spec.name == "you" else obj.spec.name
            await ctx.apply(self.child(obj, wanted, stuck=stuck))

        async with self.rolled_out(act, "first", "second") as world:
            image = "image:2"
            await self.enqueue("first", "second")
            stays = await world.get(Deployment, "second")
            assert self.image_of(stays) == "image:1"
            second = greeting("second", namespace="default")
            await world.update(second, lambda it: setattr(it.spec, "name", "image:3"))
            await world.until(stays, lambda it: self.image_of(it) == "image:3", timeout=5)


def test_changed_fields_function_returns_changed_fields_of_the_desired_object_and_removed_fields():
    before, after, wanted = secret("child"), secret("child"), secret("child")
    before.metadata.labels = {"for": "all", "old": "a", "theirs": "1"}
    after.metadata.labels = wanted.metadata.labels = {"for": "you"}
    after.metadata.labels = {"for": "you", "theirs": "2", "new": "b"}
    after.metadata.annotations = {"revision": "2"}
    assert changed_fields(before, after, wanted) == [".metadata.labels.for", ".metadata.labels.old"]
    before, after = secret("child"), secret("child")
    after.metadata.owner_references = [OwnerReference(api_version="v1", kind="Pod", name="one", uid="1")]
    assert changed_fields(before, after, secret("child")) == [".metadata.ownerReferences"]
