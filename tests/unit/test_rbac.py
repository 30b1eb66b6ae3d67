from __future__ import annotations

import pytest

from manager.rbac import RbacRule, rbac, rbac_rules


@rbac(groups="cache.example.com", resources="memcacheds;memcacheds/status", verbs="get;patch")
@rbac(groups="", resources="secrets", verbs="get", resource_names="a;b")
class Marked:
    pass


def test_the_rules_of_a_reconciler_are_in_the_order_they_are_written():
    assert rbac_rules(Marked) == (
        RbacRule(("cache.example.com",), ("memcacheds", "memcacheds/status"), ("get", "patch")),
        RbacRule(("",), ("secrets",), ("get",), ("a", "b")),
    )


def test_a_class_without_markers_has_no_rules():
    assert rbac_rules(object) == ()


def test_a_subclass_adds_to_the_rules_of_its_base_and_leaves_them_alone():
    @rbac(groups="", resources="pods", verbs="get")
    class Sub(Marked):
        pass

    assert len(rbac_rules(Sub)) == 3
    assert len(rbac_rules(Marked)) == 2


@pytest.mark.parametrize(("resources", "verbs"), [("", "get"), ("pods", ""), ("pods", "get;;list")])
def test_an_empty_resource_or_verb_is_refused(resources: str, verbs: str):
    with pytest.raises(ValueError, match="has an empty value"):
        rbac(groups="", resources=resources, verbs=verbs)
