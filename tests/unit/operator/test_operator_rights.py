"""Rights of an operator's role, and the error of an API request for which the role has no right."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manager import Context, Operator, Owns, TerminalError, rbac
from manager.api import ObjectKey, ObjectMeta, Resource, is_crd
from manager.api.rights import RbacRule
from manager.controller.failure import describe
from manager.kube.errors import Forbidden
from manager.operator import rights_of
from manager.operator.context import Blocked
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import ConfigMap, Secret
from manager_tools.simulation import assert_holds
from manager_tools.testing import World, operated
from tests.unit.operator.greetings import (
    Act,
    Doing,
    Greeting,
    WideGreeting,
    deployment,
    doing,
    greeting,
    idle,
    said,
)

pytestmark = pytest.mark.virtual_time


NAMED = ObjectKey("default", "hello")
STORED = greeting(namespace="default")


def acting(act: Act, kind: type[Resource] = Greeting, **attributes: Any) -> type[Doing]:
    """Return an operator that calls `act`, and then sets Available if this program defines the kind."""

    async def reconcile(self: Any, obj: Any, ctx: Context) -> None:
        await act(self, obj, ctx)
        if is_crd(kind):
            ctx.condition("Available", True, "Done")

    return doing(reconcile, kind, **{"owns": (), "name": "acts", **attributes})


def child(of: Resource, kind: type[Resource] = ConfigMap) -> Any:
    return kind(metadata=ObjectMeta(name=of.metadata.name, namespace=of.metadata.namespace or "default"))


def is_available(obj: Any) -> bool:
    return said(obj).get("Available", ("", ""))[0] == "True"


def first_error(world: World, key: ObjectKey = NAMED) -> str:
    """Return the error of the first reconcile that failed."""
    runs = world.manager.history.of("acts").of(key)
    return next(each.error for each in runs if each.error)


def verbs_of(operator: type[Operator[Any]], resource: str) -> set[str]:
    return {verb for rule in rights_of(operator) if resource in rule.resources for verb in rule.verbs}


async def annotate(_: Any, obj: Any, ctx: Context) -> None:
    obj.metadata.annotations["seen"] = "yes"
    await ctx.patch()


async def confirm(_: Any, obj: Any, ctx: Context) -> None:
    await ctx.confirm()


@pytest.mark.parametrize(
    "declared", [ConfigMap, Owns(ConfigMap, prune=True), Owns(ConfigMap, metadata_only=True)]
)
async def test_context_can_delete_children_of_owned_kinds(declared: Any):
    async def delete(_: Any, obj: Any, ctx: Context) -> None:
        if obj.spec.name == "you":
            await ctx.apply(child(obj))
        elif (found := await ctx.client.uncached.find(ConfigMap, obj.key)) is not None:
            await ctx.delete(found)

    async with operated(acting(delete, owns=(declared,)), objects=[greeting()]) as world:
        made = await world.until(STORED, is_available)
        await world.get(ConfigMap, "hello")
        await world.update(made, lambda it: setattr(it.spec, "name", "nobody"))
        await world.until_gone(child(made))


@pytest.mark.parametrize("act", [annotate, confirm])
@pytest.mark.parametrize("kind", [Greeting, WideGreeting])
async def test_operator_role_allows_ctx_patch_and_ctx_confirm_of_the_reconciled_object(
    kind: type[Resource], act: Act
):
    namespace = "default" if kind is Greeting else ""
    obj = kind(metadata=ObjectMeta(name="hello", namespace=namespace))
    rights = (rbac(groups=kind.gvk.group, resources=kind.plural, verbs="patch"),) if act is annotate else ()
    async with operated(acting(act, kind, rights=rights), objects=[obj]) as world:
        found = await world.until(obj, is_available)
        assert found.metadata.annotations == ({"seen": "yes"} if act is annotate else {})


async def read_uncached(_: Any, obj: Any, ctx: Context) -> None:
    await ctx.client.uncached.find(Secret, obj.key)


async def apply(_: Any, obj: Any, ctx: Context) -> None:
    await ctx.apply(child(obj, Secret))


async def scale(_: Any, obj: Any, ctx: Context) -> None:
    await ctx.client.subresource("scale").patch(child(obj, Deployment), {"spec": {"replicas": 1}})


async def watch(_: Any, obj: Any, ctx: Context) -> None:
    async with ctx.client.watch(Secret, namespace="default"):
        pass


async def in_another_task(_: Any, obj: Any, ctx: Context) -> None:
    await asyncio.gather(ctx.client.uncached.find(Secret, obj.key))


async def in_a_group(_: Any, obj: Any, ctx: Context) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.client.uncached.find(Secret, obj.key))


async def run_a_command(_: Any, obj: Any, ctx: Context) -> None:
    await ctx.exec("web", ["ls"])


CALLS: list[tuple[Act, str, str, str]] = [
    (read_uncached, "", "secrets", "get"),
    (apply, "", "secrets", "get"),
    (scale, "apps", "deployments/scale", "patch"),
    (watch, "", "secrets", "list"),
    (in_another_task, "", "secrets", "get"),
    (in_a_group, "", "secrets", "get"),
    (run_a_command, "", "pods/exec", "get"),
]


@pytest.mark.parametrize(
    ("act", "group", "resource", "verb"), CALLS, ids=[each[0].__name__ for each in CALLS]
)
async def test_error_of_a_call_without_a_right_names_the_code_line_and_missing_rule(
    act: Act, group: str, resource: str, verb: str
):
    line = act.__code__.co_firstlineno
    async with operated(acting(act, owns=(ConfigMap, Deployment)), objects=[greeting()]) as world:
        failed = await world.until(STORED, lambda it: it.status.conditions)
        [condition] = [each for each in failed.status.conditions if each.type == "Degraded"]
        assert (condition.status, condition.reason) == ("True", "Forbidden")
        lines = (f"/test_operator_rights.py:{each}" for each in (line + 1, line + 2))
        assert any(each in condition.message for each in lines), condition.message
        assert f'rbac(groups="{group}", resources="{resource}", verbs="{verb}")' in condition.message
        assert "test_operator_rights.py" in first_error(world)


async def test_forbidden_error_of_an_admission_webhook_suggests_no_rights():
    error = Forbidden(403, "Forbidden", 'admission webhook "a.b.c" denied the request: cannot have it')
    assert error.missing_right is None
    assert str(error) == error.message


def test_forbidden_status_write_error_names_the_extends_status_declaration():
    message = (
        'deployments.apps "a" is forbidden: User "me" cannot patch resource "deployments/status" '
        'in API group "apps" in the namespace "default"'
    )
    error = Forbidden(403, "Forbidden", message)
    assert error.missing_right == RbacRule(("apps",), ("deployments/status",), ("patch",))
    assert "extends_status" in describe(error, {})[1]


def test_simulation_raises_an_error_for_a_call_without_a_right():
    with pytest.raises(AssertionError, match=r"has no right.*test_operator_rights.py:\d+ sends this request"):
        assert_holds(acting(read_uncached), seeds=range(1))


# Kinds of other programs


CHILD = ObjectKey("default", "child")


async def fail(_: Any, obj: Any, ctx: Context) -> None:
    raise TerminalError("it is wrong")


async def block(_: Any, obj: Any, ctx: Context) -> None:
    raise Blocked("Waits", "it waits")


async def reconciled(world: World) -> None:
    await asyncio.sleep(10)
    assert world.manager.history.of("acts").of(CHILD)


def field_managers(world: World) -> list[dict[str, Any]]:
    """Return the entries of the Deployment's `managedFields`."""
    return world.cluster.client.peek("deployments.apps", "default", "child")["metadata"]["managedFields"]


