"""Server-side apply: results, conflicts, malformed responses and concurrent writers."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from enum import Enum
from typing import Any, ClassVar

import orjson
import pytest

from apis.cache.v1.memcached import Memcached
from manager.api import ObjectMeta, OwnerReference
from manager.cache import Cache, own_writes_from_here
from manager.client import Applied, ApplyConflict, Client, Outcome, OwnedByOther
from manager.client.managed_fields import creator_name
from manager.controller.failure import Failure
from manager.kube.errors import BadRequest, Conflict, Invalid, ProtocolError
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Namespace
from tests.support.scripted_wire import Reply, ScriptedWire, Sent, Step
from tests.unit.cache.objects import Widget

pytestmark = pytest.mark.virtual_time

COLLECTION = "/apis/apps/v1/namespaces/team/deployments"
PATH = f"{COLLECTION}/cache"
RESOURCES = {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]}
METADATA = {"name": "cache", "namespace": "team", "uid": "u", "resourceVersion": "1"}
WANTED = Deployment(metadata=ObjectMeta(name="cache", namespace="team"), spec={"replicas": 1})


class Scene:
    """A client, its cache, and the scripted connection to a server with one Deployment."""

    def __init__(self, client: Client, cache: Cache, wire: ScriptedWire) -> None:
        self.client, self.cache, self.wire = client, cache, wire
        self.apply = client.apply
        wire.on("GET", "/apis/apps/v1", Reply.json(RESOURCES))

    def there(self, *steps: Step) -> None:
        """Set the responses to GET requests of the Deployment."""
        self.wire.on("GET", PATH, *steps)

    def answers(self, *steps: Step) -> None:
        """Set the responses to PATCH requests of the Deployment."""
        self.wire.on("PATCH", PATH, *steps)

    @property
    def patches(self) -> list[Sent]:
        return self.wire.sent("PATCH")


@pytest.fixture
async def scene(client: Client, cache: Cache, wire: ScriptedWire) -> Scene:
    return Scene(client, cache, wire)


def applied(
    spec: dict[str, Any], record: dict[str, Any], *, version: int = 1, manager: str = "test", **more: Any
) -> Reply:
    """Return the Deployment with a managedFields entry of an apply by `manager`; `record` is its fieldsV1."""
    entry = {"manager": manager, "operation": "Apply", "fieldsV1": record}
    metadata = {**METADATA, "resourceVersion": str(version), "managedFields": [entry]}
    return Reply.json({"metadata": metadata, "spec": spec, **more})


def stored(replicas: int, manager: str = "test") -> Reply:
    """Return the Deployment; `replicas` is its replica count (set by `manager`) and its resource version."""
    return applied({"replicas": replicas}, {"f:spec": {"f:replicas": {}}}, version=replicas, manager=manager)


@pytest.mark.parametrize("watched", ["nothing", "metadata", "all"])
async def test_apply_returns_the_object_before_and_after_an_update(scene: Scene, watched: str):
    if watched != "nothing":
        scene.cache.informer(Deployment, metadata_only=watched == "metadata")
        scene.cache.observe_write(Deployment, stored(5).body)
    if watched != "all":
        scene.there(stored(5))
    scene.answers(stored(1))
    now, before, outcome, _ = await scene.apply(WANTED)
    assert before is not None
    assert (now.spec, before.spec, outcome) == ({"replicas": 1}, {"replicas": 5}, Outcome.UPDATED)


async def test_apply_returns_the_response_when_a_restored_server_reuses_a_cached_version(scene: Scene):
    """Restore the server from a backup: it assigns the resource versions of lost writes again."""
    scene.cache.informer(Deployment)
    scene.cache.observe_write(Deployment, applied({"replicas": 5}, {}, version=7).body)
    scene.answers(applied({"replicas": 1}, {}, version=7))
    assert (await scene.apply(WANTED)).object.spec == {"replicas": 1}


async def test_apply_reads_the_object_when_its_create_fails_with_already_exists(scene: Scene):
    """Assume that an earlier create succeeded, but its response and its watch event have not arrived."""
    scene.cache.informer(Deployment)._sinks[0].finish_list(1)
    scene.wire.on("POST", COLLECTION, Reply.status(409, "AlreadyExists"))
    scene.there(stored(1))
    assert (await scene.apply(WANTED)).outcome is Outcome.UNCHANGED
    assert len(scene.wire.sent("POST")) == 1


@pytest.mark.parametrize(("manager", "writes"), [("test", 0), ("other", 1)])
async def test_apply_of_unchanged_fields_sends_a_patch_only_if_another_field_manager_owns_them(
    scene: Scene, manager: str, writes: int
):
    scene.there(stored(1, manager))
    scene.answers(stored(1))
    assert (await scene.apply(WANTED)).outcome is Outcome.UNCHANGED
    # An object that was replaced meanwhile is refused.
    assert [sent.json()["metadata"]["uid"] for sent in scene.patches] == ["u"] * writes


@pytest.mark.parametrize("changed", ["nothing", "status", "spec", "owner"])
async def test_repeated_apply_sends_no_patch_unless_spec_or_field_manager_changed_on_the_server(
    scene: Scene, changed: str
):
    """Apply a cpu of 0.5 that the server stores as 500m, so stored and desired value never agree."""
    wanted = Deployment(metadata=WANTED.metadata, spec={"replicas": 1, "cpu": "0.5"})

    def reply(version: int, cpu: str = "500m", **more: Any) -> Reply:
        record = {"f:spec": {"f:replicas": {}, "f:cpu": {}}}
        return applied({"replicas": 1, "cpu": cpu}, record, version=version, **more)

    later = {
        "nothing": reply(2),
        "status": reply(3, status={"replicas": 1}),
        "spec": reply(3, "600m"),
        "owner": reply(3, manager="other"),
    }[changed]
    scene.there(reply(1, manager="other"), later)
    scene.answers(reply(2))
    await scene.apply(wanted)
    await scene.apply(wanted)
    assert len(scene.patches) == 1 + (changed in {"spec", "owner"})


class Sort(Enum):
    PLAIN = "plain"


async def test_apply_converts_model_values_to_json_before_it_compares_and_sends_them(scene: Scene):
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    words: list[tuple[Any, Any]] = [
        (Sort.PLAIN, "plain"),
        (("a",), ["a"]),
        (ObjectMeta(name="a"), {"name": "a"}),
        (moment, "2026-01-02T00:00:00Z"),
        (None, None),
    ]
    for value, json in words:
        scene.there(Reply.status(404, "NotFound"))
        scene.wire.on("POST", COLLECTION, stored(1))
        spec = {"replicas": 1, "value": value}
        await scene.apply(Deployment(metadata=WANTED.metadata, spec=spec))
        assert orjson.loads(scene.wire.sent("POST")[-1].body or b"")["spec"] == {"replicas": 1, "value": json}
        item = {"name": "web", **dict.fromkeys("abcde", value)}
        wanted = Deployment(metadata=WANTED.metadata, spec={"value": value, "items": [item]})
        there = {"value": json, "items": [{"name": "web", **dict.fromkeys("abcde", json)}]}
        named = {'k:{"name":"web"}': {".": {}, **{f"f:{name}": {} for name in item}}}
        scene.there(applied(there, {"f:spec": {"f:value": {}, "f:items": named}}))
        assert (await scene.apply(wanted)).outcome is Outcome.UNCHANGED


def created_by_us(version: int) -> dict[str, Any]:
    """Return a Deployment that this client has created with other content."""
    entry = {"manager": "test+1", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    metadata = {**METADATA, "resourceVersion": str(version)}
    return {"metadata": {**metadata, "managedFields": [entry]}, "spec": {"replicas": 5}}


REPLICAS = '"kubectl" using apps/v1', ".spec.replicas"
OUR_CREATE = '"test+1" using apps/v1', ".spec.replicas"


def conflict(*others: tuple[str, str]) -> Reply:
    """Return the 409 response to an apply; `others` are pairs of a manager's description and a field."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": field}
        for who, field in others
    ]
    return Reply.status(409, "Conflict", details={"causes": causes})


