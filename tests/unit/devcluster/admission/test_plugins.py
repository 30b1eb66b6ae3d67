from __future__ import annotations

from typing import Any

import pytest

from devcluster.access.rbac import RbacAuthorizer
from devcluster.admission.plugins import OwnerReferences
from devcluster.api.interfaces import AdmissionInfo
from devcluster.errors import StatusError
from devcluster.http_call import User
from devcluster.kinds.registry import Registry
from devcluster.schema.node import Schema
from devcluster.storage import Key, Store
from tests.unit.devcluster.api_docs.conftest import resource

Object = dict[str, Any]

CONFIG_MAPS = resource("ConfigMap", schema=Schema())
PODS = resource("Pod", schema=Schema())
NAMESPACES = resource("Namespace", schema=Schema(), namespaced=False)

RBAC = "rbac.authorization.k8s.io"
FORBIDDEN = 'configmaps "a" is forbidden: cannot set '
NEEDS_DELETE = f"{FORBIDDEN}an ownerRef on a resource you can't delete: , <nil>"
NEEDS_FINALIZERS = (
    f"{FORBIDDEN}blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: "
    ", <nil>"
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
    write = AdmissionInfo(
        operation=operation,
        resource=CONFIG_MAPS,
        subresource="",
        kind=("", "v1", "ConfigMap"),
        namespace="n",
        name="a",
        obj=new,
        old=old,
        options={},
        dry_run=False,
        user=User("u"),
        warnings=[],
    )
    try:
        if plugin.concerns(write):
            plugin.check(write)
    except StatusError as error:
        status = error.to_status()
        return str(status["message"]) if status["reason"] == "Forbidden" else f"not forbidden: {status}"
    return None


MAY_DELETE = ("delete", "configmaps")
BLOCKING, BLOCKING_NAMESPACE = blocking(), blocking("Namespace")


@pytest.mark.parametrize(
    ("old", "new", "rights", "wrong"),
    [
        (None, [owner()], [], None),
        ([], [owner()], [], NEEDS_DELETE),
        ([], [owner()], [MAY_DELETE], None),
        ([owner()], [owner()], [], None),
        (None, [BLOCKING], [], NEEDS_FINALIZERS),
        (None, [BLOCKING], [("update", "pods/finalizers")], None),
        (None, [BLOCKING], [("update", "*/finalizers")], None),
        # A right in one namespace does not cover a cluster-scoped owner.
        (None, [BLOCKING_NAMESPACE], [("update", "namespaces/finalizers")], NEEDS_FINALIZERS),
        # Only new blocking owners need the right.
        ([BLOCKING, owner("Namespace")], [BLOCKING], [MAY_DELETE], None),
        ([BLOCKING, owner("Namespace")], [BLOCKING, BLOCKING_NAMESPACE], [MAY_DELETE], NEEDS_FINALIZERS),
    ],
)
def test_owner_reference_needs_rights_to_the_object_and_to_a_blocked_owner(
    old: list[Object] | None, new: list[Object], rights: list[tuple[str, str]], wrong: str | None
):
    before = None if old is None else with_owners(*old)
    assert refusal(before, with_owners(*new), *rights) == wrong


@pytest.mark.parametrize("api_version", ["v1", "example.com/v1", "v7"])
def test_owner_reference_to_an_unknown_kind_is_refused(api_version: str):
    assert refusal(None, with_owners(blocking("Nope", api_version))) == (
        f"{FORBIDDEN}blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion "
        f'{api_version} Kind Nope: no matches for kind "Nope" in version "{api_version}"'
    )
