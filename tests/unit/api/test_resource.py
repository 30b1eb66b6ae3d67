from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import Field, ValidationError

from manager.api import GroupVersionKind, ObjectKey, ObjectMeta, PartialObjectMetadata, Resource


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
