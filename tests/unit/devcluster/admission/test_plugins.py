from __future__ import annotations

from typing import Any

import pytest

from devcluster.access.rbac import RbacAuthorizer
from devcluster.admission.plugins import OwnerReferences
from devcluster.errors import StatusError
from devcluster.http_call import User
from devcluster.kinds.registry import Registry
from devcluster.storage import Key, Store
from tests.unit.devcluster.admission.test_admission import CONFIG_MAPS, NAMESPACES, PODS, info

Object = dict[str, Any]

RBAC = "rbac.authorization.k8s.io"
NEEDS_FINALIZERS = (
    'configmaps "a" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource '
    "you can't set finalizers on: , <nil>"
)


def owner(kind: str = "Pod", api_version: str = "v1", **more: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "name": "x", "uid": f"uid-of-{kind}", **more}


def blocking(kind: str = "Pod", api_version: str = "v1") -> Object:
    return owner(kind, api_version, blockOwnerDeletion=True)


def with_owners(*owners: Object) -> Object:
    return {"metadata": {"name": "a", "namespace": "n", "ownerReferences": list(owners)}}


def refusal(old: Object | None, new: Object, *rules: tuple[str, str]) -> str | None:
    """Return the refusal for a user with these rights, (verb, resource), in one namespace."""
    store = Store()
    role = {"rules": [{"apiGroups": [""], "resources": [what], "verbs": [verb]} for verb, what in rules]}
    bound = {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]}
    store.create(Key(RBAC, "roles", "n", "r"), {"metadata": {"namespace": "n", "name": "r"}, **role})
    store.create(Key(RBAC, "rolebindings", "n", "b"), {"metadata": {"namespace": "n", "name": "b"}, **bound})
    plugin = OwnerReferences(RbacAuthorizer(store), Registry([CONFIG_MAPS, PODS, NAMESPACES]))
    operation = "CREATE" if old is None else "UPDATE"
    write = info(operation=operation, namespace="n", name="a", obj=new, old=old, user=User("u"))
    try:
        if plugin.concerns(write):
            plugin.check(write)
    except StatusError as error:
        status = error.to_status()
        return str(status["message"]) if status["reason"] == "Forbidden" else f"not forbidden: {status}"
    return None


def test_create_may_set_owners():
    assert refusal(None, with_owners(owner())) is None


def test_update_may_add_an_owner_only_with_the_right_to_delete_the_object():
    assert refusal(with_owners(), with_owners(owner())) == (
        'configmaps "a" is forbidden: cannot set an ownerRef on a resource you can\'t delete: , <nil>'
    )
    assert refusal(with_owners(), with_owners(owner()), ("delete", "configmaps")) is None
    assert refusal(with_owners(owner()), with_owners(owner())) is None


def test_blocking_owner_reference_needs_the_right_to_set_finalizers_of_the_owner():
    assert refusal(None, with_owners(blocking())) == NEEDS_FINALIZERS
    assert refusal(None, with_owners(blocking()), ("update", "pods/finalizers")) is None
    assert refusal(None, with_owners(blocking()), ("update", "*/finalizers")) is None


def test_cluster_scoped_owner_needs_a_cluster_wide_right():
    assert refusal(None, with_owners(blocking("Namespace")), ("update", "namespaces/finalizers")) == (
        NEEDS_FINALIZERS
    )


def test_update_needs_the_finalizers_right_for_new_blocking_owners_only():
    may_delete = ("delete", "configmaps")
    before = with_owners(blocking(), owner("Namespace"))
    assert refusal(before, with_owners(blocking()), may_delete) is None
    assert refusal(before, with_owners(blocking(), blocking("Namespace")), may_delete) == NEEDS_FINALIZERS


@pytest.mark.parametrize("api_version", ["v1", "example.com/v1", "v7"])
def test_owner_of_unknown_kind_is_refused(api_version: str):
    assert refusal(None, with_owners(blocking("Nope", api_version))) == (
        'configmaps "a" is forbidden: cannot set blockOwnerDeletion in this case because cannot find '
        f"RESTMapping for APIVersion {api_version} Kind Nope: "
        f'no matches for kind "Nope" in version "{api_version}"'
    )
