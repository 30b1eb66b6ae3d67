from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
import pytest

from devcluster.types import table
from manager.client import comparison
from manager.client.comparison import KEYS, Ownership, field_path, may_repeat_keys
from tests.support.effort import Effort

matches, matches_exactly = (partial(comparison.matches, exact=exact) for exact in (False, True))

WANTED: dict[str, Any] = {
    "metadata": {"labels": {"app": "memcached"}},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "memcached"}},
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "memcached",
                        "image": "memcached:1",
                        "command": ["memcached", "-v"],
                        "ports": [{"containerPort": 11211, "name": "memcached"}],
                        "env": [{"name": "HTTP_PROXY", "value": "http://proxy"}],
                    }
                ]
            }
        },
    },
}

# The managedFields entry of an apply of `WANTED`; defaulted fields have no owner.
OWNED: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:app": {}}},
    "f:spec": {
        "f:replicas": {},
        "f:selector": {},
        "f:template": {
            "f:spec": {
                "f:containers": {
                    'k:{"name":"memcached"}': {
                        ".": {},
                        "f:name": {},
                        "f:image": {},
                        "f:command": {},
                        "f:ports": {
                            'k:{"containerPort":11211,"protocol":"TCP"}': {
                                ".": {},
                                "f:containerPort": {},
                                "f:name": {},
                            }
                        },
                        "f:env": {'k:{"name":"HTTP_PROXY"}': {".": {}, "f:name": {}, "f:value": {}}},
                    }
                }
            }
        },
    },
}


def live() -> dict[str, Any]:
    """Return `WANTED` as the server stores it: with defaults, and with fields of other managers."""
    stored = copy.deepcopy(WANTED)
    stored["metadata"]["labels"]["team"] = "blue"
    stored["spec"]["revisionHistoryLimit"] = 10
    pod = stored["spec"]["template"]["spec"]
    pod["restartPolicy"] = "Always"
    pod["containers"].append({"name": "sidecar", "image": "proxy:1"})
    pod["containers"][0]["ports"][0]["protocol"] = "TCP"
    pod["containers"][0]["env"].append({"name": "DEBUG", "value": "1"})
    return stored


def container(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["spec"]["template"]["spec"]["containers"][0]
    return found


def pod(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["spec"]["template"]["spec"]
    return found


Change = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], object]
CHANGES: dict[str, tuple[Change, bool, bool]] = {
    "none": (lambda wanted, stored, owned: None, True, True),
    "foreign field": (lambda wanted, stored, owned: stored["spec"].update(paused=True), True, True),
    "order of foreign items": (lambda wanted, stored, owned: pod(stored)["containers"].reverse(), True, True),
    "default, recorded by a create": (
        lambda wanted, stored, owned: owned["f:spec"].update({"f:revisionHistoryLimit": {}}),
        True,
        False,
    ),
    "value": (lambda wanted, stored, owned: stored["spec"].update(replicas=4), False, False),
    "label": (lambda wanted, stored, owned: stored["metadata"]["labels"].update(app="x"), False, False),
    "labels": (lambda wanted, stored, owned: stored["metadata"].pop("labels"), False, False),
    "value of an item": (lambda wanted, stored, owned: container(stored).update(image="x"), False, False),
    "list of values": (lambda wanted, stored, owned: container(stored)["command"].pop(), False, False),
    "list of items": (lambda wanted, stored, owned: container(stored)["ports"].clear(), False, False),
    "item": (lambda wanted, stored, owned: container(stored)["env"].pop(0), False, False),
    "atomic map": (
        lambda wanted, stored, owned: stored["spec"]["selector"]["matchLabels"].update(more="labels"),
        False,
        False,
    ),
    "owner of a field": (lambda wanted, stored, owned: owned["f:spec"].pop("f:replicas"), False, False),
    "field no longer wanted": (lambda wanted, stored, owned: wanted["spec"].pop("replicas"), True, False),
    "list no longer wanted": (lambda wanted, stored, owned: container(wanted).pop("env"), True, False),
    "item no longer wanted": (lambda wanted, stored, owned: container(wanted)["env"].clear(), True, False),
}


@pytest.mark.parametrize(("change", "held", "exactly"), CHANGES.values(), ids=CHANGES)
def test_object_does_not_match_when_a_desired_value_or_its_field_owner_has_changed(
    change: Change, held: bool, exactly: bool
):
    wanted, stored, owned = copy.deepcopy(WANTED), live(), copy.deepcopy(OWNED)
    change(wanted, stored, owned)
    assert matches(wanted, stored, owned) is held
    assert matches_exactly(wanted, stored, owned) is exactly