async def test_unforced_apply_raises_apply_conflict_with_the_other_field_managers(scene: Scene):
    scene.there(Reply.json({"metadata": METADATA, "spec": {"replicas": 5}}))
    refused = conflict(REPLICAS, ("nobody that is named", ".spec.paused"))
    other = Reply.status(409, "Conflict", details={"causes": [{"reason": "UnexpectedServerResponse"}, 1]})
    scene.answers(refused, other)
    with pytest.raises(ApplyConflict) as caught:
        await scene.apply(WANTED, force=False)
    assert caught.value.conflicts == (("kubectl", ".spec.replicas"), ("", ".spec.paused"))
    assert Failure.of(caught.value) is Failure.FAULT
    with pytest.raises(Conflict) as by_another_cause:
        await scene.apply(WANTED)
    assert Failure.of(by_another_cause.value) is Failure.RACE
    assert [sent.query["force"] for sent in scene.patches] == ["false", "false"]


class TestOutcome:
    """Outcome of an apply: UPDATED if the desired object changed, RESTORED after another client's change."""

    OURS: ClassVar[dict[str, Any]] = {"f:spec": {"f:replicas": {}, "f:paused": {}}}

    async def apply(self, scene: Scene, *replies: Reply, **spec: Any) -> Applied[Any]:
        scene.answers(*replies)
        return await scene.apply(Deployment(metadata=WANTED.metadata, spec=spec))

    @pytest.mark.parametrize("known", [False, True], ids=["by a new process", "by the same process"])
    async def test_apply_reports_restored_when_another_field_manager_has_changed_the_field(
        self, scene: Scene, known: bool
    ):
        if known:
            scene.there(applied({"replicas": 1, "paused": True}, self.OURS))
            await self.apply(scene, replicas=1, paused=True)
        scene.wire.on(
            "GET", PATH, applied({"replicas": 5, "paused": True}, {"f:spec": {"f:paused": {}}}, version=2)
        )
        done = applied({"replicas": 1, "paused": True}, self.OURS, version=3)
        came = await self.apply(scene, conflict(REPLICAS), done, replicas=1, paused=True)
        assert came.outcome is Outcome.RESTORED
        assert came.conflicts == (("kubectl", ".spec.replicas"),)
        assert [sent.query["force"] for sent in scene.patches] == ["false", "true"]

    @pytest.mark.parametrize("known", [False, True], ids=["by a new process", "by the same process"])
    async def test_apply_reports_updated_when_the_desired_value_changes(self, scene: Scene, known: bool):
        scene.there(applied({"replicas": 1, "paused": True}, self.OURS))
        if known:
            await self.apply(scene, replicas=1, paused=True)
        done = applied({"replicas": 2, "paused": True}, self.OURS, version=3)
        came = await self.apply(scene, done, replicas=2, paused=True)
        assert (came.outcome, came.conflicts) == (Outcome.UPDATED, ())
        assert len(scene.patches) == 1

    async def test_apply_reports_restored_when_another_client_removed_the_field(self, scene: Scene):
        scene.there(applied({"replicas": 1, "paused": True}, self.OURS))
        await self.apply(scene, replicas=1, paused=True)
        scene.there(applied({"replicas": 1}, {"f:spec": {"f:replicas": {}}}, version=2))
        done = applied({"replicas": 1, "paused": True}, self.OURS, version=3)
        assert (await self.apply(scene, done, replicas=1, paused=True)).outcome is Outcome.RESTORED

    @pytest.mark.parametrize("same", [True, False])
    async def test_apply_after_a_create_reports_updated_if_the_desired_fields_changed_and_restored_if_not(
        self, scene: Scene, same: bool
    ):
        name = {"name": "cache", "namespace": "team"}
        was = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": name, "spec": {"replicas": 1}}
        digest = creator_name("test", orjson.dumps(was) if same else b"something else")
        object_ = created_by_us(1)
        object_["metadata"]["managedFields"][0]["manager"] = digest
        scene.there(Reply.json(object_))
        came = await self.apply(scene, stored(1), replicas=1)
        assert came.outcome is (Outcome.RESTORED if same else Outcome.UPDATED)