@pytest.mark.parametrize("act", [idle, fail, block])
@pytest.mark.parametrize("extends", [False, True])
async def test_operator_of_a_foreign_kind_writes_nothing_to_its_objects(act: Act, extends: bool):
    operator = acting(act, Deployment, owns=(ConfigMap,), extends_status=extends)
    async with operated(operator, objects=[deployment()]) as world:
        await reconciled(world)
        assert not any("acts" in each["manager"] for each in field_managers(world))
        told = {*await world.events(await world.get(Deployment, "child"))}
        assert told == {fail: {"TerminalError"}, block: {"Waits"}}.get(act, set())


def test_operator_of_a_foreign_kind_has_no_right_to_write_its_objects():
    operator = acting(idle, Deployment, owns=(ConfigMap,))
    assert verbs_of(operator, "deployments") == {"get", "list", "watch"}
    assert verbs_of(operator, "deployments/status") == set()
    assert verbs_of(acting(idle, Deployment, extends_status=True), "deployments/status") == {"patch"}


async def set_status(_: Any, obj: Any, ctx: Context) -> None:
    obj.status["readyReplicas"] = 7


async def write_status(_: Any, obj: Any, ctx: Context) -> None:
    obj.status["readyReplicas"] = 7
    await ctx.write_status()


async def set_condition(_: Any, obj: Any, ctx: Context) -> None:
    ctx.condition("Scanned", True, "Scanned")


