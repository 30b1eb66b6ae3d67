"""`Context.apply`: children whose names other objects use, or whose fields other clients change."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from pydantic import Field

from manager import Blocked, Context, Owns, webhook
from manager.api import ApiModel, ObjectKey, ObjectMeta, Resource, controller_reference, crd
from manager.cache import Selection
from manager.cache.sink import Sink
from manager.webhook import Refused, forbidden
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Namespace, Secret
from manager_tools.testing import World, operated
from tests.unit.conftest import LogLines
from tests.unit.operator.greetings import (
    LAST,
    Act,
    Doing,
    Greeting,
    GreetingSpec,
    deployment,
    doing,
    greeted,
    greeting,
    recorded,
    rename,
    said,
    secret,
    settled,
)

pytestmark = pytest.mark.virtual_time


class PartSpec(ApiModel):
    size: int = 1
    paint: GreetingSpec = Field(default_factory=GreetingSpec)


@crd(status=False)
class Part(Resource, group="test.example.com", version="v1", plural="parts"):
    spec: PartSpec = Field(default_factory=PartSpec)


async def test_ctx_apply_sends_no_unset_field_of_a_typed_child():
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        await ctx.apply(Part(metadata=ObjectMeta(name="part", namespace="default"), spec=PartSpec(size=3)))
        obj.status.text = obj.spec.name

    async with operated(doing(act, owns=(Part,)), kinds=[Part]) as world:
        obj = await world.create(greeting())
        await world.until(obj, lambda it: it.status.text == "you")
        part = await world.get(Part, "part")
        assert (part.spec.size, part.spec.paint.name) == (3, "you")
        [entry] = part.to_wire()["metadata"]["managedFields"]
        assert entry["fieldsV1"]["f:spec"] == {".": {}, "f:size": {}}
        await world.update(part, lambda it: setattr(it.spec.paint, "name", "Jack"))
        await rename(world, obj, "Jill")
        assert (await world.get(Part, "part")).spec.paint.name == "Jack"
        assert "Restored" not in await world.events(obj)


@pytest.mark.parametrize("cached", [True, False])
async def test_ctx_apply_reports_a_taken_child_name_and_retries_until_the_name_is_free(cached: bool):
    """If `cached` is False, no watch event reports that the name is free."""

    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        obj.status.text = "tried"
        child = secret("child")
        child.metadata.labels = {"ours": "yes"}
        await ctx.apply(child)
        ctx.condition("Available", True, "Greeted")

    selected = Owns(Secret, selection=Selection.of(label_selector="ours=yes"))
    operator = doing(act, owns=(Secret if cached else selected,))
    async with operated(operator, objects=[secret("child"), greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), said)
        assert obj.status.text == "tried"
        assert said(obj) == {
            "Available": ("False", "NameTaken"),
            "Progressing": ("False", "NameTaken"),
            "Degraded": ("True", "NameTaken"),
        }
        assert await world.events(obj) == ["NameTaken"]
        await world.client.delete(secret("child"))
        timeout = 5 if cached else 60
        obj = await world.until(obj, lambda it: said(it)["Available"] == ("True", "Greeted"), timeout=timeout)
        assert await world.events(obj) == ["NameTaken", "Created"]


async def test_leftover_child_of_a_deleted_owner_sets_progressing_but_not_degraded():
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        await ctx.apply(secret("child"))
        ctx.condition("Available", True, "Greeted")

    left = secret("child")
    earlier = ObjectMeta(name="hello", namespace="default", uid="of-an-earlier-one")
    left.metadata.owner_references = [controller_reference(Greeting(metadata=earlier), left.metadata)]
    left.metadata.finalizers = ["example.com/held"]  # delays the garbage collection
    async with operated(doing(act), objects=[left]) as world:
        obj = await world.create(greeting())
        obj = await world.until(obj, said)
        assert said(obj)["Progressing"] == ("True", "LeftOver")
        assert said(obj)["Degraded"][0] == "False"
        # The garbage collector deletes the child, but the finalizer delays the deletion.
        await world.until(obj, lambda it: "waits for example.com/held" in it.status.conditions[0].message)
        await world.update(await world.get(Secret, "child"), lambda it: it.metadata.finalizers.clear())
        obj = await world.until(obj, lambda it: said(it)["Available"] == ("True", "Greeted"))
        assert await world.events(obj) == ["Created"]


async def test_ctx_apply_and_ctx_delete_log_each_write_with_changed_fields_and_field_managers(
    log_lines: LogLines,
):
    def changed(before: Secret, after: Secret) -> tuple[str, str]:
        return "Copied", f"{before.metadata.labels['for']} to {after.metadata.labels['for']}"

    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        child = secret("child")
        if obj.spec.name == "nobody":
            for each in await ctx.children(Secret):
                await ctx.delete(each)
        else:
            child.metadata.labels = {"for": obj.spec.name}
            # The function gives reason and message of an update, but not of a restored child.
            await ctx.apply(child, changed=changed)
        obj.status.text = obj.spec.name

    def deeds() -> list[tuple[str, Any, Any]]:
        return [
            (line.get("message", line["event"]), line.get("fields"), line.get("set_by"))
            for line in log_lines
            if line["log_level"] == "info" and "reason" in line
        ]

    async with greeted(act) as (world, obj):
        child = await world.get(Secret, "child")
        await world.update(child, lambda it: it.metadata.labels.update({"for": "all"}))
        await world.until(child, lambda it: it.metadata.labels["for"] == "you")
        await world.update(obj, lambda it: setattr(it.spec, "name", "me"))
        await world.until(child, lambda it: it.metadata.labels["for"] == "me")
        assert deeds() == [
            ("Created Secret child", None, None),
            (
                "Put Secret child back as it should be: test-test had set .metadata.labels.for",
                [".metadata.labels.for"],
                ["test-test"],
            ),
            ("you to me", [".metadata.labels.for"], None),
        ]
        assert await world.events(obj) == ["Created", "Restored", "Copied"]
        await rename(world, obj, "nobody")
        assert ("deleted an object", None, None) in deeds()


class TestContextApplySharedList:
    """Server-side apply of a list that another client changes too; a patch can repair a refused apply."""

    def operator(self, act: Act, refused: list[str] | None = None) -> type[Doing]:
        guard = webhook.Admission(Deployment)

        async def check(operator: Doing, old: Deployment, child: Deployment, _: Any) -> None:
            if refused is not None and child.metadata.labels.get("tier") == "refused":
                refused.append("asked")
                raise Refused(forbidden("metadata.labels[tier]", "no such tier"))

        return doing(act, owns=(Deployment,), guard=guard, check=guard.validate_update(check))

    def wanted(self, name: str) -> Deployment:
        child = deployment()
        [container] = child.spec["template"]["spec"]["containers"]
        child.metadata.labels["tier"] = name
        if name == "you":
            container["env"] = [{"name": "OLD", "value": "1"}]
            child.spec["minReadySeconds"] = 7
        return child

    @staticmethod
    def extend(child: Deployment) -> None:
        """Change the key of our port and add a sidecar container, as another client does."""
        template = child.spec["template"]["spec"]
        template["containers"][0]["ports"][0]["containerPort"] = 8080
        template["containers"].insert(0, {"name": "sidecar", "image": "sidecar:1"})

    async def started(self, world: World) -> tuple[Greeting, Deployment]:
        obj = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        await rename(world, obj, "nobody")
        await world.update(await world.get(Deployment, "child"), self.extend)
        await asyncio.sleep(60)  # by then its controller has written the status
        return obj, await world.get(Deployment, "child")

    async def act(self, operator: Doing, obj: Greeting, ctx: Context) -> None:
        if obj.spec.name != "nobody":
            await ctx.apply(self.wanted(obj.spec.name))
        obj.status.text = obj.spec.name

    async def test_ctx_apply_changes_list_items_of_the_operator_when_another_client_has_added_items(self):
        async with operated(self.operator(self.act), objects=[greeting()]) as world:
            obj, child = await self.started(world)
            await rename(world, obj, "me")
            found = await world.client.uncached.get(Deployment, child.key)
            assert found.metadata.generation == (child.metadata.generation or 0) + 1, (
                "the apply is one change"
            )
            sidecar, container = found.spec["template"]["spec"]["containers"]
            assert (sidecar["name"], container["ports"][0]["containerPort"]) == ("sidecar", 80)
            # The same patch removes fields that the operator no longer applies.
            assert "env" not in container
            assert not found.spec.get("minReadySeconds")
            entries = orjson.loads(found.origin or b"")["metadata"]["managedFields"]
            ours = [each for each in entries if each["manager"].startswith("test-greeting")]
            assert [each["operation"] for each in ours] == ["Apply"]
            assert (await world.events(obj))[-1] == "Updated"
            await rename(world, obj, "you")
            await rename(world, obj, "me")
            found = await world.client.uncached.get(Deployment, child.key)
            assert "env" not in found.spec["template"]["spec"]["containers"][1], (
                "no other manager owns this field"
            )

    async def test_ctx_apply_restores_a_list_item_when_another_client_has_changed_its_key(self):
        async with operated(self.operator(self.act), objects=[greeting()]) as world:
            obj, _ = await self.started(world)
            await rename(world, obj, "you")
            await asyncio.sleep(1)
            events = world.cluster.client.list("events", "default")
            [event] = [each for each in events if each["reason"] == "Restored"]
            port = '.spec.template.spec.containers[name="main"].ports[containerPort=8080,protocol="TCP"]'
            assert event["message"] == f"Put Deployment child back as it should be: test-test had set {port}"

    async def test_ctx_apply_rarely_repeats_a_patch_that_the_server_refuses(self):
        asked: list[str] = []
        async with operated(self.operator(self.act, asked), objects=[greeting()]) as world:
            obj, child = await self.started(world)
            before = (await world.client.uncached.get(Deployment, child.key)).origin
            await world.update(obj, lambda it: setattr(it.spec, "name", "refused"))
            failed = await recorded(world, lambda runs: len([run for run in runs if run.error_type]) > 3)
            assert (await world.client.uncached.get(Deployment, child.key)).origin == before
            assert asked == ["asked"]
            runs = [run for run in failed if run.error]
            sent = [[each.verb for each in run.requests if "deployments" in each.path] for run in runs]
            # The patch shows the removal of our own fields.
            tried = ["get", "apply, dry run", "patch, dry run"]
            assert sent[0] == [*tried, "get", "patch, dry run"]
            assert all(each == tried for each in sent[1:])
            assert all("no such tier" in run.error for run in runs)
            # The patch is tried again later, because the policy may have changed.
            await asyncio.sleep(1500)
            assert 1 < len(asked) < 6

    @pytest.mark.parametrize("image", ["", "image:2"])
    async def test_ctx_apply_writes_nothing_when_the_server_refuses_the_desired_list_items(self, image: str):
        async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
            child = deployment(image="image:1" if obj.spec.name == "you" else image)
            if obj.spec.name != "you":
                invalid = {"name": "Not A Name", "image": "image:1"}
                child.spec["template"]["spec"]["containers"].append(invalid)
            await ctx.apply(child)
            obj.status.text = obj.spec.name

        async with greeted(act, owns=(Deployment,)) as (world, obj):
            await settled(world)
            key = ObjectKey("default", "child")
            before = (await world.client.uncached.get(Deployment, key)).origin
            await world.update(obj, lambda it: setattr(it.spec, "name", "me"))
            failed = await recorded(world, lambda runs: len([run for run in runs if run.error_type]) > 1)
            assert (await world.client.uncached.get(Deployment, key)).origin == before
            sent = [each for run in failed if run.error for each in run.requests]
            assert "patch" not in [each.verb for each in sent if "deployments" in each.path]


TOO_MANY = 20


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("anew", [True, False])
async def test_ctx_apply_slows_down_when_each_new_child_is_garbage_collected(
    anew: bool, told: bool, monkeypatch: pytest.MonkeyPatch
):
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        if len(operator.seen) > TOO_MANY:
            await asyncio.sleep(60)
        child = await ctx.apply(secret(obj.metadata.name))
        if told:
            obj.status.text = child.metadata.uid

    original, deaf = Sink.event, False

    def event(self: Sink, kind: str, raw: Any) -> None:
        if not deaf or b'"kind":"Secret"' in bytes(raw):
            original(self, kind, raw)

    monkeypatch.setattr(Sink, "event", event)
    async with operated(doing(act)) as world:
        await world.create(greeting())
        await settled(world)
        deaf = True
        api = world.cluster.client  # the manager's own client would update the cache
        await api.delete("greetings.test.example.com", "default", "hello")
        if anew:
            await api.create("greetings.test.example.com", "default", {"metadata": {"name": "hello"}})
        before = len(LAST[-1].seen)
        await asyncio.sleep(12)
        assert before + 2 <= len(LAST[-1].seen) <= TOO_MANY


async def test_repeatedly_deleted_child_is_created_without_delay_when_its_owner_changes():
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        await ctx.apply(secret("child"))

    async with operated(doing(act)) as world:
        obj = await world.create(greeting())
        child = secret("child", "default")
        for _ in range(3):
            await settled(world)
            await world.delete(await world.get(Secret, "child"))
        await settled(world)
        assert await world.find(Secret, "child") is None
        await world.update(obj, lambda it: it.metadata.annotations.update({"example.com/note": "new"}))
        await world.until(child, lambda _: True, timeout=1.0)


async def test_reconcile_that_calls_ctx_refuse_taken_runs_again_when_the_name_is_taken_or_freed():
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        obj.status.text = "free"
        try:
            await ctx.refuse_taken(Secret, "child")
        except Blocked:
            obj.status.text = "taken"

    async with operated(doing(act)) as world:
        obj = await world.create(greeting())
        await world.until(obj, lambda it: it.status.text == "free")
        others = await world.create(secret("child"))
        await world.until(obj, lambda it: it.status.text == "taken")
        await world.delete(others)
        await world.until(obj, lambda it: it.status.text == "free")


async def test_ctx_apply_into_a_terminating_namespace_is_not_counted_as_a_failure():
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        await ctx.apply(secret("child", "going"))
        obj.status.text = "done"

    async with operated(doing(act)) as world:
        await world.create(Namespace(metadata=ObjectMeta(name="going")))
        held = await world.create(greeting(namespace="going", finalizers=["example.com/hold"]))
        await world.until(held, lambda it: it.status.text)
        await world.client.delete(Namespace(metadata=ObjectMeta(name="going")))
        await world.until_gone(secret("child", "going"))
        await settled(world)
        errors = "controller_runtime_reconcile_errors_total", {"controller": "greeting"}
        assert world.manager.metrics.registry.get_sample_value(*errors) == 0
        await world.update(held, lambda it: it.metadata.finalizers.clear())