@pytest.mark.parametrize(
    ("before", "answer", "is_own"),
    [
        (
            {"spec": {"replicas": 5, "ports": [{"a": 1}]}},
            {"spec": {"replicas": 1, "ports": [{"a": 1}]}},
            True,
        ),
        ({"spec": {"paused": True}}, {"spec": {"paused": True, "replicas": 1}}, True),
        ({"spec": {"replicas": 5}}, {"spec": {"replicas": 1, "paused": True}}, False),
        ({"spec": {"replicas": 5, "paused": True}}, {"spec": {"replicas": 1}}, False),
        ({"spec": {"replicas": 5}}, {"spec": {"replicas": 1}, "status": {"replicas": 5}}, False),
        ({"spec": {"replicas": 5}}, {"spec": {"replicas": 2}}, False),
    ],
)
async def test_own_writes_contain_an_apply_only_if_its_response_has_the_desired_values_and_no_other_change(
    scene: Scene, before: dict[str, Any], answer: dict[str, Any], is_own: bool
):
    written = own_writes_from_here()
    scene.there(Reply.json({"metadata": {**METADATA, "resourceVersion": "5"}, **before}))
    scene.answers(Reply.json({"metadata": {**METADATA, "resourceVersion": "7"}, **answer}))
    await scene.apply(WANTED)
    assert written == ({("u", 5, 7)} if is_own else set())


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ({"extra": {"on": 0}}, {"extra": {"on": False}}, {}),
        ({"extra": [1]}, {"extra": [True]}, {}),
        ({"names": ["a"]}, {"names": ["b"]}, {"names": ["b"]}),
        ({"ports": [{"port": 1}]}, {"ports": [{"port": 2}]}, {"ports": [{"port": 2}]}),
    ],
    ids=["number to boolean", "number to boolean in a list", "item of a set", "item with a key"],
)
async def test_own_writes_omit_an_apply_that_changes_list_items_or_turns_a_number_into_a_boolean(
    scene: Scene, before: dict[str, Any], after: dict[str, Any], wanted: dict[str, Any]
):
    written = own_writes_from_here()
    scene.there(applied({"replicas": 5, **before}, {}, version=5))
    scene.answers(applied({"replicas": 1, **after}, {}, version=7))
    await scene.apply(Deployment(metadata=WANTED.metadata, spec={"replicas": 1, **wanted}))
    assert written == set()


