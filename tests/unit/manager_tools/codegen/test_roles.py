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


def test_leader_election_role_grants_only_create_beyond_its_lease():
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
    """Return a rule of groups, resources, verbs and names."""
    return RbacRule(*(tuple(part.split(";")) for part in parts))


@pytest.mark.parametrize(
    ("rules", "merged"),
    [
        (
            [rule("apps", "deployments", "get;list"), rule("apps", "deployments", "watch;get")],
            [(["apps"], ["deployments"], ["get", "list", "watch"])],
        ),
        (
            [
                *(rule("apps", "deployments", "get"), rule("apps", "replicasets", "get")),
                *(rule("extensions", "replicasets;deployments", "get"), rule("", "pods", "get")),
            ],
            [([""], ["pods"], ["get"]), (["apps", "extensions"], ["deployments", "replicasets"], ["get"])],
        ),
        ([rule("", "pods", "*"), rule("", "pods", "get")], [([""], ["pods"], ["*"])]),
    ],
    ids=["verbs", "resources and groups", "a wildcard"],
)
def test_merged_rules_join_rules_that_differ_in_one_list(
    rules: list[RbacRule], merged: list[tuple[list[str], ...]]
):
    assert merged_rules(rules) == [
        {"apiGroups": groups, "resources": resources, "verbs": verbs} for groups, resources, verbs in merged
    ]


def test_merged_rules_grant_no_other_rights():
    rules = [rule("a", "x", "get"), rule("a", "y", "list"), rule("b", "x", "list")]
    granted = {
        (group, resource, verb)
        for merged in merged_rules(rules)
        for group in merged["apiGroups"]
        for resource in merged["resources"]
        for verb in merged["verbs"]
    }
    assert granted == {("a", "x", "get"), ("a", "y", "list"), ("b", "x", "list")}


def test_merged_rules_keep_rules_with_resource_names_separate():
    assert merged_rules([rule("", "secrets", "get", "b;a"), rule("", "secrets", "list")]) == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"]},
    ]


def test_installed_roles_have_the_name_prefix_and_are_bound_to_the_account():
    found = installed(MADE, namespace="there", prefix="p-")
    assert all(each["metadata"]["name"].startswith("p-") for each in found)
    subjects = [subject for each in found for subject in each.get("subjects", ())]
    assert subjects
    for subject in subjects:
        assert (subject["name"], subject["namespace"]) == ("p-controller-manager", "there")


def test_generated_shard_role_equals_the_role_of_the_overlay():
    written, _ = yaml.safe_load_all(Path("config/shards/role.yaml").read_text())
    assert of_shards()["shards_role.yaml"]["rules"] == written["rules"]
