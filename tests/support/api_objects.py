"""Kubernetes objects as JSON, and objects that many tests create first."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from typing import Any

from tests.support.control_plane import ControlPlane, Feature
from tests.support.eventually import eventually


def manifest(api: str, kind: str, name: str, /, **spec: Any) -> dict[str, Any]:
    """Return a manifest with a spec; `api` is its apiVersion."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


def object_path(api: str, namespace: str, plural: str, name: str = "") -> str:
    """Return the API path of one object, or of all objects in the namespace if `name` is empty.

    `api` is an apiVersion, such as `v1` or `apps/v1`.
    """
    root = "apis" if "/" in api else "api"
    path = f"/{root}/{api}/namespaces/{namespace}/{plural}"
    return f"{path}/{name}" if name else path


def deployment_path(namespace: str, name: str = "") -> str:
    return object_path("apps/v1", namespace, "deployments", name)


def pod_path(namespace: str, name: str = "") -> str:
    return object_path("v1", namespace, "pods", name)


def condition(obj: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the object's condition of type `kind`; raise AssertionError when there is none."""
    found = [each for each in obj.get("status", {}).get("conditions", ()) if each["type"] == kind]
    assert found, f"{obj['metadata']['name']} has no condition {kind}: {obj.get('status')}"
    return dict(found[0])


def event_counts(plane: ControlPlane, obj: dict[str, Any]) -> dict[str, int]:
    """Return the counts of an object's Events by reason."""
    uid, namespace = obj["metadata"]["uid"], obj["metadata"]["namespace"]
    counts: dict[str, int] = {}
    for event in plane.api.get(object_path("v1", namespace, "events"))["items"]:
        if event["involvedObject"].get("uid") == uid:
            times = (event.get("series") or {}).get("count") or event.get("count") or 1
            counts[event["reason"]] = counts.get(event["reason"], 0) + times
    return counts


# Pod admission needs the first object; the second appears in lists of ConfigMaps.
GIVEN = ("serviceaccounts/default", "configmaps/kube-root-ca.crt")


def create_namespace(plane: ControlPlane, name: str) -> None:
    """Create a namespace, and wait for the objects that controllers create in it."""
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    if plane.supports(Feature.WORKLOADS):
        for given in GIVEN:
            path = f"/api/v1/namespaces/{name}/{given}"
            # If the controllers have died, the error message says so.
            eventually(lambda path=path: (plane.check(), plane.api.get(path)), every=0.02)


def new_namespace(plane: ControlPlane) -> str:
    """Create a namespace as `create_namespace` does; return its name, which no other namespace has."""
    name = f"test-{secrets.token_hex(4)}"
    create_namespace(plane, name)
    return name


CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
STANDARD = "standard"
"""Default class: its volumes are created immediately, and can be expanded."""
FIXED_SIZE = "fixed-size"
"""Class whose volumes are created immediately, and cannot be expanded."""


def storage_class(name: str, *, default: bool = False, expandable: bool = True) -> dict[str, Any]:
    """Return a storage class; kwok's stages create volumes only for STANDARD and FIXED_SIZE."""
    default_mark = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {
        "metadata": {"name": name, "annotations": default_mark if default else {}},
        "provisioner": "kwok",
        "allowVolumeExpansion": expandable,
    }


@contextlib.contextmanager
def storage_classes(plane: ControlPlane) -> Iterator[None]:
    """Create the missing storage classes for the length of the `with` block."""
    wanted = [storage_class(STANDARD, default=True), storage_class(FIXED_SIZE, expandable=False)]
    missing = [each for each in wanted if plane.api.find(f"{CLASSES}/{each['metadata']['name']}") is None]
    for each in missing:
        plane.api.create(CLASSES, each)
    yield
    for each in missing:
        plane.api.delete(f"{CLASSES}/{each['metadata']['name']}")
