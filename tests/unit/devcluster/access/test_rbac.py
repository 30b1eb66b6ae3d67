from __future__ import annotations

from typing import Any

import pytest

from devcluster.access.rbac import Attributes, Decision, RbacAuthorizer, refusal
from devcluster.http_call import User
from devcluster.storage import Key, Store

GROUP = "rbac.authorization.k8s.io"
BOB = User("bob", ("system:authenticated", "team"))
ACCOUNT = User("system:serviceaccount:a:robot")


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def authorizer(store: Store) -> RbacAuthorizer:
    return RbacAuthorizer(store)


def put_role(store: Store, *rules: dict[str, Any], namespace: str = "") -> None:
    kind, plural = ("Role", "roles") if namespace else ("ClusterRole", "clusterroles")
    role = {"kind": kind, "metadata": {"name": "r", "uid": "u"}, "rules": list(rules)}
    store.create(Key(GROUP, plural, namespace, "r"), role)


def bind(store: Store, subject: dict[str, str], namespace: str = "", kind: str = "ClusterRole") -> None:
    plural = "rolebindings" if namespace else "clusterrolebindings"
    binding = {
        "metadata": {"name": "b", "uid": "u", **({"namespace": namespace} if namespace else {})},
        "subjects": [subject],
        "roleRef": {"kind": kind, "name": "r"},
    }
    store.create(Key(GROUP, plural, namespace, "b"), binding)


def rule(**fields: list[str]) -> dict[str, Any]:
    return {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], **fields}


def wanted(verb: str = "get", **fields: str) -> Attributes:
    return Attributes(**{"verb": verb, "resource": "pods", "namespace": "a", **fields})


@pytest.mark.parametrize(
    ("given", "asked", "allowed"),
    [
        (rule(), wanted(), True),
        (rule(), wanted("list"), False),
        (rule(verbs=["*"]), wanted("anything"), True),
        (rule(), wanted(group="apps"), False),
        (rule(apiGroups=["*"]), wanted(group="apps"), True),
        (rule(), wanted(subresource="log"), False),
        (rule(resources=["pods/log"]), wanted(subresource="log"), True),
        (rule(resources=["pods/log"]), wanted(), False),
        (rule(resources=["*/log"]), wanted(subresource="log"), True),
        (rule(resources=["pods/*"]), wanted(subresource="log"), False),
        (rule(resources=["*"]), wanted(subresource="log"), True),
        (rule(resourceNames=["x"]), wanted(name="x"), True),
        (rule(resourceNames=["x"]), wanted(name="y"), False),
        (rule(resourceNames=["x"]), wanted("get"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/a/*"]}, Attributes(verb="get", path="/a/b/c"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/a"]}, Attributes(verb="get", path="/a/b"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["*"]}, Attributes(verb="get", path="/x"), True),
    ],
)
def test_role_allows_only_requests_that_its_rule_matches(
    store: Store, authorizer: RbacAuthorizer, given: dict[str, Any], asked: Attributes, allowed: bool
):
    put_role(store, given)
    bind(store, {"kind": "User", "name": "bob"})
    assert authorizer.authorize(BOB, asked).allowed is allowed


@pytest.mark.parametrize(
    ("subject", "user", "source"),
    [
        ({"kind": "User", "name": "bob"}, BOB, 'User "bob"'),
        ({"kind": "Group", "name": "team"}, BOB, 'Group "team"'),
        (
            {"kind": "ServiceAccount", "name": "robot", "namespace": "a"},
            ACCOUNT,
            'ServiceAccount "robot/a"',
        ),
    ],
)
def test_reason_names_the_binding(
    store: Store, authorizer: RbacAuthorizer, subject: dict[str, str], user: User, source: str
):
    put_role(store, rule())
    bind(store, subject)
    reason = f'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to {source}'
    assert authorizer.authorize(user, wanted()) == Decision(allowed=True, reason=reason)


@pytest.mark.parametrize(
    ("subject", "user"),
    [({"kind": "User", "name": "bob"}, BOB), ({"kind": "ServiceAccount", "name": "robot"}, ACCOUNT)],
    ids=["user", "account of the namespace"],
)
def test_role_binding_holds_in_its_namespace_only(
    store: Store, authorizer: RbacAuthorizer, subject: dict[str, str], user: User
):
    put_role(store, rule(), namespace="a")
    bind(store, subject, namespace="a", kind="Role")
    reason = authorizer.authorize(user, wanted()).reason
    assert reason.startswith('RBAC: allowed by RoleBinding "b/a" of Role "r" to ')
    assert not authorizer.authorize(user, wanted(namespace="b")).allowed
    assert not authorizer.authorize(user, wanted(namespace="")).allowed


def test_role_change_takes_effect_at_once(store: Store, authorizer: RbacAuthorizer):
    assert not authorizer.authorize(BOB, wanted()).allowed
    bind(store, {"kind": "User", "name": "bob"})
    decision = authorizer.authorize(BOB, wanted())
    assert decision == Decision(allowed=False, reason=f'RBAC: clusterrole.{GROUP} "r" not found')
    put_role(store, rule())
    assert authorizer.authorize(BOB, wanted()).allowed
    store.delete(Key(GROUP, "clusterrolebindings", "", "b"))
    assert not authorizer.authorize(BOB, wanted()).allowed


def test_member_of_system_masters_needs_no_role(authorizer: RbacAuthorizer):
    assert authorizer.authorize(User("root", ("system:masters",)), wanted("whatever")).allowed


@pytest.mark.parametrize(
    ("asked", "what", "may_not", "details"),
    [
        (
            wanted("get", name="x"),
            'pods "x" is ',
            'get resource "pods" in API group "" in the namespace "a"',
            {"name": "x", "kind": "pods"},
        ),
        (
            Attributes(verb="list", group="apps", resource="deployments"),
            "deployments.apps is ",
            'list resource "deployments" in API group "apps" at the cluster scope',
            {"group": "apps", "kind": "deployments"},
        ),
        (
            wanted("get", name="x", subresource="log"),
            'pods "x" is ',
            'get resource "pods/log" in API group "" in the namespace "a"',
            {"name": "x", "kind": "pods"},
        ),
        (Attributes(verb="get", path="/api"), "", 'get path "/api"', {}),
    ],
)
def test_refusals_are_worded_as_the_real_server_does(
    asked: Attributes, what: str, may_not: str, details: dict[str, str]
):
    error = refusal(BOB, asked)
    assert (error.code, error.reason, error.details) == (403, "Forbidden", details)
    assert error.message == f'{what}forbidden: User "bob" cannot {may_not}'
