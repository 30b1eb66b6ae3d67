from __future__ import annotations

import copy
import json
from typing import Any

import orjson
import pytest
from pydantic import Field, SecretStr, field_serializer

from apis.cache.v1.memcached import Memcached, MemcachedSpec
from manager.api import (
    ApiModel,
    Condition,
    GroupVersionKind,
    ObjectMeta,
    OwnerReference,
    Resource,
    Unstructured,
    controller_of,
    controller_reference,
    is_controlled_by,
    recommended_labels,
)
from manager.api.model import take_over, without_defaults
from tests.support.effort import Effort


class Gadget(Resource, group="test.example.com", version="v1", plural="gadgets"):
    spec: dict[str, Any] = Field(default_factory=dict)


class Zone(Resource, group="", version="v1", kind="TimeZone", plural="timezones", namespaced=False):
    pass


def test_resource_gets_its_kind_from_class_keywords_or_its_base_class():
    class Special(Gadget):
        pass

    assert Gadget.gvk == Special.gvk == GroupVersionKind("test.example.com", "v1", "Gadget")
    assert (Gadget.plural, Gadget.namespaced, Special().kind) == ("gadgets", True, "Gadget")
    assert Zone.gvk == GroupVersionKind("", "v1", "TimeZone")
    assert (Zone.plural, Zone.namespaced) == ("timezones", False)
    assert (Zone().api_version, Zone().kind) == ("v1", "TimeZone")
    made = {"apiVersion": "test.example.com/v1", "kind": "Gadget", "metadata": {}, "spec": {}}
    assert Gadget().to_wire() == made


@pytest.mark.parametrize("keywords", [{"version": "v1"}, {"plural": "things"}])
def test_resource_refuses_a_kind_without_version_or_plural(keywords: dict[str, str]):
    with pytest.raises(TypeError, match="Half must name its version and its plural"):
        type(Resource)("Half", (Resource,), {"__module__": __name__}, **keywords)


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_decoded_resource_keeps_its_original_json_after_changes(form: type[bytes | bytearray | memoryview]):
    raw = b'{"metadata": {"name": "a"}, "spec": {"size": 1}}'
    gadget = Gadget.decode(form(raw))
    gadget.spec["size"] = 2
    assert gadget.origin == raw
    assert (gadget.origin is raw) is (form is bytes), "bytes are not copied"
    assert gadget.model_copy(deep=True).origin == raw


def test_decoded_resource_equals_a_constructed_resource_with_the_same_fields():
    read = Gadget.decode(b'{"metadata": {"name": "a"}, "more": 1}')
    made = Gadget(metadata=ObjectMeta(name="a"), more=1)
    assert read == made
    made.metadata.name = "b"
    assert read != made
    assert read != Gadget(metadata=ObjectMeta(name="a"))
    assert read != "a"


@pytest.mark.parametrize(
    ("api_version", "kind", "text"),
    [
        ("v1", "Pod", "Pod.v1"),
        ("apps/v1", "Deployment", "Deployment.v1.apps"),
        ("cache.example.com/v1", "Memcached", "Memcached.v1.cache.example.com"),
    ],
)
def test_group_version_kind_parses_and_formats_api_versions_as_kubernetes_does(
    api_version: str, kind: str, text: str
):
    gvk = GroupVersionKind.from_api_version(api_version, kind)
    assert (gvk.group, gvk.version) == (text.partition(".v1")[2].removeprefix("."), "v1")
    assert (gvk.kind, gvk.api_version, str(gvk)) == (kind, api_version, text)


class Server(ApiModel):
    host_name: str = "here"
    ready: bool | None = None
    nodes: list[str] = Field(default_factory=list)
    count: int = 0
    options: dict[str, Any] = Field(default_factory=dict)