def test_object_does_not_match_when_a_list_item_lacks_a_key_field():
    port, record = {"port": 80}, {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}
    assert matches({"ports": [port]}, {"ports": [{**port, "protocol": "TCP"}]}, {"f:ports": record})
    assert not matches({"ports": [port]}, {"ports": [port]}, {"f:ports": record})


KEYED: list[tuple[list[str], dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (["name"], {"name": "a"}, {"name": "b"}, {"name": "x"}),
    (["containerPort", "protocol"], {"containerPort": 1}, {"containerPort": 2}, {"containerPort": 3}),
    (["containerPort", "protocol"], {"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}, {}),
    (["mountPath"], {"mountPath": "/a"}, {"mountPath": "/b"}, {"mountPath": "/x"}),
    (["ip"], {"ip": "::1"}, {"ip": "::2"}, {"ip": "::3"}),
    (
        ["topologyKey", "whenUnsatisfiable"],
        {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
        {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
        {"topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"},
    ),
]


@pytest.mark.parametrize("compare", [matches, matches_exactly])
@pytest.mark.parametrize(
    ("keys", "one", "other", "foreign"), KEYED, ids=["-".join(each[0]) for each in KEYED]
)
def test_comparison_requires_the_desired_order_of_keyed_items_and_ignores_other_items(
    keys: list[str], one: dict[str, Any], other: dict[str, Any], foreign: dict[str, Any], compare: Any
):
    def full(item: dict[str, Any]) -> dict[str, Any]:
        return {**({"protocol": "TCP"} if "protocol" in keys else {}), **item}

    def path(item: dict[str, Any]) -> str:
        named = {name: value for name, value in full(item).items() if name in keys}
        return f"k:{orjson.dumps(named, option=orjson.OPT_SORT_KEYS).decode()}"

    def held(wanted: list[dict[str, Any]], *live: dict[str, Any]) -> bool:
        record = {path(item): {".": {}, **{f"f:{name}": {} for name in item}} for item in (one, other)}
        nested = {"spec": {"items": wanted}}
        return bool(compare(nested, {"spec": {"items": [*map(full, live)]}}, {"f:spec": {"f:items": record}}))

    for wanted, reverse in (([one, other], [other, one]), ([other, one], [one, other])):
        assert held(wanted, *wanted)
        assert not held(wanted, *reverse)
        assert held(wanted, foreign, wanted[0], foreign, wanted[1], foreign)
        assert not held(wanted, foreign, reverse[0], foreign, reverse[1], foreign)


@pytest.mark.parametrize("compare", [matches, matches_exactly])
def test_comparison_requires_the_desired_order_of_set_members(compare: Any):
    owned = {"f:tags": {'v:"a"': {}, 'v:"b"': {}}}
    assert compare({"tags": ["b", "a"]}, {"tags": ["x", "b", "y", "a"]}, owned)
    assert not compare({"tags": ["a", "b"]}, {"tags": ["x", "b", "y", "a"]}, owned)
    assert not compare({"tags": ["a", "c"]}, {"tags": ["x", "b", "y", "a"]}, owned)
    assert compare is matches or not compare({"tags": []}, {"tags": ["x", "b", "y", "a"]}, owned)


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


def test_key_repetition_check_knows_at_least_one_key_of_every_builtin_list_map():
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
    assert not may_repeat_keys(orjson.dumps({**WANTED, "list": items}))


def test_exact_comparison_distinguishes_true_from_the_number_one():
    assert not matches_exactly({"a": True}, {"a": 1}, {"f:a": {}})
    assert matches_exactly({"a": True}, {"a": True}, {"f:a": {}})


@pytest.mark.parametrize(
    ("path", "held"),
    [
        ('k:{"containerPort":%d}', False),
        ('k:{"containerPort":%d,"containerPort":11211}', False),
        ("v:%d", True),
    ],
    ids=["keys of other items", "one repeated key", "values of a set"],
)
def test_comparison_takes_linear_time_for_long_lists_and_managed_fields(path: str, held: bool):
    count = 5_000
    ports: list[Any] = [{"containerPort": number} for number in (*range(20_000, 20_000 + count), 11211)]
    live, wanted = (ports, ports[-1:]) if path[0] == "k" else (list(range(count)), [count - 1])
    record = {path % number: {} for number in range(count)}
    with Effort() as spent:
        assert matches({"ports": wanted}, {"ports": live}, {"f:ports": record}) is held
    assert spent.units < 50


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
