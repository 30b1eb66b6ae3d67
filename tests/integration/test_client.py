"""The client with each control plane: requests, errors, and reads after writes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
import pytest_asyncio
from pydantic import Field

from apis.cache.v1.memcached import Memcached, MemcachedSpec
from manager.api import Condition, ObjectKey, ObjectMeta, Resource, Unstructured
from manager.cache import Cache
from manager.client import Client, NotCached, Outcome
from manager.client.write import applied_fields
from manager.kube.config import load_config
from manager.kube.errors import AlreadyExists, BadRequest, Conflict, NoMatch, NotFound
from manager.kube.http_wire import HttpWire
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from manager_kinds import core_v1
from manager_kinds.apps_v1 import Deployment
from manager_kinds.batch_v1 import Job
from tests.support.control_plane import ControlPlane, Feature
from tests.support.eventually import eventually_async

pytestmark = pytest.mark.oldest


class ConfigMap(Resource, group="", version="v1", plural="configmaps"):
    """ConfigMap with text data."""

    data: dict[str, str] = Field(default_factory=dict)


class Bench:
    """A client with running caches and a request counter."""

    def __init__(self, client: Client, cache: Cache, metrics: Metrics, namespace: str) -> None:
        self.client = client
        self.cache = cache
        self.metrics = metrics
        self.namespace = namespace

    def writes(self) -> int:
        """Return the number of requests until now, except GET requests."""
        family = next(iter(self.metrics.rest_requests.collect()))
        counted = [each for each in family.samples if each.name.endswith("_total")]
        return int(sum(each.value for each in counted if each.labels["method"] != "GET"))

    def key(self, name: str) -> ObjectKey:
        return ObjectKey(self.namespace, name)

    def config_map(self, name: str, **data: str) -> ConfigMap:
        return ConfigMap(metadata=ObjectMeta(name=name, namespace=self.namespace), data=data)

    def memcached(self, name: str) -> Memcached:
        return Memcached(metadata=ObjectMeta(name=name, namespace=self.namespace), spec=MemcachedSpec(size=1))

    def deployment(self, name: str, **container: Any) -> Deployment:
        """Return a paused Deployment: Kubernetes' controller then sets no revision in its annotations."""
        labels = {"app": name}
        return Deployment(
            metadata=ObjectMeta(name=name, namespace=self.namespace, labels=labels),
            spec={
                "replicas": 1,
                "paused": True,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "image:1", **container}]},
                },
            },
        )


@asynccontextmanager
async def running(plane: ControlPlane, namespace: str) -> AsyncIterator[Bench]:
    rng, metrics = random.Random(1), Metrics()
    wire = HttpWire(await load_config(kubeconfig=str(plane.kubeconfig), context=None, environ={}))
    transport = Transport(wire, metrics=metrics, rng=rng, user_agent="client-test")
    mapper = RestMapper(transport)
    cache = Cache(transport, mapper, field_manager="test", metrics=metrics, rng=rng)
    for kind in (ConfigMap, Deployment, Memcached):
        cache.informer(kind)
    upkeep = asyncio.create_task(cache.run())
    try:
        await cache.wait_synced()
        yield Bench(Client(transport, mapper, cache, field_manager="test"), cache, metrics, namespace)
    finally:
        upkeep.cancel()
        await asyncio.wait([upkeep])
        await wire.aclose()


@pytest_asyncio.fixture
async def bench(crds: ControlPlane, namespace: str) -> AsyncIterator[Bench]:
    async with running(crds, namespace) as ready:
        yield ready


async def test_client_read_returns_the_last_write_of_the_same_client(bench: Bench):
    client = bench.client
    for number in range(50):
        created = await client.create(bench.config_map(f"c-{number}", value="1"))
        assert (await client.get(ConfigMap, created.key)).data == {"value": "1"}
        created.data["value"] = "2"
        await client.update(created)
        assert (await client.get(ConfigMap, created.key)).data == {"value": "2"}
        names = [each.metadata.name for each in await client.list(ConfigMap, namespace=bench.namespace)]
        assert created.metadata.name in names
        await client.delete(created)
        assert await client.find(ConfigMap, created.key) is None
        again = await client.create(bench.config_map(f"c-{number}", value="3"))
        assert (await client.get(ConfigMap, created.key)).metadata.uid == again.metadata.uid


