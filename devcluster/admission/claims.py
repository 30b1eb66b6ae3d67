"""The StorageClass of claims that name none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devcluster.storage.store import Store

__all__ = ["default_storage_class"]

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
