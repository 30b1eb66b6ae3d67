"""Overlays of config/: the API server accepts each of their fields."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.manifests import OVERLAYS, SYSTEM, Manifest, manifests, the

pytestmark = [pytest.mark.oldest, pytest.mark.long]

# Defined by cert-manager, the Prometheus operator and OLM; the scorecard's file never reaches a server.
ELSEWHERE = {
    *("cert-manager.io", "monitoring.coreos.com"),
    *("operators.coreos.com", "scorecard.operatorframework.io"),
}


def test_server_accepts_every_overlay_object_strictly_without_warnings(crds: ControlPlane, namespace: str):
    # Pods that could do more than the manager's namespace allows are warned of.
    labels = the("Namespace", SYSTEM)["metadata"]["labels"]
    crds.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    objects = list(every_object(namespace))
    assert {"CustomResourceDefinition", "Deployment", "NetworkPolicy", "Pet", "Role"} <= {
        each["kind"] for each in objects
    }
    done = crds.kubectl(
        "apply",
        "--server-side",
        "--force-conflicts",
        "--dry-run=server",
        f"--namespace={namespace}",
        "--validate=strict",
        "--warnings-as-errors",
        "--filename=-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
    )
    assert len(done.stdout.splitlines()) == len(objects)


def every_object(namespace: str) -> Iterator[Manifest]:
    """Return every object of all overlays once, in an existing namespace."""
    seen: list[Manifest] = []
    for overlay in OVERLAYS:
        for manifest in manifests(overlay):
            placed = moved(manifest, namespace)
            if manifest["apiVersion"].partition("/")[0] not in ELSEWHERE and placed not in seen:
                seen.append(placed)
                yield placed


def moved(manifest: Manifest, namespace: str) -> Manifest:
    """Return the object in another namespace; a cluster-scoped object stays unchanged."""
    if "namespace" not in manifest["metadata"]:
        return manifest
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
