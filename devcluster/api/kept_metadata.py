"""Fields of an object's metadata that only the server sets."""

from __future__ import annotations

import random
from typing import Any

from devcluster.storage.records import Key

Object = dict[str, Any]

_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def unique_id(rng: random.Random) -> str:
    """Return a random UUID of version 4."""
    number = rng.getrandbits(128) & ~(0xF000 << 64) & ~(0xC000 << 48) | 0x4000 << 64 | 0x8000 << 48
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def storage_path(key: Key) -> str:
    """Return the etcd key that the real server would use; some errors contain it."""
    names = {
        ("", "services"): "services/specs",
        ("", "endpoints"): "services/endpoints",
        ("", "nodes"): "minions",
        ("", "replicationcontrollers"): "controllers",
        ("networking.k8s.io", "ingresses"): "ingress",
        ("coordination.k8s.io", "leases"): "leases",
    }
    group, plural, namespace, name = key
    known = names.get((group, plural), plural)
    if "." in group and not group.endswith(".k8s.io"):
        known = f"{group}/{plural}"
    return "/".join(part for part in ("/registry", known, namespace, name) if part)


def in_order(metadata: Object) -> Object:
    """Return the metadata with its fields in the real server's order, and with a resourceVersion."""
    metadata.setdefault("resourceVersion", "")
    return {field: metadata[field] for field in _ORDER if field in metadata}


def restore(metadata: Object, before: Object) -> None:
    """Restore the metadata fields that only the server may change; a writer may leave them out."""
    if not metadata.get("uid"):
        metadata["uid"] = before.get("uid")
    if created := before.get("creationTimestamp"):
        metadata["creationTimestamp"] = created
    if deleted := before.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = deleted
    grace = "deletionGracePeriodSeconds"
    if grace in before and metadata.get(grace) is None:
        metadata[grace] = before[grace]


def last_finalizer_gone(metadata: Object, before: Object) -> bool:
    """Return whether an object under deletion has no finalizers left, and its grace period is over."""
    return (
        not metadata.get("finalizers")
        and bool(before.get("deletionTimestamp"))
        and not before.get("deletionGracePeriodSeconds")
    )