async def test_each_apply_dry_run_sends_one_dry_run_patch_and_no_other_write(scene: Scene):
    scene.there(Reply.json(created_by_us(1)))
    # The response differs from the desired object; only an apply without dry run remembers that.
    scene.answers(Reply.json(created_by_us(2)))
    for _ in range(2):
        await scene.apply(WANTED, dry_run=True)
    assert [(sent.query["dryRun"], sent.query["force"]) for sent in scene.patches] == [("All", "true")] * 2


@pytest.mark.parametrize("dry_run", [False, True])
async def test_unforced_apply_to_an_object_created_by_this_client_writes_nothing_when_it_conflicts(
    scene: Scene, dry_run: bool
):
    scene.there(Reply.json(created_by_us(1)))
    scene.answers(conflict(OUR_CREATE, REPLICAS))
    with pytest.raises(ApplyConflict) as caught:
        await scene.apply(WANTED, force=False, dry_run=dry_run)
    assert caught.value.conflicts == (("kubectl", ".spec.replicas"),)
    assert [(sent.query["dryRun"], sent.query["force"]) for sent in scene.patches] == [("All", "false")]


async def test_unforced_apply_overrides_the_entry_of_its_own_create(scene: Scene):
    scene.there(*(Reply.json(created_by_us(1)) for _ in range(2)), stored(5))
    scene.answers(conflict(OUR_CREATE), stored(5), stored(5), stored(1))
    assert (await scene.apply(WANTED, force=False)).object.spec == {"replicas": 1}
    sent = [(each.query.get("dryRun"), each.query.get("force")) for each in scene.patches]
    assert sent == [("All", "false"), ("All", "true"), (None, None), (None, "false")]


