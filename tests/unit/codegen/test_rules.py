from __future__ import annotations

from manager.codegen.rules import merged_rules
from manager.rbac import RbacRule


def rule(groups: str, resources: str, verbs: str, names: str = "") -> RbacRule:
    return RbacRule(
        tuple(groups.split(";")),
        tuple(resources.split(";")),
        tuple(verbs.split(";")),
        tuple(names.split(";")) if names else (),
    )


def test_verbs_on_the_same_resource_are_joined():
    assert merged_rules(
        [rule("apps", "deployments", "get;list"), rule("apps", "deployments", "watch;get")]
    ) == [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"]}]


def test_resources_and_groups_with_the_same_verbs_are_joined():
    rules = [
        rule("apps", "deployments", "get"),
        rule("apps", "replicasets", "get"),
        rule("extensions", "replicasets;deployments", "get"),
        rule("", "pods", "get"),
    ]
    assert merged_rules(rules) == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": ["apps", "extensions"], "resources": ["deployments", "replicasets"], "verbs": ["get"]},
    ]


def test_nothing_is_granted_that_no_marker_asked_for():
    rules = [rule("a", "x", "get"), rule("a", "y", "list"), rule("b", "x", "list")]
    granted = {
        (group, resource, verb)
        for merged in merged_rules(rules)
        for group in merged["apiGroups"]
        for resource in merged["resources"]
        for verb in merged["verbs"]
    }
    assert granted == {("a", "x", "get"), ("a", "y", "list"), ("b", "x", "list")}


def test_all_verbs_make_the_others_needless():
    assert merged_rules([rule("", "pods", "*"), rule("", "pods", "get")])[0]["verbs"] == ["*"]


def test_rules_for_single_objects_stay_apart_from_those_for_all():
    assert merged_rules([rule("", "secrets", "get", "b;a"), rule("", "secrets", "list")]) == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"]},
    ]


def test_the_order_of_the_markers_does_not_matter():
    rules = [rule("b", "x;y", "get"), rule("a", "z", "list"), rule("", "x", "*"), rule("a", "x", "list")]
    assert merged_rules(rules) == merged_rules(reversed(rules))
