from __future__ import annotations

import pytest

from manager.api.rights import RbacRule, rbac


def test_rbac_splits_each_argument_at_semicolons():
    assert rbac(groups="cache.example.com", resources="memcacheds;memcacheds/status", verbs="get;patch") == (
        RbacRule(("cache.example.com",), ("memcacheds", "memcacheds/status"), ("get", "patch"))
    )
    assert rbac(groups="", resources="secrets", verbs="get", resource_names="a;b") == (
        RbacRule(("",), ("secrets",), ("get",), ("a", "b"))
    )


@pytest.mark.parametrize(("resources", "verbs"), [("", "get"), ("pods", ""), ("pods", "get;;list")])
def test_rbac_refuses_empty_resource_or_verb(resources: str, verbs: str):
    with pytest.raises(ValueError, match="has an empty value"):
        rbac(groups="", resources=resources, verbs=verbs)