def test_model_to_wire_keeps_unknown_fields_falsy_values_and_map_keys():
    options = {"snake_case": 1, "camelCase": None, "list": [None, {}]}
    unknown = {"colour": {"hue": [1, 2]}, "snake_case": 0}
    sent = {"hostName": "a", "ready": False, "nodes": [], "count": 0, "options": options, **unknown}
    server = Server.model_validate_json(json.dumps(sent))
    server.host_name = "b"
    assert server.to_wire() == {**sent, "hostName": "b"}


def test_recommended_labels_contain_the_names_of_the_object_and_of_the_managing_program():
    gadget = Gadget(metadata=ObjectMeta(name="lamp", namespace="team"))
    assert recommended_labels(gadget, "our-manager") == {
        "app.kubernetes.io/name": "gadget",
        "app.kubernetes.io/instance": "lamp",
        "app.kubernetes.io/managed-by": "our-manager",
    }
    assert recommended_labels(gadget, "our-manager", name="mysql", component="database", part_of="shop") == {
        "app.kubernetes.io/name": "mysql",
        "app.kubernetes.io/instance": "lamp",
        "app.kubernetes.io/component": "database",
        "app.kubernetes.io/part-of": "shop",
        "app.kubernetes.io/managed-by": "our-manager",
    }


class Step(ApiModel):
    name: str
    done: bool = False


class BatchStatus(ApiModel):
    phase: str = ""
    last: Step | None = None
    steps: list[Step] = Field(default_factory=list)
    seen: dict[str, int] = Field(default_factory=dict)
    parts: dict[str, Step] = Field(default_factory=dict)
    conditions: list[Condition] = Field(default_factory=list)


class Batch(Resource, group="test.example.com", version="v1", plural="batches"):
    spec: Step = Field(default_factory=lambda: Step(name="first"))
    status: BatchStatus = Field(default_factory=BatchStatus)


def batch(**fields: Any) -> Batch:
    metadata = {"name": "a", "namespace": "default", "resourceVersion": "1", **fields.pop("metadata", {})}
    return Batch.decode(json.dumps({"metadata": metadata, **fields}).encode())


def condition(name: str, status: str = "True") -> dict[str, Any]:
    return {"type": name, "status": status, "reason": "Set", "message": "", "lastTransitionTime": None}


def test_resource_updates_nested_status_objects_in_place_from_a_response():
    held = batch(status={"last": {"name": "one"}, "steps": [{"name": "one"}], "parts": {"a": {"name": "x"}}})
    status, last, steps = held.status, held.status.last, held.status.steps
    first, seen, parts = steps[0], status.seen, status.parts
    assert last is not None
    last.done = first.done = True
    seen["one"] = 1
    sent = held.to_wire(only={"status"})
    stored = batch(status={**sent["status"], "phase": "Set by the server"}, metadata={"resourceVersion": "2"})
    held.take(stored, sent=sent)
    assert held.status is status
    now = status.last, status.steps, steps[0], status.seen, status.parts
    assert all(each is before for each, before in zip(now, (last, steps, first, seen, parts), strict=True))
    assert (status.phase, held.metadata.resource_version) == ("Set by the server", "2")
    assert held.origin == stored.origin


def test_resource_keeps_local_changes_made_between_write_and_response():
    held = batch(status={"steps": [{"name": "one"}]})
    held.status.phase = "sent"
    sent = held.to_wire(only={"status"})
    held.status.phase = "later"
    held.status.seen["two"] = 2
    held.status.steps.append(Step(name="two"))
    held.take(batch(status={**sent["status"], "last": {"name": "theirs"}}), sent=sent)
    assert (held.status.phase, held.status.seen) == ("later", {"two": 2})
    assert [each.name for each in held.status.steps] == ["one", "two"]
    assert held.status.last == Step(name="theirs")