async def test_unforced_apply_never_forces_the_translation_of_entries_when_another_manager_conflicts(
    scene: Scene,
):
    """Assume that another client sets the field after the dry run."""
    entries = [
        {"manager": "old", "operation": "Apply", "apiVersion": "apps/v1beta1", "fieldsV1": {}},
        {"manager": "test-new", "operation": "Apply", "apiVersion": "apps/v1", "fieldsV1": {}},
    ]
    scene.there(Reply.json({"metadata": {**METADATA, "managedFields": entries}, "spec": {"replicas": 5}}))
    scene.answers(stored(1), stored(5), conflict(('"test-new"', ".spec.paused"), REPLICAS))
    with pytest.raises(ApplyConflict) as caught:
        await scene.client.named("new", former_managers=("old",)).apply(WANTED, force=False)
    assert caught.value.conflicts == (("kubectl", ".spec.replicas"),)
    assert [each.query.get("force") for each in scene.patches] == ["false", None, "false"]


async def test_apply_dry_run_of_a_create_accepts_a_response_without_resource_version(scene: Scene):
    metadata = {name: value for name, value in METADATA.items() if name != "resourceVersion"}
    scene.there(Reply.status(404, "NotFound"))
    scene.wire.on("POST", COLLECTION, Reply.json({"metadata": metadata, "spec": {"replicas": 1}}))
    came = await scene.apply(WANTED, dry_run=True)
    assert (came.outcome, came.object.spec) == (Outcome.CREATED, {"replicas": 1})


async def test_apply_dry_run_sends_a_patch_instead_of_a_create_when_list_items_have_equal_keys(scene: Scene):
    scene.there(Reply.status(404, "NotFound"))
    scene.answers(Reply.json({"metadata": METADATA, "spec": {}}))
    mounts = [{"name": "data", "mountPath": path} for path in ("/a", "/b")]
    await scene.apply(Deployment(metadata=WANTED.metadata, spec={"volumeMounts": mounts}), dry_run=True)
    assert [sent.query["dryRun"] for sent in scene.patches] == ["All"]


GARBLED: list[Step] = [
    Reply(200, b'{"metadata": {"uid": "u", "hunter2'),
    Reply(200, b"[" * 100_000),
    Reply.json([]),
    Reply.json({}),
    Reply.json({"metadata": {}}),
    Reply.json({"metadata": {"uid": "u", "managedFields": 5}}),
    Reply.json({"metadata": {"uid": "u", "managedFields": None, "ownerReferences": ["hunter2"]}}),
]


@pytest.mark.parametrize("answer", GARBLED)
async def test_apply_raises_protocol_error_when_a_response_is_malformed(scene: Scene, answer: Reply):
    scene.answers(stored(1))
    scene.wire.on("POST", COLLECTION, answer)
    reads: list[list[Step]] = [[answer], [Reply.status(404, "NotFound")]]
    # In the last case the second GET is malformed, after the apply has found a child that we created.
    for steps in (*reads, [Reply.json(created_by_us(1)), answer]):
        scene.there(*steps)
        with pytest.raises(ProtocolError, match=r"^not a Deployment object") as caught:
            await scene.apply(WANTED)
        assert "hunter2" not in str(caught.value)


