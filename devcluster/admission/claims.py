"""PersistentVolumeClaims: the default StorageClass, and permission to grow."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from devcluster.builtin.checks import value_of
from devcluster.errors import forbidden
from devcluster.storage import Key

if TYPE_CHECKING:
    from devcluster.api.interfaces import AdmissionInfo
    from devcluster.storage.store import Store

__all__ = ["check_growth", "default_storage_class"]

_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def default_storage_class(store: Store, claim: dict[str, Any]) -> None:
    """Give a PersistentVolumeClaim the default class, if there is one; of several, the newest."""
    spec = claim.setdefault("spec", {})
    if spec.get("storageClassName") is not None or _OLD_CLASS in (claim["metadata"].get("annotations") or {}):
        return
    classes = []
    for stored in store.select("storage.k8s.io", "storageclasses"):
        metadata = stored.decode()["metadata"]
        if (metadata.get("annotations") or {}).get(_DEFAULT) == "true":
            classes.append((metadata["creationTimestamp"], metadata["name"]))
    if classes:
        newest = max(created for created, _ in classes)
        spec["storageClassName"] = min(name for created, name in classes if created == newest)


def check_growth(store: Store, info: AdmissionInfo) -> None:
    """Let a claim grow only where its class allows it; raises StatusError."""
    before, after = _spec(info.old), _spec(info.obj)
    if _storage(after) <= _storage(before):
        return
    name = after.get("storageClassName")
    stored = store.get(Key("storage.k8s.io", "storageclasses", "", name)) if name else None
    if stored is None or not stored.decode().get("allowVolumeExpansion"):
        why = (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc"
            " must support resize"
        )
        raise forbidden(info.resource.group, info.resource.plural, info.name, why)


def _spec(claim: dict[str, Any] | None) -> dict[str, Any]:
    return (claim or {}).get("spec") or {}


def _storage(spec: dict[str, Any]) -> Fraction:
    return value_of(((spec.get("resources") or {}).get("requests") or {}).get("storage", 0))