def test_resource_adopts_server_changes_of_fields_that_the_write_did_not_send():
    held = batch(spec={"name": "one"}, status={"phase": "old", "conditions": [condition("Ready")]})
    held.metadata.annotations["ours"] = "not sent yet"
    held.status.seen["ours"] = 1
    theirs = {"phase": "new", "conditions": [condition("Ready"), condition("Theirs")], "seen": {"theirs": 2}}
    stored = batch(
        spec={"name": "two", "size": 3},
        status=theirs,
        metadata={"resourceVersion": "2", "labels": {"a": "b"}},
    )
    held.take(stored, sent={})
    assert held.metadata.annotations == {"ours": "not sent yet"}
    assert (held.metadata.labels, held.metadata.resource_version) == ({"a": "b"}, "2")
    assert held.spec.to_wire() == {"name": "two", "done": False, "size": 3}
    assert (held.status.phase, held.status.seen) == ("new", {"ours": 1, "theirs": 2})
    assert [each.type for each in held.status.conditions] == ["Ready", "Theirs"]


class Account(ApiModel):
    name: str
    password: SecretStr
    tries: int = Field(default=0, exclude=True)


class Accounts(Resource, group="test.example.com", version="v1", plural="accounts"):
    spec: list[Account] = Field(default_factory=list)
    status: Account | None = None


def test_resource_copies_secret_values_from_a_response_unmasked():
    user = {"name": "a", "password": "hidden"}
    first = {"metadata": {"name": "a", "resourceVersion": "1"}, "spec": [user], "status": user}
    held = Accounts.decode(orjson.dumps(first))
    held.spec[0].tries = 1
    second = {**first, "metadata": {"name": "a", "resourceVersion": "2"}, "status": {**user, "name": "b"}}
    held.take(Accounts.decode(orjson.dumps(second)), sent={})
    assert held.status is not None
    assert (held.metadata.resource_version, held.status.name, held.spec[0].tries) == ("2", "b", 1)
    assert {each.password.get_secret_value() for each in (held.status, *held.spec)} == {"hidden"}


def test_resource_updates_metadata_lists_and_maps_in_place_from_a_response():
    held = batch(metadata={"labels": {"a": "1"}})
    labels, finalizers = held.metadata.labels, held.metadata.finalizers
    for metadata in ({"finalizers": ["x"]}, {"labels": {"b": "2"}}):
        held.take(batch(metadata=metadata), sent={})
        assert (held.metadata.labels, held.metadata.finalizers) == (labels, finalizers)
        assert (labels, finalizers) == (metadata.get("labels", {}), metadata.get("finalizers", []))
    assert held.metadata.labels is labels
    assert held.metadata.finalizers is finalizers


class Sorted(Resource, group="test.example.com", version="v1", plural="sorteds"):
    spec: list[str] = Field(default_factory=list)

    @field_serializer("spec")
    def once(self, names: list[str]) -> list[str]:
        return sorted(set(names))


def test_resource_copies_a_response_list_unchanged_even_if_the_model_serializer_drops_duplicates():
    metadata = {"name": "a", "resourceVersion": "1"}
    held, stored = (Sorted.decode(orjson.dumps({"metadata": metadata, "spec": [each] * 2})) for each in "ba")
    held.take(stored, sent={})
    assert held.spec == ["a", "a"]


def test_resource_copies_a_long_list_of_a_response_in_linear_time():
    held = batch(status={"steps": [{"name": f"ours-{each}"} for each in range(2_000)]})
    stored = batch(status={"steps": [{"name": f"theirs-{each}"} for each in range(2_000)]})
    with Effort() as effort:
        held.take(stored, sent={})
    assert held.status == stored.status
    assert effort.units < 30


def test_resource_merges_conditions_by_type_when_client_and_server_changed_them():
    held = batch(status={"conditions": [condition("Ready"), condition("Gone")]})
    ready = held.status.conditions[0]
    del held.status.conditions[1]
    held.status.conditions.append(Condition.model_validate(condition("Ours")))
    theirs = [condition("Theirs"), condition("Gone"), condition("Ready", "False")]
    held.take(batch(status={"conditions": theirs}), sent={})
    found = {each.type: each.status for each in held.status.conditions}
    assert found == {"Theirs": "True", "Ready": "False", "Ours": "True"}
    assert next(each for each in held.status.conditions if each.type == "Ready") is ready


