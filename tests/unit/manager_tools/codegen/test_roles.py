from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from apis.cache.v1.memcached import Memcached
from manager.api.rights import RbacRule
from manager_tools.codegen.roles import installed, merged_rules, of_people, of_shards, running
from tests.support.kinds import Widget

RULES = [RbacRule(("apps",), ("deployments",), ("get",))]
MADE = running("a-program", RULES)
PEOPLE = of_people([Memcached, Widget])


def verbs_of(role: dict[str, Any], resource: str) -> list[str]:
    return [verb for rule in role["rules"] if resource in rule["resources"] for verb in rule["verbs"]]


def test_leader_election_role_may_create_leases_but_update_only_its_own_lease():
    for lease in ("operator-manager", "another"):
        role = running(lease, RULES)["leader_election_role.yaml"]
        rules = {tuple(rule.get("resourceNames", ())): rule["verbs"] for rule in role["rules"]}
        assert rules == {(): ["create"], (lease,): ["get", "update", "watch"]}
        assert (role["kind"], role["metadata"]["name"]) == ("Role", "leader-election-role")
        assert role["metadata"]["namespace"] == MADE["service_account.yaml"]["metadata"]["namespace"]
        assert {resource for rule in role["rules"] for resource in rule["resources"]} == {"leases"}


READ, WRITE = {"get", "list", "watch"}, {"create", "update", "patch", "delete"}
SCALE = {"get", "update", "patch"}


@pytest.mark.parametrize(
    ("who", "verbs", "scale"),
    [("admin", {"*"}, SCALE), ("editor", READ | WRITE, SCALE), ("viewer", READ, set())],
)
def test_user_roles_cannot_write_status_and_include_scale_only_for_scalable_kinds(
    who: str, verbs: set[str], scale: set[str]
):
    role = PEOPLE[f"memcached_{who}_role.yaml"]
    assert role["metadata"]["name"] == f"memcached-{who}-role"
    assert set(verbs_of(role, "memcacheds")) == verbs
    assert set(verbs_of(role, "memcacheds/scale")) == scale
    assert verbs_of(role, "memcacheds/status") == ["get"]
    assert verbs_of(PEOPLE[f"widget_{who}_role.yaml"], "widgets/scale") == []


def rule(*parts: str) -> RbacRule:
    """Return a rule; its parts are groups, resources, verbs and names, each separated by semicolons."""
    return RbacRule(*(tuple(part.split(";")) for part in parts))


@pytest.mark.parametrize(
    ("rules", "merged"),
    [
        ([rule("", "a", "get;list"), rule("", "a", "watch;get")], [rule("", "a", "get;list;watch")]),
        (
            [
                *(rule("apps", "a", "get"), rule("apps", "b", "get")),
                *(rule("extensions", "b;a", "get"), rule("", "pods", "get")),
            ],
            [rule("", "pods", "get"), rule("apps;extensions", "a;b", "get")],
        ),
        ([rule("", "pods", "*"), rule("", "pods", "get")], [rule("", "pods", "*")]),
        (
            [rule("a", "x", "get"), rule("a", "y", "list"), rule("b", "x", "list")],
            [rule("a", "x", "get"), rule("a", "y", "list"), rule("b", "x", "list")],
        ),
        (
            [rule("", "secrets", "get", "b;a"), rule("", "secrets", "list")],
            [rule("", "secrets", "list"), rule("", "secrets", "get", "a;b")],
        ),
    ],
    ids=["verbs", "resources and groups", "a wildcard", "no common list", "resource names"],
)
def test_merged_rules_joins_rules_that_differ_in_only_one_list(rules: list[RbacRule], merged: list[RbacRule]):
    lists = ("apiGroups", "resources", "verbs", "resourceNames")
    found = [RbacRule(*(tuple(each.get(name, ())) for name in lists)) for each in merged_rules(rules)]
    assert found == merged


def test_installed_roles_have_the_name_prefix_and_are_bound_to_the_service_account():
    found = installed(MADE, namespace="there", prefix="p-")
    assert all(each["metadata"]["name"].startswith("p-") for each in found)
    subjects = [subject for each in found for subject in each.get("subjects", ())]
    assert subjects
    for subject in subjects:
        assert (subject["name"], subject["namespace"]) == ("p-controller-manager", "there")


def test_generated_shard_role_equals_the_role_of_the_shards_overlay():
    written, _ = yaml.safe_load_all(Path("config/shards/role.yaml").read_text())
    assert of_shards()["shards_role.yaml"]["rules"] == written["rules"]
