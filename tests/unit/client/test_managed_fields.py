from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest

from devcluster.types import table
from manager.client.managed_fields import KEYS, Ownership, field_path, may_repeat_keys

REPEATED: list[Any] = [
    [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}],
    [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "name": "b", "protocol": "TCP"}],
    [{"mountPath": "/a", "name": "a"}, {"mountPath": "/a", "name": "b"}],
    [{"ip": "::1", "hostnames": ["a"]}, {"ip": "::1", "hostnames": ["b"]}],
    ["a", "b", "a"],
    ["a\\", 'a"', ",", 'a"'],
    [1, 2, 1],
    [["a"], ["a"]],
    [{}, {}],
]


@pytest.mark.parametrize("items", REPEATED)
def test_key_repetition_check_returns_true_when_list_items_have_equal_keys(items: list[Any]):
    for wanted in ({"spec": {"list": items}}, {"spec": {"containers": [{"name": "a", "list": items}]}}):
        assert may_repeat_keys(orjson.dumps(wanted))


def test_key_repetition_check_knows_a_key_field_of_every_builtin_list_of_type_map():
    types = [each["schema"].get("properties", {}) for each in table.entries().values() if "schema" in each]
    fields = (field for properties in types for field in properties.values() if isinstance(field, dict))
    keys = {tuple(each) for field in fields if (each := field.get("x-kubernetes-list-map-keys"))}
    assert ("name",) in keys
    assert {each for each in keys if not {*each} & {*KEYS}} == set()


@pytest.mark.parametrize(
    "items",
    [
        *([], ["a", "b"], [1, 2], [["a"], ["b"]], ['"a"', "a"], ["[1,1]"], ['["a","a"]'], ["},{", "],["]),
        [{"name": "a", "args": ["[", ",", "]"]}, {"name": "b", "args": ["x", "y"]}],
    ],
)
def test_key_repetition_check_returns_false_when_list_items_have_different_keys(items: list[Any]):
    assert not may_repeat_keys(orjson.dumps({"spec": {"list": items}}))


def entry(manager: str, operation: str, *fields: str, **more: Any) -> dict[str, Any]:
    record = {"f:spec": {f"f:{name}": {} for name in fields}}
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": record, **more}


def owned(entries: list[dict[str, Any]], *former: str) -> Ownership:
    return Ownership({"metadata": {"managedFields": entries}}, "memcached", former)


def patched(entries: list[dict[str, Any]], *former: str, released: tuple[str, ...] = ()) -> Any:
    """Return the managedFields entries after the patch by `takeover`; None if `takeover` returns no patch."""
    patch = owned(entries, *former).takeover(tuple(map(field_path, released)))
    return None if patch is None else changed(entries, patch)


