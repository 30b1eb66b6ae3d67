"""Objects as the API server shows them, as JSON: where each is, and what it says of itself."""

from __future__ import annotations

from typing import Any

from tests.support.control_plane import ControlPlane


def manifest(api: str, kind: str, name: str, /, **spec: Any) -> dict[str, Any]:
    """Return a manifest with a spec; `api` is its apiVersion."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


def object_path(api: str, namespace: str, plural: str, name: str = "") -> str:
    """Return the path of one object, or of all in the namespace; `api` is an apiVersion: `v1`, `apps/v1`."""
    root = "apis" if "/" in api else "api"
    path = f"/{root}/{api}/namespaces/{namespace}/{plural}"
    return f"{path}/{name}" if name else path


def deployment_path(namespace: str, name: str = "") -> str:
    return object_path("apps/v1", namespace, "deployments", name)


def pod_path(namespace: str, name: str = "") -> str:
    return object_path("v1", namespace, "pods", name)


def condition(obj: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the object's condition of that type; raise AssertionError when it has none."""
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
