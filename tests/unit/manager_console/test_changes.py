from __future__ import annotations

import tracemalloc
from typing import Any

import orjson
import pytest

from apis.example.v1.wordpress import Wordpress
from manager.api import ObjectKey
from manager.cache import WatchSpec
from manager_console.changes import MOST_FIELDS, Change, fields_of


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str, str]]:
    steps = (orjson.dumps({"metadata": {"name": "web"}, **each}) for each in (before, after))
    spec = WatchSpec.__new__(WatchSpec)  # not used by these tests
    return [tuple(each) for each in fields_of(Change(spec, ObjectKey("zoo", "web"), 0.0, *steps))]


def conditions(**statuses: str) -> dict[str, Any]:
    return {
        "status": {
            "conditions": [
                {"type": name, "status": status, "lastTransitionTime": status}
                for name, status in statuses.items()
            ]
        }
    }


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"spec": {"size": 1}}, {"spec": {"size": 2}}, [("spec.size", "1", "2")]),
        ({}, {"spec": {"image": "a", "size": 2}}, [("spec.image", "", "a"), ("spec.size", "", "2")]),
        ({"spec": {"a": {"b": 1}}}, {"spec": {}}, [("spec.a.b", "1", "")]),
        ({"spec": {"names": ["a"]}}, {"spec": {"names": ["b", "a"]}}, [("spec.names", '["a"]', '["b","a"]')]),
        (
            conditions(Ready="True"),
            conditions(Ready="False"),
            [("status.conditions[Ready].status", "True", "False")],
        ),
        (
            conditions(Ready="True"),
            conditions(Other="True", Ready="True"),
            [
                ("status.conditions[Other].type", "", "Other"),
                ("status.conditions[Other].status", "", "True"),
            ],
        ),
        (
            {"spec": {"l": [{"x": 1}, {"x": 2}]}},
            {"spec": {"l": [{"x": 1}, {"x": 3}]}},
            [("spec.l[1].x", "2", "3")],
        ),
        (
            {"spec": {"l": [{"name": "a", "x": 1}, {"name": "a", "x": 2}]}},
            {"spec": {"l": [{"name": "a", "x": 3}, {"name": "a", "x": 2}]}},
            [("spec.l[0].x", "1", "3")],
        ),
        ({"spec": {"l": [{"name": 1}]}}, {"spec": {"l": [{"name": 2}]}}, [("spec.l[0].name", "1", "2")]),
        ({"spec": {"a": {"b": 1}}}, {"spec": {"a": "b"}}, [("spec.a.b", "1", ""), ("spec.a", "", "b")]),
        ({"status": {"observedGeneration": 1}}, {"status": {"observedGeneration": 2}}, []),
    ],
)
def test_change_list_contains_each_changed_field_with_its_old_and_new_value(
    before: dict[str, Any], after: dict[str, Any], told: list[tuple[str, str, str]]
):
    assert changed(before, after) == told


@pytest.mark.parametrize("depth", [300, 900, 5000])
def test_change_list_of_deeply_nested_fields_causes_no_error(depth: int):
    def nested(leaf: bytes) -> bytes:
        return b'{"metadata":{},"spec":' + b'{"a":' * depth + leaf + b"}" * depth + b"}"

    spec = WatchSpec.__new__(WatchSpec)
    [field] = fields_of(Change(spec, ObjectKey("zoo", "web"), 0.0, nested(b"1"), nested(b"[2]")))
    assert field.path == "it is nested too deeply to be shown" or field.path.endswith(".a.a")


def test_change_list_hides_confidential_values():
    def site(password: str) -> dict[str, Any]:
        annotations = {"kubectl.kubernetes.io/last-applied-configuration": password, "a": password[:1]}
        kind = {"apiVersion": Wordpress.gvk.api_version, "kind": Wordpress.gvk.kind}
        return {**kind, "metadata": {"annotations": annotations}, "spec": {"sqlrootpassword": password}}

    assert changed(site("HUNTER2"), site("SESAME")) == [
        ("metadata.annotations.a", "H", "S"),
        ("spec.sqlrootpassword", "*** (before)", "*** (after)"),
    ]


@pytest.mark.parametrize(
    "holder", [lambda inner: {"k" * 30_000: inner}, lambda inner: [{"name": "k" * 30_000, **inner}]]
)
def test_change_list_uses_little_memory_when_many_fields_have_a_long_parent_name(holder: Any):
    steps = [{"spec": holder({f"a{number}": sort for number in range(3000)})} for sort in (1, 2)]
    tracemalloc.start()
    try:
        assert len(changed(*steps)) == MOST_FIELDS
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