def changed(entries: list[dict[str, Any]], patch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    result = copy.deepcopy(entries)
    for each in patch:
        place = int(each["path"].rpartition("/")[2])
        if each["op"] == "test":
            assert result[place] == each["value"]
        elif each["op"] == "replace":
            result[place] = each["value"]
        else:
            del result[place]
    return result


def test_managed_fields_patch_turns_our_create_entry_into_an_apply_entry():
    ours = entry("memcached+1f0c", "Update", "a", "b")
    others = [entry("kubectl", "Update", "c"), entry("memcached+1f0c", "Update", subresource="status")]
    assert patched([*others, ours]) == [*others, entry("memcached", "Apply", "a", "b")]
    assert patched(others) is None
    assert patched([*others, entry("memcached", "Apply", "a")]) is None


@pytest.mark.parametrize("operation", ["Update", "Apply"])
@pytest.mark.parametrize("old", ["old", "old+1f0c"])
def test_managed_fields_patch_moves_fields_of_former_field_managers_into_our_entry(operation: str, old: str):
    old = old if operation == "Update" else "old"
    entries = [
        entry(old, operation, "a"),
        entry("memcached", "Apply", "b"),
        entry("other", "Update", "c"),
        entry("older", "Update", "d"),
        entry("old", "Update", "e", subresource="status"),
    ]
    joined = [entry("memcached", "Apply", "b", "a", "d"), entries[2], *entries[4:]]
    assert patched(entries, "old", "older") == joined
    assert patched(joined, "old", "older") is None, "a second takeover changes nothing"
    assert not owned(joined, "old", "older").former
    assert owned(entries, "old", "older").former


def test_managed_fields_translation_merges_entries_of_former_field_managers_by_api_version():
    entries = [
        entry("old", "Update", "a", apiVersion="v1beta1"),
        entry("memcached", "Apply", "b"),
        entry("old", "Apply", "c", apiVersion="v1beta1"),
        entry("old", "Update", "d", apiVersion="v1alpha1"),
        entry("other", "Update", "e", apiVersion="v1alpha1"),
    ]
    for version, fields in (("v1alpha1", ("d",)), ("v1beta1", ("c", "a"))):
        found = owned(entries, "old").translation((), "v1")
        assert found is not None
        name, patch = found
        entries = changed(entries, patch)
        made = next(each for each in entries if each["manager"] == name)
        assert made == {**entry(name, "Apply"), "apiVersion": version, "fieldsV1": made["fieldsV1"]}
        assert made["fieldsV1"]["f:spec"].keys() == {f"f:{field}" for field in fields}
        assert owned(entries, "old").translation((), "v1") == (name, []), "a repeat has no patch"
        made["apiVersion"] = "v1"  # an API server does this at an apply
    assert owned(entries, "old").translation((), "v1") is None
    assert patched(entries, "old") == [
        entry("memcached", "Apply", "b", "a", "c", "d"),
        entry("other", "Update", "e", apiVersion="v1alpha1"),
    ]


def test_managed_fields_translation_returns_none_when_all_entries_have_one_api_version():
    entries = [entry("memcached+1", "Update", "a", apiVersion="v1beta1")]
    assert owned(entries, "old").translation((), "v1") is None


def test_managed_fields_patch_removes_released_fields_from_our_entry():
    assert patched([entry("memcached", "Apply", "a", "b")], released=(".spec.a",)) == [
        entry("memcached", "Apply", "b")
    ]
    assert patched([entry("memcached+1", "Update", "a")], released=(".spec.a",)) == [
        {**entry("memcached", "Apply"), "fieldsV1": {}}
    ]
    assert patched([entry("memcached", "Apply", "a")], released=(".spec.c",)) is None


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (".spec.replicas", ("f:spec", "f:replicas")),
        ("spec.replicas", ("f:spec", "f:replicas")),
        (".metadata.annotations.example.com/a", ("f:metadata", "f:annotations", "f:example.com/a")),
        (
            '.spec.containers[name="web"].resources.limits',
            ("f:spec", "f:containers", 'k:{"name":"web"}', "f:resources", "f:limits"),
        ),
        ('.spec.ports[port=80,protocol="TCP"]', ("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}')),
    ],
)
def test_field_path_parses_paths_in_the_notation_of_the_api_server(text: str, path: tuple[str, ...]):
    assert field_path(text) == path


@pytest.mark.parametrize(
    "text", ["", ".", "spec..replicas", ".spec.a[0]", ".spec.a[name=web]", "[a=1]", ".a b["]
)
def test_field_path_refuses_an_invalid_path(text: str):
    with pytest.raises(ValueError, match="is no path of a field, such as"):
        field_path(text)


@pytest.mark.parametrize("fields", [b'{"f:a\xff": {}}', b'{"f:a": 1e999}', b"[]", b"7"])
def test_ownership_counts_malformed_fields_v1_as_empty(fields: bytes):
    managed = b'{"manager": "memcached", "operation": "Apply", "fieldsV1": %b}' % fields
    assert Ownership({"metadata": {}}, "memcached", managed=b"[%b]" % managed).applied == {}
    Ownership({"metadata": {}}, "memcached", managed=b'[%b, {"manager": 5}]' % managed)
