from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import Field, ValidationError

from manager.api import (
    ApiModel,
    GroupVersionKind,
    ObjectKey,
    ObjectMeta,
    PartialObjectMetadata,
    Resource,
    recommended_labels,
)


class Gadget(Resource, group="test.example.com", version="v1", plural="gadgets"):
    spec: dict[str, Any] = Field(default_factory=dict)


class Zone(Resource, group="", version="v1", kind="TimeZone", plural="timezones", namespaced=False):
    pass


def test_a_kind_names_itself_by_class_keywords():
    assert Gadget.gvk == GroupVersionKind("test.example.com", "v1", "Gadget")
    assert (Gadget.plural, Gadget.namespaced) == ("gadgets", True)
    assert Zone.gvk == GroupVersionKind("", "v1", "TimeZone")
    assert (Zone.plural, Zone.namespaced) == ("timezones", False)


def test_a_subclass_without_keywords_is_a_variant_of_its_parents_kind():
    class Special(Gadget):
        pass

    assert Special.gvk == Gadget.gvk
    assert Special().kind == "Gadget"


@pytest.mark.parametrize("keywords", [{"version": "v1"}, {"plural": "things"}])
def test_a_kind_without_version_or_plural_is_refused(keywords: dict[str, str]):
    with pytest.raises(TypeError, match="Half must name its version and its plural"):
        type(Resource)("Half", (Resource,), {"__module__": __name__}, **keywords)


def test_api_version_and_kind_are_filled_in():
    assert Gadget().to_wire() == {
        "apiVersion": "test.example.com/v1",
        "kind": "Gadget",
        "metadata": {},
        "spec": {},
    }
    assert (Zone().api_version, Zone().kind) == ("v1", "TimeZone")


def test_an_item_of_a_list_which_has_no_kind_of_its_own_gets_it():
    assert Gadget.decode(b'{"metadata": {"name": "a"}}').kind == "Gadget"


def test_the_key_is_namespace_and_name():
    assert Gadget(metadata=ObjectMeta(name="a", namespace="n")).key == ObjectKey("n", "a")
    assert Zone(metadata=ObjectMeta(name="a")).key == ObjectKey("", "a")


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_a_decoded_object_remembers_what_it_was_decoded_from(form: type[bytes | bytearray | memoryview]):
    raw = b'{"metadata": {"name": "a"}, "spec": {"size": 1}}'
    gadget = Gadget.decode(form(raw))
    gadget.spec["size"] = 2
    assert gadget.origin == raw
    assert gadget.model_copy(deep=True).origin == raw


def test_decoding_what_was_parsed_already_gives_the_same():
    raw = b'{"metadata":{"name":"a","creationTimestamp":"2026-01-31T12:00:00Z"},"extra":{"x":[1]}}'
    decoded = PartialObjectMetadata.decode(raw, parsed=json.loads(raw))
    assert decoded == PartialObjectMetadata.decode(raw)
    assert decoded.origin is raw


def test_decoding_shares_the_bytes_instead_of_copying_them():
    raw = b'{"metadata": {"name": "a"}}'
    assert Gadget.decode(raw).origin is raw


def test_an_object_made_in_code_has_no_origin():
    assert Gadget().origin is None


def test_the_origin_is_not_written():
    assert "origin" not in str(Gadget.decode(b"{}").to_wire())


def test_objects_are_equal_by_their_fields_wherever_they_came_from():
    read = Gadget.decode(b'{"metadata": {"name": "a"}, "more": 1}')
    made = Gadget(metadata=ObjectMeta(name="a"), more=1)
    assert read == made
    made.metadata.name = "b"
    assert read != made
    assert read != Gadget(metadata=ObjectMeta(name="a"))
    assert read != "a"


def test_what_is_not_of_the_kinds_shape_is_refused():
    with pytest.raises(ValidationError):
        Gadget.decode(b'{"metadata": {"name": 1}}')
    with pytest.raises(ValidationError):
        Gadget.decode(b"<html>")


def test_partial_metadata_keeps_the_kind_the_server_sends():
    raw = b'{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "p"}}'
    partial = PartialObjectMetadata.decode(raw)
    assert partial.kind == PartialObjectMetadata.gvk.kind == "PartialObjectMetadata"
    assert partial.key == ObjectKey("", "p")


@pytest.mark.parametrize(
    ("api_version", "kind", "gvk", "text"),
    [
        ("v1", "Pod", GroupVersionKind("", "v1", "Pod"), "Pod.v1"),
        ("apps/v1", "Deployment", GroupVersionKind("apps", "v1", "Deployment"), "Deployment.v1.apps"),
        (
            "cache.example.com/v1",
            "Memcached",
            GroupVersionKind("cache.example.com", "v1", "Memcached"),
            "Memcached.v1.cache.example.com",
        ),
    ],
)
def test_a_kind_reads_and_writes_as_kubernetes_has_it(
    api_version: str, kind: str, gvk: GroupVersionKind, text: str
):
    assert GroupVersionKind.from_api_version(api_version, kind) == gvk
    assert gvk.api_version == api_version
    assert str(gvk) == text


def test_a_key_reads_as_namespace_and_name():
    assert str(ObjectKey("n", "a")) == "n/a"
    assert str(ObjectKey("", "a")) == "a"


class Server(ApiModel):
    host_name: str = "here"
    ready: bool | None = None
    nodes: list[str] = Field(default_factory=list)
    count: int = 0
    options: dict[str, Any] = Field(default_factory=dict)


def test_fields_have_the_apis_names_on_the_wire_and_pythons_in_code():
    server = Server.model_validate_json('{"hostName": "there"}')
    assert server.host_name == "there"
    assert Server(host_name="there").to_wire()["hostName"] == "there"


def test_a_field_that_is_none_is_left_out():
    assert "ready" not in Server().to_wire()


def test_false_zero_and_empty_lists_are_values_and_stay():
    wire = Server(ready=False, nodes=[], count=0).to_wire()
    assert (wire["ready"], wire["nodes"], wire["count"]) == (False, [], 0)


def test_fields_of_a_newer_version_survive_a_read_a_change_and_a_write():
    server = Server.model_validate_json('{"hostName": "a", "colour": {"hue": [1, 2]}, "snake_case": 0}')
    server.host_name = "b"
    wire = server.to_wire()
    assert wire["hostName"] == "b"
    assert wire["colour"] == {"hue": [1, 2]}
    assert wire["snake_case"] == 0


def test_a_map_of_anything_stays_as_it_came():
    options = {"snake_case": 1, "camelCase": None, "list": [None, {}]}
    assert Server(options=options).to_wire()["options"] == options


def test_recommended_labels_name_what_an_object_belongs_to_and_who_keeps_it():
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
