"""Namespaces."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.builtin.base import BuiltinStrategy, Object, columns
from devcluster.builtin.fields import child
from devcluster.names import dns_label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devcluster.kinds.strategy import Context

__all__ = ["NamespaceStrategy"]

FINALIZER = "kubernetes"
LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(BuiltinStrategy):
    """The rules of namespaces: finalizers in the specification hold one until it is empty."""

    columns = columns("Name | Status | Age")
    name_rule = staticmethod(dns_label)
    returns_deleted = True
    waits_unless_orphaned = True

    def begin(self, new: Object, context: Context) -> None:
        """Set the phase Active, and the finalizer that holds the namespace."""
        new["status"] = {"phase": "Active"}
        finalizers = child(new, "spec").setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            new["spec"]["finalizers"] = [*finalizers, FINALIZER]

    def prepare_update(self, new: Object, old: Object, context: Context) -> None:
        """Change only the finalizers in the finalize subresource, and never in other updates."""
        if context.subresource == "finalize":
            finalizers = (new.get("spec") or {}).get("finalizers")
            metadata = new["metadata"]
            new.clear()
            new.update(old)
            new["metadata"] = metadata
            new["spec"] = {"finalizers": finalizers} if finalizers else {}
            return
        super().prepare_update(new, old, context)
        new["spec"] = old.get("spec", {})

    def default(self, obj: Object) -> None:
        """Set the name label and the Active phase."""
        name = obj["metadata"].get("name")
        if name:
            child(obj["metadata"], "labels")[LABEL] = name
        child(obj, "spec")
        status = child(obj, "status")
        if not status.get("phase"):
            status["phase"] = "Active"

    def holds(self, obj: Object) -> bool:
        """Return whether the namespace has content, or other finalizers."""
        return bool((obj.get("spec") or {}).get("finalizers"))

    def mark_deleted(self, obj: Object) -> None:
        """Set the phase Terminating."""
        child(obj, "status")["phase"] = "Terminating"

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return the selectable fields: the phase."""
        return {"status.phase": (obj.get("status") or {}).get("phase", "")}

    def row(self, obj: Object) -> list[Any]:
        """Return the cells, with the phase."""
        phase = (obj.get("status") or {}).get("phase", "")
        return [obj["metadata"].get("name", ""), phase, self.created(obj)]
