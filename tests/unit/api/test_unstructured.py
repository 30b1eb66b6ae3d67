from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest

from manager.api import GroupVersionKind, Unstructured, controller_reference

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


def test_unstructured_of_returns_the_same_class_for_one_kind():
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
def test_unstructured_of_derives_a_missing_plural(kind: str, plural: str):
    assert Unstructured.of("example.com/v1", kind).plural == plural
    assert Unstructured.of("example.com/v1", kind, plural="things").plural == "things"


@pytest.mark.parametrize(("api_version", "kind"), [("", "Widget"), ("example.com/v1", "")])
def test_unstructured_refuses_a_kind_without_name_or_version(api_version: str, kind: str):
    with pytest.raises(ValueError, match="a kind has an apiVersion and a name"):
        Unstructured.of(api_version, kind)
    with pytest.raises(ValueError, match="a kind has an apiVersion and a name"):
        Unstructured.parse({"apiVersion": api_version, "kind": kind})


def test_unstructured_writes_what_it_has_read():
    widget = Widget.decode(orjson.dumps(STORED))
    assert widget.to_wire() == STORED
    assert orjson.dumps(widget.to_wire()["spec"]) == orjson.dumps(STORED["spec"])  # 1.0 is not 1
    assert widget.to_wire(only={"status"}) == {"status": {"phase": "Ready"}}
    assert copy.deepcopy(widget) == widget == Unstructured.parse(STORED)


def test_unstructured_content_is_changed_in_place_and_never_shared():
    widget = Unstructured.parse(STORED)
    before = widget.to_wire()
    widget.content["spec"]["size"] = 2
    widget.content["more"] = []
    assert (widget.to_wire()["spec"]["size"], widget.to_wire()["more"]) == (2, [])
    assert before["spec"]["size"] == STORED["spec"]["size"] == 1
    assert set(widget.content) == {"spec", "status", "data", "more"}


def test_unstructured_made_in_code_names_its_kind():
    widget = Widget.model_validate({"metadata": {"name": "w"}, "spec": {}})
    assert (widget.api_version, widget.kind) == ("example.com/v1", "Widget")


def test_unstructured_parse_makes_a_manifest_without_namespace_cluster_scoped():
    wire = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u"}}
    node = Unstructured.parse(wire)
    assert not node.namespaced
    assert controller_reference(node, Unstructured.parse(STORED).metadata).kind == "Node"
    with pytest.raises(ValueError, match="metadata"):
        Unstructured.parse({**wire, "metadata": "none"})
