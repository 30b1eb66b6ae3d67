from __future__ import annotations

from devcluster.access.rbac import Attributes, Decision, RbacAuthorizer
from devcluster.http_call import User
from devcluster.storage import Key, Store

GROUP = "rbac.authorization.k8s.io"
BOB = User("bob", ("system:authenticated", "team"))


def test_rbac_authorizer_applies_role_and_binding_changes_without_delay():
    store = Store()
    authorizer = RbacAuthorizer(store)
    wanted = Attributes(verb="get", resource="pods", namespace="a")
    assert not authorizer.authorize(BOB, wanted).allowed
    binding = {
        "metadata": {"name": "b", "uid": "u"},
        "subjects": [{"kind": "User", "name": "bob"}],
        "roleRef": {"kind": "ClusterRole", "name": "r"},
    }
    store.create(Key(GROUP, "clusterrolebindings", "", "b"), binding)
    decision = authorizer.authorize(BOB, wanted)
    assert decision == Decision(allowed=False, reason=f'RBAC: clusterrole.{GROUP} "r" not found')
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    role = {"kind": "ClusterRole", "metadata": {"name": "r", "uid": "u"}, "rules": [rule]}
    store.create(Key(GROUP, "clusterroles", "", "r"), role)
    assert authorizer.authorize(BOB, wanted).allowed
    store.delete(Key(GROUP, "clusterrolebindings", "", "b"))
    assert not authorizer.authorize(BOB, wanted).allowed
