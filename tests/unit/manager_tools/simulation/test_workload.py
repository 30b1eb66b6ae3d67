"""Simulated user actions: valid specs, values just outside of the schema, and changes of children."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from controllers.main import OPERATORS
from devcluster import DevCluster
from devcluster.controllers.pod_owners import template_hash
from devcluster.storage import Key
from manager_tools.codegen import custom_resource_definitions
from manager_tools.simulation import workload
from manager_tools.simulation.comparing import Chance, different_from_fresh, state_of
from manager_tools.simulation.plan import Plan, Step, plan_of
from manager_tools.simulation.seeds import run, story_of
from manager_tools.simulation.workload import changed, drawn, edges

NAMES = {each.name: each for each in OPERATORS}


def spec_of(name: str) -> dict[str, Any]:
    [definition] = custom_resource_definitions([NAMES[name].kind])
    [version] = [each for each in definition["spec"]["versions"] if each["storage"]]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]


def leaves(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}", inner
        yield from leaves(inner, f"{path}.{name}")


def values(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    yield path, repr(value)
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from values(inner, f"{path}.{name}")


@pytest.mark.parametrize("name", NAMES)
def test_changed_specs_have_values_at_and_beyond_the_bounds_of_every_field(name: str):
    schema, rng, seen = spec_of(name), random.Random(1), defaultdict(set)
    for _ in range(6000):
        for path, value in values(changed({}, schema, rng)):
            seen[path].add(value)
    for path, field in leaves(schema):
        assert seen[path] >= {repr(each) for each in edges(field)}, path


def test_edge_values_are_at_and_beyond_the_bounds_of_a_schema():
    assert edges({"type": "integer", "minimum": 1, "maximum": 5}) == [1, 0, 5, 6]
    assert edges({"type": "integer", "maximum": 2**31}) == [2**31 + 1]
    assert edges({"type": "string", "minLength": 2, "maxLength": 3}) == ["xx", "x", "xxx", "xxxx"]
    assert edges({"type": "string", "enum": ["a", "b"]}) == ["a", "b", "not a"]
    assert edges({"type": "boolean"}) == []


@pytest.mark.parametrize("bounds", [{"maximum": -5}, {"minimum": 2**31}, {"maximum": 0}])
def test_drawn_integer_is_within_bounds_that_are_negative_or_large(
    bounds: dict[str, int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(workload, "_BEYOND", 0.0)
    monkeypatch.setattr(workload, "_EDGE", 0.0)
    rng = random.Random(1)
    found = {drawn({"type": "integer", **bounds}, rng) for _ in range(5)}
    assert all(bounds.get("minimum", each) <= each <= bounds.get("maximum", each) for each in found)


@pytest.mark.parametrize(("act", "took"), [("apply", "201"), ("apply child", "200"), ("relabel child", "{")])
def test_memcached_operator_recovers_when_users_apply_memcacheds_or_change_their_children(
    act: str, took: str
):
    operators = (NAMES["memcached"],)
    plan = replace(plan_of(5, operators, minutes=2), faults=())
    steps = [each if at % 2 == 0 else replace(each, act=act) for at, each in enumerate(plan.steps)]
    outcome = run(replace(plan, steps=tuple(steps)), operators)
    assert not outcome.violations, story_of(outcome)
    done = [what for _, who, what in outcome.timeline if who == "person" and what.startswith(f"{act}:")]
    assert any(took in each for each in done)


def test_simulation_reports_no_violation_when_orphaned_children_remain_without_their_owner():
    operators, missing = (NAMES["wordpress"],), {"name": "missing", "key": "password"}
    specs = [{"sqlrootpassword": "kept"}, {"sqlRootPasswordSecretRef": missing, "reclaimPolicy": "Delete"}]
    steps = (Step(0.0, "create", 0, 1), Step(20.0, "orphan", 0, 1), Step(40.0, "create", 0, 2))
    outcome = run(Plan(1, 1, steps, ()), operators, samples={"Wordpress.example.com": specs})
    done = [what for _, who, what in outcome.timeline if who == "person"]
    assert [each.partition(":")[0] for each in done] == ["create", "orphan", "create"]
    assert '"name":"missing"' in done[-1]
    assert not outcome.violations, story_of(outcome)


async def test_cluster_state_masks_template_hashes_of_any_length_in_pod_names():
    hashes = {len(each): each for each in (template_hash({"image": n}) for n in range(12_000))}
    assert {5, 6, 7, 8, 9, 10} <= hashes.keys()
    async with DevCluster(port=None, controllers=False) as cluster:
        for length, pod in hashes.items():
            of = {"metadata": {"name": f"of-{length}"}, "data": {"pod": f"web-3-{pod}-x7k2m"}}
            await cluster.client.create("configmaps", "default", of)
        made = [Key("", "configmaps", "default", f"of-{length}") for length in hashes]
        state = state_of(cluster, (), Chance(), made=made).objects
    assert [each["data"]["pod"] for each in state.values()] == ["web-3-*"] * len(hashes)


@pytest.mark.parametrize(
    ("reason", "name", "told"),
    [("NameTaken", "blog", 0), ("Progressing", "blog", 1), ("NameTaken", "another", 1)],
)
def test_comparison_with_a_fresh_cluster_ignores_extra_children_when_their_owner_reports_name_taken(
    reason: str, name: str, told: int
):
    condition = {"type": "Ready", "reason": reason}
    metadata = {"namespace": "team", "name": "blog"}
    owner = {"kind": "Wordpress", "metadata": metadata, "status": {"conditions": [condition]}}
    references = [{"kind": "Wordpress", "name": name, "controller": True}]
    child = {"kind": "Service", "metadata": {"namespace": "team", "name": "x", "ownerReferences": references}}
    fresh = {"wordpresses.example.com team/blog": owner}
    have = {**fresh, "services team/x": child}
    assert len(list(different_from_fresh(have, fresh))) == told
    assert len(list(different_from_fresh(fresh, have))) == 1, "an object that only a fresh install has"