def test_resource_updates_plain_json_in_place_from_a_response():
    held = Unstructured.of("test.example.com/v1", "Widget").decode(
        b'{"metadata":{"name":"a"},"status":{"steps":[{"name":"x","n":1}],"old":1},"data":{"a":"1"},"gone":1,"on":1}'
    )
    status, step = held.content["status"], held.content["status"]["steps"][0]
    stored = type(held).decode(
        b'{"metadata":{"name":"a"},"status":{"steps":[{"name":"x","n":2}],"new":1},"data":{"a":"2"},"on":true}'
    )
    held.take(stored, sent={})
    assert held.content == {
        "status": {"steps": [{"name": "x", "n": 2}], "new": 1},
        "data": {"a": "2"},
        "on": True,
    }
    assert held.content["on"] is True
    assert held.content["status"] is status
    assert status["steps"][0] is step


def test_json_without_defaults_omits_never_assigned_fields_and_keeps_assigned_default_values():
    made = Batch(
        spec=Step(name="one"), status=BatchStatus(steps=[Step(name="a"), Step(name="b", done=False)])
    )
    made.status.seen["changed in place"] = 1
    made.status.parts = {"x": Step(name="x")}
    assert without_defaults(made, made.to_wire()) == {
        "spec": {"name": "one"},
        "status": {
            "steps": [{"name": "a"}, {"name": "b", "done": False}],
            "seen": {"changed in place": 1},
            "parts": {"x": {"name": "x"}},
        },
    }
    read = batch(spec={"name": "one", "done": False, "more": 1})
    assert without_defaults(read, read.to_wire())["spec"] == {"name": "one", "done": False, "more": 1}


OWNER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "name": "p",
    "uid": "1",
    "controller": True,
    "blockOwnerDeletion": True,
}


@pytest.mark.parametrize(
    "wire",
    [
        {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "7", "generation": 2},
        {"generateName": "a-", "labels": {"l": ""}, "annotations": {"n": "v"}, "finalizers": ["f/f"]},
        {"creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:06Z"},
        {"ownerReferences": [OWNER]},
        {"managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}], "deletionGracePeriodSeconds": 0},
    ],
)
def test_object_meta_round_trips_unchanged(wire: dict[str, Any]):
    assert ObjectMeta.model_validate_json(json.dumps(wire)).to_wire() == wire


CHILD = ObjectMeta(name="c", namespace="n")


def memcached(uid: str) -> Memcached:
    return Memcached(metadata=ObjectMeta(name="m", namespace="n", uid=uid), spec=MemcachedSpec(size=1))


def reference(uid: str, *, controller: bool | None) -> OwnerReference:
    return OwnerReference(api_version="v1", kind="Pod", name="p", uid=uid, controller=controller)


def test_controller_of_object_meta_returns_the_owner_marked_as_controller():
    mine = reference("2", controller=True)
    others = [reference("1", controller=None), reference("3", controller=False)]
    child = ObjectMeta(owner_references=[others[0], mine, others[1]])
    assert controller_of(child) is mine
    assert is_controlled_by(child, memcached("2"))
    assert not is_controlled_by(child, memcached("1"))
    for without in (ObjectMeta(owner_references=others), ObjectMeta()):
        assert controller_of(without) is None
        assert not is_controlled_by(without, memcached("1"))


@pytest.mark.parametrize(
    ("uid", "namespace", "why"),
    [
        ("", "n", "has no UID"),
        ("1", "other", "cannot own c, which is in namespace other"),
        ("1", "", "cannot own c, which is in no namespace"),
    ],
)
def test_controller_reference_refuses_an_owner_without_uid_or_in_another_namespace(
    uid: str, namespace: str, why: str
):
    with pytest.raises(ValueError, match=f"Memcached n/m {why}"):
        controller_reference(memcached(uid), ObjectMeta(name="c", namespace=namespace))


Widget = Unstructured.of("example.com/v1", "Widget")
STORED: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {
        "name": "w",
        "namespace": "ns",
        "uid": "u",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "managedFields": [{"manager": "m"}],
    },
    "spec": {"size": 1, "ratio": 1.0, "nothing": None, "items": [{"name": "a", "value": None}, []]},
    "status": {"phase": "Ready"},
    "data": "anything",
}


