from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
import pytest

from manager.client import comparison
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
    pod(stored)["restartPolicy"] = "Always"
    pod(stored)["containers"].append({"name": "sidecar", "image": "proxy:1"})
    container(stored)["ports"][0]["protocol"] = "TCP"
    container(stored)["env"].append({"name": "DEBUG", "value": "1"})
    return stored


def pod(document: dict[str, Any]) -> Any:
    return document["spec"]["template"]["spec"]


def container(document: dict[str, Any]) -> Any:
    return pod(document)["containers"][0]


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
def test_object_does_not_match_the_desired_fields_when_a_value_or_its_field_manager_changed(
    change: Change, held: bool, exactly: bool
):
    wanted, stored, owned = copy.deepcopy(WANTED), live(), copy.deepcopy(OWNED)
    change(wanted, stored, owned)
    assert matches(wanted, stored, owned) is held
    assert matches_exactly(wanted, stored, owned) is exactly


def test_object_does_not_match_the_desired_fields_when_a_list_item_lacks_a_key_field():
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


@pytest.mark.parametrize(
    "around", [lambda value: value, lambda value: [value], lambda value: [{"b": [value]}]]
)
def test_comparison_distinguishes_true_from_the_number_one(around: Callable[[object], object]):
    for wanted, live in ((True, 1), (1, True), (False, 0)):
        assert not matches({"a": around(wanted)}, {"a": around(live)}, {"f:a": {}})
        assert matches({"a": around(wanted)}, {"a": around(wanted)}, {"f:a": {}})
    assert matches({"a": around(1)}, {"a": around(1.0)}, {"f:a": {}})


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