# Malformed managedFields entries of our manager, in an object with all desired fields.
ODD_RECORDS: list[dict[str, Any]] = [
    {"fieldsV1": None},
    {"fieldsV1": ["f:spec"]},
    {"fieldsV1": "f:spec"},
    {"fieldsV1": {"f:spec": ["f:replicas"]}},
    {"fieldsV1": {"f:spec": 1.5}},
    *(
        {"fieldsV1": {"f:spec": {"f:replicas": {}, "f:paths": {path: record}}}}
        for path, record in (
            *((each, {}) for each in ("k:", "k:[1]", 'k:{"name"', "v:", "v:" + "[" * 5000)),
            ('k:{"name":"a"}', 5),
        )
    ),
    {"manager": 5},
    {"manager": None},
    {"manager": ["test"]},
]


@pytest.mark.parametrize("created", [False, True])
@pytest.mark.parametrize("odd", ODD_RECORDS)
async def test_apply_rewrites_malformed_managed_fields_once(scene: Scene, odd: dict[str, Any], created: bool):
    paths = [{"name": "a"}]
    wanted = Deployment(metadata=WANTED.metadata, spec={"replicas": 1, "paths": paths})
    name = creator_name("test", b"something else") if created else "test"
    entry = {"manager": name, "operation": "Update" if created else "Apply", **odd}
    stored = {"metadata": {**METADATA, "managedFields": [entry]}, "spec": {"replicas": 1, "paths": paths}}
    scene.there(Reply.json(stored))
    scene.answers(Reply.json(stored))
    assert (await scene.apply(wanted)).outcome is Outcome.UNCHANGED
    written = len(scene.patches)
    assert written in {1, 3}  # an entry of a create is first renamed, after an accepted dry run
    # The response is malformed again, but the client does not repeat its write.
    assert (await scene.apply(wanted)).outcome is Outcome.UNCHANGED
    assert len(scene.patches) == written


@pytest.mark.parametrize("known", [False, True], ids=["by a new process", "by the same process"])
async def test_apply_rewrites_managed_fields_that_are_nested_too_deeply(scene: Scene, known: bool):
    """Assume that another client has stored these managed fields under the name of our manager."""
    item = {"name": "web", **dict.fromkeys("abcd", "x")}
    spec, deep = {"items": [item]}, b'{"f:a":' * 300 + b"{}" + b"}" * 300
    fields: dict[str, Any] = {".": {}, **{f"f:{name}": {} for name in item}}

    def reply(version: int, **more: str) -> Reply:
        record = {"f:spec": {"f:items": {'k:{"name":"web"}': {**fields, **more}}}}
        step = applied(spec, record, version=version)
        return dataclasses.replace(step, body=step.body.replace(b'"DEEP"', deep))

    wanted = Deployment(metadata=WANTED.metadata, spec=spec)
    scene.answers(reply(2), reply(4))
    if known:
        scene.there(stored(1, "other"))
        await scene.apply(wanted)
    scene.there(reply(3, **{"f:z": "DEEP"}))
    await scene.apply(wanted)
    assert len(scene.patches) == 1 + known


async def test_apply_raises_protocol_error_when_owner_references_are_malformed(scene: Scene):
    owners = [{"controller": True, "name": 5, "kind": "hunter2"}]
    scene.there(Reply.json({"metadata": {**METADATA, "ownerReferences": owners}}))
    owner = Deployment(metadata=ObjectMeta(name="owner", namespace="team", uid="o"), spec={})
    with pytest.raises(ProtocolError, match=r"^not a Deployment object$"):
        await scene.apply(WANTED, owner=owner)


async def test_apply_raises_conflict_when_another_client_writes_before_each_attempt(scene: Scene):
    scene.there(*(Reply.json(created_by_us(version)) for version in range(1, 9)))
    scene.answers(stored(1), Reply.status(422, "Invalid", "the server rejected our request"))
    with pytest.raises(Conflict, match=r"^Deployment team/cache keeps being changed by others$"):
        await scene.apply(WANTED)
    assert len(scene.patches) == 1 + 3