@pytest.mark.parametrize("propagation", [None, "Foreground", "Orphan"])
async def test_client_delete_of_job_deletes_its_pods_unless_propagation_is_orphan(
    bench: Bench, control_plane: ControlPlane, propagation: Any
):
    control_plane.require(Feature.WORKLOADS)
    pod = {"containers": [{"name": "main", "image": "image:1"}], "restartPolicy": "Never"}
    template = {"metadata": {"annotations": {"devcluster.local/run-time": "3600"}}, "spec": pod}
    named = ObjectMeta(name="work", namespace=bench.namespace)
    client = bench.client
    job = await client.create(Job(metadata=named, spec={"template": template}))

    async def has_pod(owned: bool) -> bool:
        pods = await client.uncached.list(core_v1.Pod, namespace=bench.namespace)
        return any(bool(each.metadata.owner_references) == owned for each in pods)

    await eventually_async(lambda: has_pod(True), within=20)
    await (client.delete(job, propagation=propagation) if propagation else client.delete(job))

    async def has_ended() -> bool:
        return not await has_pod(True) and await has_pod(False) == (propagation == "Orphan")

    async def is_gone() -> bool:
        return await client.uncached.find(Job, job.key) is None

    await eventually_async(is_gone, within=40)
    await eventually_async(has_ended, within=40)


async def test_client_raises_typed_errors_for_existing_stale_missing_and_uncached_objects(bench: Bench):
    client = bench.client
    created = await client.create(bench.config_map("one"))
    with pytest.raises(AlreadyExists):
        await client.create(bench.config_map("one"))
    stale = await client.uncached.get(ConfigMap, created.key)
    created.data["a"] = "b"
    await client.update(created)
    stale.data["a"] = "c"
    with pytest.raises(Conflict):
        await client.update(stale)
    with pytest.raises(NotFound):
        await client.get(ConfigMap, bench.key("none"))
    with pytest.raises(NotFound):
        await client.uncached.get(ConfigMap, bench.key("none"))
    with pytest.raises(NotCached, match="Secret is not cached"):
        await client.find(core_v1.Secret, bench.key("any"))


async def test_client_patch_sends_only_changed_fields(bench: Bench):
    client = bench.client
    created = await client.create(bench.config_map("one", a="1", b="2"))
    before = bench.writes()
    await client.patch(created)
    assert bench.writes() == before

    other = await client.uncached.get(ConfigMap, created.key)
    other.data["b"] = "changed elsewhere"
    await client.update(other)
    created.data["a"] = "changed here"
    patched = await client.patch(created)
    assert patched.data == {"a": "changed here", "b": "changed elsewhere"}


async def test_client_patch_with_optimistic_lock_conflicts_when_resource_version_changed(bench: Bench):
    client = bench.client
    created = await client.create(bench.config_map("one"))
    stale = await client.uncached.get(ConfigMap, created.key)
    created.data["other"] = "changed"
    await client.patch(created)
    stale.data["mine"] = "1"
    with pytest.raises(Conflict):
        await client.patch(stale, optimistic_lock=True)
    fresh = await client.get(ConfigMap, created.key)
    fresh.data["mine"] = "2"
    patched = await client.patch(fresh, optimistic_lock=True)
    assert patched.data == {"other": "changed", "mine": "2"}
    sent = bench.writes()
    assert await client.patch(patched, optimistic_lock=True) is patched
    assert bench.writes() == sent


async def test_client_write_to_a_recreated_object_raises_conflict(bench: Bench):
    client = bench.client
    stale = await client.create(bench.memcached("m"))
    await client.delete(stale)
    again = await client.create(bench.memcached("m"))
    stale.spec.size, stale.status.nodes = 2, ["of-the-old-one"]
    for write in (
        client.patch(stale),
        client.patch(stale, optimistic_lock=True),
        client.status.patch(stale),
        client.delete(stale),
    ):
        with pytest.raises(Conflict):
            await write
    live = await client.uncached.get(Memcached, again.key)
    assert (live.spec.size, live.status.nodes) == (1, [])


