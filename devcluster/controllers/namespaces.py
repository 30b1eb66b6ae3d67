"""Deletion of namespaces: their content goes first, pods before everything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from devcluster.controllers import conditions
from devcluster.controllers.client import Object
from devcluster.controllers.controller import ANYTHING, Controller, Name, Routes
from devcluster.controllers.metadata import resource_of
from devcluster.errors import StatusError
from devcluster.storage import Change, Key

__all__ = ["NamespaceController"]

NAMESPACES = ("", "namespaces")
PODS = ("", "pods")
NOT_FOUND = 404

FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


class NamespaceController(Controller):
    """The namespace controller, which empties terminating namespaces."""

    name = "namespace-controller"
    batch_period = 0.005

    def routes(self) -> Routes:
        """Return the handlers of changes of namespaces, and of deletions in terminating ones."""
        return {NAMESPACES: self._on_namespace, ANYTHING: self._on_change}

    async def sync(self, key: Name) -> None:
        """Reconcile one namespace."""
        name = key[1]
        namespace = self.view.get(NAMESPACES, "", name)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        finalizers = namespace["spec"].get("finalizers") or []
        if "kubernetes" not in finalizers:
            return
        present = self.view.resources_in(name)
        # Until the pods are gone they may need the other objects.
        for resource in [PODS] if PODS in present else present:
            await self._delete_all(resource, name)
        namespace = await self._report(namespace, self.view.resources_in(name))
        if not self.view.resources_in(name):
            namespace["spec"]["finalizers"] = [each for each in finalizers if each != "kubernetes"]
            await self.client.update("namespaces", "", namespace, subresource="finalize")
        elif PODS in present and PODS not in self.view.resources_in(name):
            self.queue.add(key)

    async def _delete_all(self, resource: tuple[str, str], namespace: str) -> None:
        for stored in self.view.select(resource, namespace):
            metadata = self.view.metadata(stored.key)
            if metadata is not None and metadata.deletion_timestamp:
                continue
            try:
                await self.client.delete(resource_of(stored.key), namespace, stored.key.name, uid=stored.uid)
            except StatusError as error:
                if error.code != NOT_FOUND:
                    raise

    async def _report(self, namespace: Object, remaining: Mapping[tuple[str, str], int]) -> Object:
        now, name = self.clock.timestamp(), namespace["metadata"]["name"]
        status = namespace.get("status") or {}
        known = [dict(each) for each in status.get("conditions") or ()]
        states = {kind: ("False", *fine) for kind, fine in FINE.items()}
        if remaining:
            text = _resources_text(remaining)
            states["NamespaceContentRemaining"] = ("True", "SomeResourcesRemain", text)
        if counts := self._finalizers(remaining, name):
            text = _finalizers_text(counts)
            states["NamespaceFinalizersRemaining"] = ("True", "SomeFinalizersRemain", text)
        for kind, (value, reason, message) in states.items():
            former = conditions.find(known, kind)
            if former is None:
                former = {"type": kind}
                known.append(former)
            since = former.get("lastTransitionTime", now) if former.get("status", value) == value else now
            former |= {
                "status": value,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        if known == status.get("conditions"):
            return namespace
        changed = {**namespace, "status": {**status, "conditions": known}}
        return await self.client.update("namespaces", "", changed, subresource="status")

    def _finalizers(self, remaining: Mapping[tuple[str, str], int], namespace: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for resource in remaining:
            for stored in self.view.select(resource, namespace):
                metadata = self.view.metadata(stored.key)
                found.update(metadata.finalizers if metadata is not None else ())
        return found

    def _on_namespace(self, change: Change) -> None:
        if change.new is not None:
            metadata = self.view.metadata(change.key)
            if metadata is not None and metadata.deletion_timestamp:
                self.queue.add(("", change.key.name))

    def _on_change(self, change: Change) -> None:
        namespace = change.key.namespace
        if not namespace or (change.new is not None and change.old is not None):
            return
        known = self.view.metadata(Key(*NAMESPACES, "", namespace))
        if known is not None and known.deletion_timestamp:
            self.queue.add(("", namespace))


def _resources_text(remaining: Mapping[tuple[str, str], int]) -> str:
    listed = [
        f"{plural}.{group} has {count} resource instances" for (group, plural), count in remaining.items()
    ]
    return f"Some resources are remaining: {', '.join(sorted(listed))}"


def _finalizers_text(counts: Counter[str]) -> str:
    listed = [f"{finalizer} in {count} resource instances" for finalizer, count in counts.items()]
    return f"Some content in the namespace has finalizers remaining: {', '.join(sorted(listed))}"