@pytest.mark.parametrize("accepted", [0, 1], ids=["dry run refused", "patch after dry run refused"])
async def test_apply_to_an_object_created_by_this_client_raises_invalid_error_when_the_patch_is_refused(
    scene: Scene, accepted: int
):
    scene.there(Reply.json(created_by_us(1)))
    scene.answers(*[stored(1)] * accepted, Reply.status(422, "Invalid", "replicas must be 7"))
    with pytest.raises(Invalid, match="replicas must be 7"):
        await scene.apply(WANTED)
    sent = scene.patches
    assert ["dryRun" in each.query for each in sent] == [True, False][: 1 + accepted]


class TestApplierTakenName:
    """Apply to a name that a foreign object has; the cache has only the metadata of the foreign object."""

    OWNER = Widget.decode(
        b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"team","uid":"w"}}'
    )

    def hold(self, scene: Scene, *owners: dict[str, Any]) -> Reply:
        scene.cache.informer(Deployment, owned_by=Widget)
        metadata = {**METADATA, "resourceVersion": "5"}
        body = {"metadata": {**metadata, "ownerReferences": owners}, "spec": {"replicas": 5}}
        held = Reply.json(body)
        scene.cache.observe_write(Deployment, held.body)
        return held

    async def test_apply_refuses_an_object_with_another_cached_controller_without_a_get(self, scene: Scene):
        self.hold(scene, {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "a", "controller": True})
        for refused in (
            scene.apply(WANTED, owner=self.OWNER),
            scene.client.refuse_foreign(Deployment, WANTED.key, self.OWNER),
        ):
            with pytest.raises(OwnedByOther, match="belongs to A a"):
                await refused
        assert scene.wire.sent("GET", PATH) == []

    async def test_apply_reads_the_object_when_its_cached_metadata_has_no_controller(self, scene: Scene):
        held = self.hold(scene)
        scene.there(held)
        with pytest.raises(OwnedByOther, match="was created by somebody else"):
            await scene.apply(WANTED, owner=self.OWNER)
        assert len(scene.wire.sent("GET", PATH)) == 1

    async def test_apply_creates_the_child_when_the_cached_object_of_its_name_was_deleted(self, scene: Scene):
        self.hold(scene)
        scene.there(Reply.status(404, "NotFound"))
        scene.wire.on("POST", COLLECTION, stored(1))
        assert (await scene.apply(WANTED, owner=self.OWNER)).outcome is Outcome.CREATED

    async def test_apply_without_owner_reads_the_object_when_only_metadata_is_cached(self, scene: Scene):
        scene.there(self.hold(scene))
        scene.answers(stored(6))
        now, before, outcome, _ = await scene.apply(WANTED)
        assert before is not None
        assert (now.spec, before.spec, outcome) == ({"replicas": 6}, {"replicas": 5}, Outcome.UPDATED)
        assert (await scene.client.get(Deployment, WANTED.key)).spec == {"replicas": 6}
        assert len(scene.wire.sent("GET", PATH)) == 1, "the cache has the complete object after our write"


# Owner references: the client changes no foreign objects, and adds no invalid owner.

OWNER = Memcached.model_validate(
    {"metadata": {"name": "cache", "namespace": "team", "uid": "new"}, "spec": {"size": 1}}
)


def reference(name: str, uid: str, **more: Any) -> dict[str, Any]:
    named = {"apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": name, "uid": uid}
    return named | more