def condition(kind: str, message: str = "") -> Condition:
    """Return a condition with characters that the manager and the API server escape differently."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    text = f'{message} <&> "é\u2028\\'
    return Condition(type=kind, status="True", reason="Seen", message=text, last_transition_time=now)


async def seen_by_others(bench: Bench, crds: ControlPlane, name: str, *conditions: Condition) -> None:
    """Add conditions to the status as another client."""
    path = f"/apis/cache.example.com/v1/namespaces/{bench.namespace}/memcacheds/{name}"
    status = crds.api.get(path).get("status", {})
    more = [each.to_wire() for each in conditions]
    changed = {**status, "conditions": [*status.get("conditions", []), *more]}
    crds.api.patch(f"{path}/status", {"status": changed})


async def test_status_patch_keeps_conditions_of_other_clients(bench: Bench, crds: ControlPlane):
    client = bench.client
    read = await client.create(bench.memcached("m"))
    # Another client writes between read and write, also when there was no status.
    await seen_by_others(bench, crds, "m", condition("Backup", "1"))
    read.status.conditions = [condition("Available", "1")]
    read.status.nodes = ["a"]
    stored = await client.status.patch(read)
    assert [each.type for each in stored.status.conditions] == ["Backup", "Available"]

    await seen_by_others(bench, crds, "m", condition("Network", "1"))
    stored.status.conditions[1] = condition("Available", "2")
    stored.status.nodes = []
    path = f"/apis/cache.example.com/v1/namespaces/{bench.namespace}/memcacheds/m"
    assert await client.status.report(stored, cached=lambda: orjson.dumps(crds.api.get(path)))
    live = await client.uncached.get(Memcached, read.key)
    assert live.status.conditions == [
        condition("Backup", "1"),
        condition("Available", "2"),
        condition("Network", "1"),
    ]
    assert live.status.nodes == []

    # Fields of other clients stay, and so do their changes of their conditions.
    replicas = live.model_copy(deep=True)
    replicas.status.replicas = 7
    replicas.status.conditions[0] = condition("Backup", "2")
    await client.status.patch(replicas)
    del live.status.conditions[1]
    before = bench.writes()
    stored = await client.status.patch(live)
    assert stored.status.conditions == [condition("Backup", "2"), condition("Network", "1")]
    assert stored.status.replicas == 7
    assert bench.writes() == before + 3  # refused patch, patch without changes, patch

    # Without other writers, each patch is one request.
    for number in range(3):
        stored.status.conditions[1] = condition("Network", f"again {number}")
        stored = await client.status.patch(stored)
    assert bench.writes() == before + 6


async def test_client_reads_and_patches_scale_subresource(bench: Bench):
    memcached = await bench.client.create(bench.memcached("m"))
    scale = bench.client.subresource("scale")
    assert (await scale.get(memcached))["spec"] == {"replicas": 1}
    await scale.patch(memcached, {"spec": {"replicas": 4}})
    assert (await bench.client.uncached.get(Memcached, memcached.key)).spec.size == 4


async def test_apply_returns_created_then_unchanged_then_updated(bench: Bench):
    client = bench.client
    owner = await client.create(bench.memcached("owner"))
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    wanted = bench.deployment("d", env=env, resources={"requests": {"cpu": "0.5", "memory": "1024Mi"}})
    created = await client.apply(wanted, owner=owner)
    assert created.outcome is Outcome.CREATED
    [container] = created.object.spec["template"]["spec"]["containers"]
    # The server normalises these values, which is no change.
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}

    before = bench.writes()
    for _ in range(3):
        assert (await client.apply(wanted, owner=owner)).outcome is Outcome.UNCHANGED
    assert bench.writes() == before

    unchanged = (await client.apply(wanted, owner=owner)).object
    unchanged.metadata.annotations["noted"] = "yes"
    patched = await client.patch(unchanged)
    assert patched.metadata.annotations["noted"] == "yes"

    fewer = bench.deployment("d", env=[{"name": "B", "value": "3"}])
    applied = await client.apply(fewer, owner=owner)
    assert applied.outcome is Outcome.UPDATED
    assert applied.previous is not None
    [container] = applied.object.spec["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "B", "value": "3"}]
    before = bench.writes()
    assert (await client.apply(fewer, owner=owner)).outcome is Outcome.UNCHANGED
    assert bench.writes() == before

    none = await client.apply(bench.deployment("d"), owner=owner)
    [container] = none.object.spec["template"]["spec"]["containers"]
    assert "env" not in container


async def test_apply_restores_changed_fields_and_keeps_fields_of_other_clients(
    bench: Bench, crds: ControlPlane
):
    client = bench.client
    wanted = bench.deployment("d")
    await client.apply(wanted)
    for image in ("other:1", "other:2"):  # first on a created object, then on an applied object
        crds.kubectl(f"--namespace={bench.namespace}", "set", "image", "deployment/d", f"main={image}")
        crds.kubectl(f"--namespace={bench.namespace}", "set", "env", "deployment/d", "ADDED=1")

        async def has_come() -> bool:
            deployment = await client.get(Deployment, bench.key("d"))
            return bool(deployment.spec["template"]["spec"]["containers"][0]["image"] != "image:1")

        await eventually_async(has_come)
        applied = await client.apply(wanted)
        assert applied.outcome is Outcome.RESTORED
        fields = {each.field: each.manager for each in applied.conflicts}
        assert fields == {'.spec.template.spec.containers[name="main"].image': "kubectl-set"}
        [container] = applied.object.spec["template"]["spec"]["containers"]
        assert container["image"] == "image:1"
        assert container["env"] == [{"name": "ADDED", "value": "1"}]


# Path of a list in a pod, the key of its items, the items' keys, and their other fields.
ORDERED: list[tuple[str, str, list[Any], dict[str, Any]]] = [
    ("containers", "name", ["main", "b", "a"], {"image": "image:1"}),
    ("initContainers", "name", ["c", "b", "a"], {"image": "image:1"}),
    ("containers/0/env", "name", ["C", "B", "A"], {"value": "1"}),
    ("containers/0/ports", "containerPort", [3, 2, 1], {}),
    ("containers/0/volumeMounts", "mountPath", ["/c", "/b", "/a"], {"name": "v"}),
    ("volumes", "name", ["v", "u", "t"], {"emptyDir": {}}),
    ("hostAliases", "ip", ["10.0.0.3", "10.0.0.2", "10.0.0.1"], {"hostnames": ["h"]}),
    ("imagePullSecrets", "name", ["c", "b", "a"], {}),
    (
        "topologySpreadConstraints",
        "topologyKey",
        ["c", "b", "a"],
        {"whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 1},
    ),
    ("tolerations", "key", ["c", "b", "a"], {"operator": "Exists"}),
]


@pytest.mark.parametrize(("path", "key", "names", "rest"), ORDERED, ids=[each[0] for each in ORDERED])
async def test_apply_restores_the_order_of_a_list_that_another_client_has_changed(
    bench: Bench, path: str, key: str, names: list[Any], rest: dict[str, Any]
):
    def items(deployment: Deployment) -> list[dict[str, Any]]:
        pod = deployment.spec["template"]["spec"]
        *parent, name = path.split("/")
        found: list[dict[str, Any]] = (pod["containers"][0] if parent else pod).setdefault(name, [])
        return found

    def deployment(wanted: list[Any]) -> Deployment:
        made = bench.deployment("d")
        made.spec["template"]["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
        items(made)[:] = [{key: name, **rest} for name in wanted]
        return made

    async def apply(wanted: list[Any], outcome: Outcome) -> list[Any]:
        applied = await bench.client.apply(deployment(wanted))
        assert applied.outcome is outcome
        before = bench.writes()
        for _ in range(2):
            assert (await bench.client.apply(deployment(wanted))).outcome is Outcome.UNCHANGED
        assert bench.writes() == before
        return [item[key] for item in items(applied.object)]

    async def arranged_by_another(arrange: Callable[[list[Any]], None]) -> None:
        read = await bench.client.uncached.get(Deployment, bench.key("d"))
        arrange(items(read))
        read.metadata.resource_version = ""  # controllers may change the object meanwhile
        await bench.client.named("another").update(read)

    assert await apply(names, Outcome.CREATED) == names
    await arranged_by_another(lambda there: there.reverse())
    assert await apply(names, Outcome.RESTORED) == names, "a created object is restored"
    await arranged_by_another(lambda there: there.reverse())
    assert await apply(names, Outcome.RESTORED) == names, "an applied object is restored"
    turned = names[::-1]
    assert await apply(turned, Outcome.UPDATED) == turned
    foreign = {int: 9, str: "10.0.0.9" if key == "ip" else "x"}[type(names[0])]
    await arranged_by_another(lambda there: there.insert(1, {**rest, key: foreign}))
    if path == "tolerations":  # replaced as a whole
        assert await apply(turned, Outcome.RESTORED) == turned
        return
    assert await apply(turned, Outcome.UNCHANGED) == [turned[0], foreign, *turned[1:]]
    assert [each for each in await apply(names, Outcome.UPDATED) if each != foreign] == names


async def test_apply_removes_secret_key_that_was_dropped_from_string_data(bench: Bench):
    named = ObjectMeta(name="s", namespace=bench.namespace)
    texts = {"a": "1", "b": "2"}
    plain = {"metadata": {"name": "s", "namespace": bench.namespace}}
    for kind in (core_v1.Secret, Unstructured.of("v1", "Secret")):

        async def apply(texts: dict[str, str], outcome: Outcome, kind: Any = kind) -> None:
            if kind is core_v1.Secret:
                wanted = kind(metadata=named, string_data=texts, data={"c": "Mw=="})
            else:
                wanted = kind.model_validate({**plain, "stringData": texts, "data": {"c": "Mw=="}})
            assert (await bench.client.apply(wanted)).outcome is outcome
            before = bench.writes()
            assert (await bench.client.apply(wanted)).outcome is Outcome.UNCHANGED
            assert bench.writes() == before
            stored = await bench.client.uncached.get(core_v1.Secret, bench.key("s"))
            assert {key: stored.value(key) for key in stored.data or {}} == {
                **{key: text.encode() for key, text in texts.items()},
                "c": b"3",
            }

        await apply(texts, Outcome.CREATED)
        await apply({"a": "4"}, Outcome.UPDATED)
        await apply({}, Outcome.UPDATED)
        await bench.client.delete(await bench.client.uncached.get(core_v1.Secret, bench.key("s")))


async def test_client_sends_string_data_of_a_secret_in_create_patch_and_update(bench: Bench):
    client, named = bench.client, ObjectMeta(name="s", namespace=bench.namespace)
    stored = await client.create(core_v1.Secret(metadata=named, string_data={"a": "1"}))
    assert stored.value("a") == b"1"
    stored.string_data = {"a": "2", "b": "3"}
    stored = await client.patch(stored)
    assert (stored.value("a"), stored.value("b")) == (b"2", b"3")
    stored.string_data = {"b": "4"}
    stored = await client.update(stored)
    assert (stored.value("a"), stored.value("b")) == (b"2", b"4")


# Values that only POST accepts, and the field in the error.
UNAPPLICABLE: list[tuple[dict[str, Any], str]] = [
    ({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, "env"),
    ({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 1, "name": "b"}]}, "ports"),
    ({"imagee": "image:1"}, "imagee"),
    ({"env": [{"name": "A", "valu": "1"}]}, "valu"),
]


@pytest.mark.parametrize(("container", "field"), UNAPPLICABLE, ids=[each[1] for each in UNAPPLICABLE])
async def test_apply_refuses_list_items_with_duplicate_keys_and_unknown_fields_on_create_and_on_update(
    bench: Bench, container: dict[str, Any], field: str
):
    refused = bench.deployment("refused", **container)
    with pytest.raises(BadRequest, match=field):
        await bench.client.apply(refused, dry_run=True)
    with pytest.raises(BadRequest, match=field):
        await bench.client.apply(refused)
    assert await bench.client.uncached.find(Deployment, bench.key("refused")) is None
    await bench.client.apply(bench.deployment("taken"))
    with pytest.raises(BadRequest, match=f"Deployment {bench.namespace}/taken: .*{field}"):
        await bench.client.apply(bench.deployment("taken", **container))


async def test_apply_raises_already_exists_when_another_client_created_the_object_first(bench: Bench):
    """Use a Deployment that mounts a volume twice, because the client creates such objects with an apply."""

    def wanted(name: str) -> Deployment:
        mounts = [{"name": "v", "mountPath": path} for path in ("/a", "/b")]
        made = bench.deployment(name, volumeMounts=mounts)
        made.spec["template"]["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
        return made

    made = await bench.client.apply(wanted("new"))
    assert made.outcome is Outcome.CREATED
    stored = orjson.loads(await bench.client.uncached.read(Deployment, made.object.key))
    entries = stored["metadata"]["managedFields"]
    assert [each["operation"] for each in entries if each["manager"] == "test"] == ["Apply"]
    assert (await bench.client.apply(wanted("new"))).outcome is Outcome.UNCHANGED
    await bench.client.named("another").create(bench.deployment("d"))
    late = wanted("d")
    with pytest.raises(AlreadyExists):
        await bench.client._create(late, late.key, applied_fields(late, None, None), (), dry_run=False)
    there = await bench.client.uncached.get(Deployment, bench.key("d"))
    assert "volumeMounts" not in there.spec["template"]["spec"]["containers"][0]


@pytest.mark.parametrize("way", ["created", "updated", "applied", "applied and created by us"])
async def test_apply_removes_fields_of_a_former_field_manager(bench: Bench, crds: ControlPlane, way: str):
    client, old = bench.client, bench.client.named("old")
    env = [{"name": "OLD", "value": "1"}, {"name": "BOTH", "value": "1"}]
    theirs = bench.deployment("d", env=env)
    theirs.metadata.annotations["old"] = "1"
    if way == "created":
        await old.create(theirs)
    elif way == "updated":
        await client.named("another").create(bench.deployment("d"))
        there = await client.uncached.get(Deployment, bench.key("d"))
        there.spec, there.metadata.annotations["old"] = theirs.spec, "1"
        await old.patch(there)
    else:
        await old.apply(theirs)
        if "by us" in way:
            await client.named("new").apply(bench.deployment("d"))
    new = client.named("new", former_managers=("test-old",))
    where = f"--namespace={bench.namespace}"
    shown = crds.kubectl(where, "get", "deployment", "d", "-o", "yaml", "--show-managed-fields")
    assert "manager: test-old" in shown.stdout
    wanted = bench.deployment("d", env=[{"name": "BOTH", "value": "1"}])
    applied = await new.apply(wanted)
    assert applied.outcome is Outcome.UPDATED
    [container] = applied.object.spec["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "BOTH", "value": "1"}]
    stored = await client.uncached.get(Deployment, bench.key("d"))
    assert "old" not in stored.metadata.annotations
    entries = orjson.loads(stored.origin or b"")["metadata"]["managedFields"]
    assert "test-old" not in {each["manager"].partition("+")[0] for each in entries}
    before = bench.writes()
    assert (await new.apply(wanted)).outcome is Outcome.UNCHANGED
    assert bench.writes() == before


AUTOSCALER = {"group": "autoscaling", "kind": "HorizontalPodAutoscaler", "plural": "horizontalpodautoscalers"}


class AutoscalerV1(Resource, version="v1", **AUTOSCALER):
    spec: dict[str, Any]


class Autoscaler(Resource, version="v2", **AUTOSCALER):
    spec: dict[str, Any]


@pytest.mark.parametrize("way", ["created", "applied", "both"])
@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("force", [False, True])
async def test_apply_removes_fields_that_a_former_field_manager_set_in_another_api_version(
    bench: Bench, way: str, ours: bool, force: bool
):
    """Apply a HorizontalPodAutoscaler, whose CPU target is in different fields in v1 and v2."""
    client, old = bench.client, bench.client.named("old")
    new = client.named("new", former_managers=("test-old",))
    metadata = ObjectMeta(name="a", namespace=bench.namespace)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"scaleTargetRef": target, "maxReplicas": 5}
    theirs = AutoscalerV1(
        metadata=metadata, spec={**spec, "minReplicas": 2, "targetCPUUtilizationPercentage": 50}
    )
    if way == "applied":
        await old.apply(theirs)
    else:
        await old.create(theirs)
    if way == "both":
        await old.apply(theirs.model_copy(update={"spec": {**theirs.spec, "minReplicas": 3}}))
    memory = {"type": "Utilization", "averageUtilization": 60}
    spec["metrics"] = [{"type": "Resource", "resource": {"name": "memory", "target": memory}}]
    wanted = Autoscaler(metadata=metadata, spec=spec)
    if ours:
        await client.named("new").apply(wanted)
    applied = await new.apply(wanted, force=force)
    assert applied.object.spec == {**spec, "minReplicas": 1}
    stored = await client.uncached.get(Autoscaler, wanted.key)
    entries = orjson.loads(stored.origin or b"")["metadata"]["managedFields"]
    own = [each for each in entries if not each.get("subresource")]  # the autoscaler writes the status
    booked = [(each["manager"], each["operation"], each["apiVersion"]) for each in own]
    assert booked == [("test-new", "Apply", "autoscaling/v2")]
    before = bench.writes()
    assert (await new.apply(wanted)).outcome is Outcome.UNCHANGED
    assert bench.writes() == before


@pytest.mark.parametrize("way", ["new", "created", "applied"])
async def test_apply_sets_initial_fields_once_and_keeps_later_changes_of_other_clients(
    bench: Bench, way: str
):
    """Let another client change the replicas; the number must never become the default of 1."""
    client, key = bench.client, bench.key("d")

    def wanted(image: str = "image:1") -> Deployment:
        made = bench.deployment("d", image=image, resources={"requests": {"cpu": "2"}})
        made.spec["replicas"] = 3
        return made

    initial = (".spec.replicas", '.spec.template.spec.containers[name="main"].resources')
    if way == "applied":
        await client.apply(wanted("image:0"))
    if way != "new":
        await client.apply(wanted())
    await client.apply(wanted(), initial=initial)
    before = bench.writes()
    assert (await client.apply(wanted(), initial=initial)).outcome is Outcome.UNCHANGED
    assert bench.writes() == before
    for replicas, image in ((3, "image:2"), (7, "image:3")):
        scale = client.subresource("scale")
        await scale.patch(wanted(), {"spec": {"replicas": replicas}})
        there = await client.uncached.get(Deployment, key)
        there.spec["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(replicas)}}
        await client.named("another").patch(there)
        applied = await client.apply(wanted(image), initial=initial, force=False)
        assert applied.outcome is Outcome.UPDATED
        [container] = applied.object.spec["template"]["spec"]["containers"]
        assert (applied.object.spec["replicas"], container["image"]) == (replicas, image)
        assert container["resources"] == {"requests": {"cpu": str(replicas)}}
    await client.delete(wanted())
    for typo in (".spec.replica", ".spec.replicas "):
        with pytest.raises(ValueError, match=r"is created without its initial \.spec\.replica"):
            await client.apply(wanted(), initial=(typo,))


async def test_client_reads_and_writes_a_discovered_kind_without_a_model(bench: Bench):
    client = bench.client
    foos = await client.discover("tutorial.my.domain/v1", "Foo")
    assert (foos.plural, foos.namespaced) == ("foos", True)
    assert not (await client.discover("v1", "Node")).namespaced
    with pytest.raises(NoMatch):
        await client.discover("tutorial.my.domain/v1", "Bar")
    await bench.cache.informer(foos).wait_synced()
    manifest = {
        "apiVersion": "tutorial.my.domain/v1",
        "kind": "Foo",
        "metadata": {"name": "f", "namespace": bench.namespace},
        "spec": {"name": "friend"},
    }
    foo = (await client.apply(Unstructured.parse(manifest))).object
    assert (await client.apply(Unstructured.parse(manifest))).outcome is Outcome.UNCHANGED
    foo.content["spec"]["name"] = "another"
    await client.patch(foo)
    foo = await client.get(foos, foo.key)
    assert foo.content["spec"] == {"name": "another"}
    foo.content["status"] = {"happy": True}
    await client.status.patch(foo)
    async with client.watch(foos, namespace=bench.namespace) as live:
        [seen] = await anext(live)
        assert (seen.content["spec"], seen.content["status"]) == ({"name": "another"}, {"happy": True})
    config_maps = Unstructured.of("v1", "ConfigMap")
    child = {"metadata": {"name": "c", "namespace": bench.namespace}, "data": {"a": "1"}}
    await client.apply(config_maps.model_validate(child), owner=foo)
    assert [each.content["data"] for each in await client.list(config_maps, owner=foo)] == [{"a": "1"}]
    assert (await client.get(ConfigMap, bench.key("c"))).data == {"a": "1"}
    # The deletion has a UID precondition.
    await client.delete(foo)
    assert await client.find(foos, foo.key) is None