async def test_operator_with_extends_status_writes_its_condition_and_no_observed_generation():
    operator = acting(set_condition, Deployment, extends_status=True)
    async with operated(operator, objects=[deployment()]) as world:
        await reconciled(world)
        stored = await world.get(Deployment, "child")
        assert "Scanned" in [each["type"] for each in stored.status["conditions"]]
        [ours] = [each for each in field_managers(world) if "acts" in each["manager"]]
        assert ours["fieldsV1"]["f:status"].keys() == {"f:conditions"}


@pytest.mark.parametrize("act", [set_status, write_status, set_condition])
async def test_changed_status_of_a_foreign_kind_is_refused_and_the_error_names_extends_status(act: Act):
    async with operated(acting(act, Deployment), objects=[deployment()]) as world:
        await reconciled(world)
        assert "extends_status" in first_error(world, CHILD)
        assert not any("acts" in each["manager"] for each in field_managers(world))


async def test_ctx_patch_of_an_own_kind_fails_when_the_operator_does_not_declare_the_right():
    operator = acting(annotate)
    assert verbs_of(operator, "greetings") == {"get", "list", "watch"}
    async with operated(operator, objects=[greeting()]) as world:
        await asyncio.sleep(10)
        right = 'rbac(groups="test.example.com", resources="greetings", verbs="patch")'
        assert right in first_error(world)


def test_operator_role_allows_patch_of_an_own_kind_when_the_operator_has_a_cleanup():
    assert "patch" in verbs_of(acting(idle, cleanup=idle), "greetings")


async def test_ctx_patch_of_a_foreign_kind_fails_unless_the_operator_declares_the_right():
    async with operated(acting(annotate, Deployment), objects=[deployment()]) as world:
        await reconciled(world)
        assert 'rbac(groups="apps", resources="deployments", verbs="patch")' in first_error(world, CHILD)
        runs = world.manager.history.of("acts").of(CHILD)
        assert [sent.verb for run in runs for sent in run.requests] == []
    rights = (rbac(groups="apps", resources="deployments", verbs="patch"),)
    async with operated(acting(annotate, Deployment, rights=rights), objects=[deployment()]) as world:
        await world.until(deployment(), lambda it: it.metadata.annotations.get("seen") == "yes")


def test_extends_status_is_refused_for_an_own_kind_and_for_a_kind_without_status():
    with pytest.raises(TypeError, match="extends_status: Greeting is its own kind"):
        acting(idle, extends_status=True)
    with pytest.raises(TypeError, match="extends_status: ConfigMap has no field `status`"):
        acting(idle, ConfigMap, extends_status=True)


async def test_ctx_ensure_finalizer_is_refused_for_an_operator_without_a_cleanup_method():
    async def ensure(_: Any, obj: Any, ctx: Context) -> None:
        await ctx.ensure_finalizer()

    async with operated(acting(ensure), objects=[greeting()]) as world:
        failed = await world.until(STORED, lambda it: it.status.conditions)
        assert failed.metadata.finalizers == []
        assert "has no cleanup" in first_error(world)