@pytest.mark.parametrize(
    ("owner", "message", "controller"),
    [
        (
            reference("other", "other", controller=True),
            "Deployment cache already exists and belongs to Memcached other",
            "other",
        ),
        (
            reference("cache", "old", controller=True),
            "Deployment cache already exists and belongs to Memcached cache",
            "old",
        ),
        (reference("cache", "new"), "Deployment cache already exists and was created by somebody else", None),
    ],
    ids=["other controller", "deleted owner of the same name", "owner but not controller"],
)
async def test_apply_with_owner_refuses_an_object_that_this_owner_does_not_control(
    scene: Scene, owner: dict[str, Any], message: str, controller: str | None
):
    metadata = {**METADATA, "uid": "theirs", "ownerReferences": [owner]}
    scene.there(Reply.json({"metadata": metadata, "spec": {}}))
    with pytest.raises(OwnedByOther) as refused:
        await scene.apply(WANTED, owner=OWNER)
    assert str(refused.value) == message
    assert (refused.value.controller and refused.value.controller.uid) == controller
    assert {sent.method for sent in scene.wire.requests} == {"GET"}


async def test_apply_refuses_an_owner_in_another_namespace_without_a_request(scene: Scene):
    elsewhere = Deployment(metadata=ObjectMeta(name="cache", namespace="other"), spec={"replicas": 1})
    with pytest.raises(
        ValueError, match="Memcached team/cache cannot own cache, which is in namespace other"
    ):
        await scene.apply(elsewhere, owner=OWNER)
    assert scene.wire.requests == []


async def test_apply_refuses_unknown_metadata_fields_without_a_request(scene: Scene):
    typing: Any = {"name": "cache", "namespace": "team", "label": {"app": "web"}}
    wanted = Deployment(metadata=ObjectMeta(**typing), spec={"replicas": 1})
    message = 'Deployment team/cache: unknown field "metadata.label"; did you mean metadata.labels?'
    with pytest.raises(BadRequest) as error:
        await scene.apply(wanted)
    assert str(error.value) == message
    assert scene.wire.requests == []


@pytest.mark.parametrize("exists", [False, True])
async def test_apply_error_for_an_unknown_field_suggests_the_most_similar_field(scene: Scene, exists: bool):
    message = 'strict decoding error: unknown field "spec.replica"'
    scene.there(stored(5) if exists else Reply.status(404, "NotFound"))
    scene.wire.on("POST", COLLECTION, Reply.status(400, "BadRequest", message))
    scene.answers(Reply.status(400, "BadRequest", message))
    with pytest.raises(BadRequest, match=f"{message}; did you mean spec.replicas?"):
        await scene.apply(WANTED)


async def test_apply_accepts_every_metadata_field_that_a_server_sets(scene: Scene):
    of_server = {"managedFields": [], "selfLink": "/", "deletionGracePeriodSeconds": 0, "generation": 1}
    typed: Any = {**METADATA, **of_server}
    scene.there(Reply.json({"metadata": METADATA, "spec": {"replicas": 1}}))
    scene.answers(Reply.json({"metadata": METADATA, "spec": {"replicas": 1}}))
    await scene.apply(Deployment(metadata=ObjectMeta.model_validate(typed), spec={"replicas": 1}))
    assert scene.patches


@pytest.mark.parametrize("write", ["create", "update", "patch", "apply"])
async def test_client_refuses_a_namespaced_owner_of_a_cluster_scoped_object(scene: Scene, write: str):
    served = {"resources": [{"name": "memcacheds", "kind": "Memcached", "namespaced": True}]}
    scene.wire.on("GET", "/apis/cache.example.com/v1", Reply.json(served))
    scene.wire.on("GET", "/apis/unknown.example.com/v1", Reply.status(404, "NotFound"))
    child = Namespace.decode(b'{"metadata": {"name": "child", "uid": "1", "resourceVersion": "1"}}')
    unknown = reference("cache", "1", apiVersion="unknown.example.com/v1")
    owners = [OwnerReference.model_validate(each) for each in (unknown, reference("cache", "new"))]
    child.metadata.owner_references.extend(owners)
    with pytest.raises(
        ValueError, match="Memcached cache cannot own Namespace child, which is in no namespace"
    ):
        await getattr(scene.client, write)(child)
    assert {sent.method for sent in scene.wire.requests} == {"GET"}