def test_unstructured_of_returns_the_same_class_for_the_same_kind():
    assert Widget is Unstructured.of("example.com/v1", "Widget")
    assert Widget.gvk == GroupVersionKind("example.com", "v1", "Widget")
    assert (Widget.plural, Widget.namespaced) == ("widgets", True)
    node = Unstructured.of("v1", "Node", namespaced=False)
    assert (node.gvk, node.plural, node.namespaced) == (("", "v1", "Node"), "nodes", False)
    assert Unstructured.of("v1", "Node") is not node


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Ingress", "ingresses"),
        ("NetworkPolicy", "networkpolicies"),
        ("Gateway", "gateways"),
        ("Box", "boxes"),
    ],
)
def test_unstructured_of_derives_the_plural_from_the_kind_unless_it_is_given(kind: str, plural: str):
    assert Unstructured.of("example.com/v1", kind).plural == plural
    assert Unstructured.of("example.com/v1", kind, plural="things").plural == "things"


@pytest.mark.parametrize(("api_version", "kind"), [("", "Widget"), ("example.com/v1", "")])
def test_unstructured_refuses_a_kind_without_name_or_version(api_version: str, kind: str):
    with pytest.raises(ValueError, match="a kind needs an apiVersion and a name"):
        Unstructured.of(api_version, kind)
    with pytest.raises(ValueError, match="a kind needs an apiVersion and a name"):
        Unstructured.parse({"apiVersion": api_version, "kind": kind})


def test_unstructured_round_trips_unchanged():
    widget = Widget.decode(orjson.dumps(STORED))
    assert widget.to_wire() == STORED
    assert orjson.dumps(widget.to_wire()["spec"]) == orjson.dumps(STORED["spec"])  # 1.0 stays 1.0
    assert widget.to_wire(only={"status"}) == {"status": {"phase": "Ready"}}
    assert copy.deepcopy(widget) == widget == Unstructured.parse(STORED)


def test_unstructured_content_can_be_changed_without_changing_its_source_json():
    widget = Unstructured.parse(STORED)
    before = widget.to_wire()
    widget.content["spec"]["size"] = 2
    widget.content["more"] = []
    assert (widget.to_wire()["spec"]["size"], widget.to_wire()["more"]) == (2, [])
    assert before["spec"]["size"] == STORED["spec"]["size"] == 1
    assert set(widget.content) == {"spec", "status", "data", "more"}
    made = Widget.model_validate({"metadata": {"name": "w"}, "spec": {}})
    assert (made.api_version, made.kind) == ("example.com/v1", "Widget")


def test_unstructured_parse_treats_a_manifest_without_namespace_as_cluster_scoped():
    wire = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u"}}
    node = Unstructured.parse(wire)
    assert not node.namespaced
    assert controller_reference(node, Unstructured.parse(STORED).metadata).kind == "Node"
    with pytest.raises(ValueError, match="metadata"):
        Unstructured.parse({**wire, "metadata": "none"})


def test_model_that_forbids_extra_fields_is_updated_from_a_response():
    class Closed(ApiModel, extra="forbid"):
        size: int = 0

    held = Closed(size=1)
    assert take_over(held, Closed(size=2), {"size": 1}, {"size": 1}, {"size": 2}) is held
    assert held.size == 2
