"""The objects of a new cluster."""

from __future__ import annotations

import functools
import pathlib
import random
import uuid
from typing import Any

import orjson

API_SERVER_ADDRESS = "10.96.0.1"
NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def initial_objects(now: str, *, port: int = 6443, rng: random.Random | None = None) -> list[dict[str, Any]]:
    """Return the objects of a new cluster, complete except for the resourceVersion.

    These are the namespaces, the API server's Service (with target port `port`), a StorageClass, the system's
    PriorityClasses, and the default roles and bindings from bootstrap.json. `now` is their creation time.
    """
    rng = rng or random.Random()
    recorded = orjson.loads(read_recorded())
    objects = [*map(_namespace, NAMESPACES), _api_server(port), _storage_class(), *recorded]
    for each in objects:
        each["metadata"]["uid"] = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        each["metadata"]["creationTimestamp"] = now
    return objects


@functools.cache
def read_recorded() -> bytes:
    """Read the recorded objects in bootstrap.json."""
    return pathlib.Path(__file__).with_name("bootstrap.json").read_bytes()


def _namespace(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _api_server(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "clusterIP": API_SERVER_ADDRESS,
            "clusterIPs": [API_SERVER_ADDRESS],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }


def _storage_class() -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "devcluster",
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": True,
        "volumeBindingMode": "Immediate",
    }
