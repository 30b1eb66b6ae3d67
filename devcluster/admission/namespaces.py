"""NamespaceLifecycle: refusal of creates in a namespace that is missing or terminating."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from devcluster.errors import StatusError, forbidden, not_found
from devcluster.storage.records import Change, Key

if TYPE_CHECKING:
    from devcluster.api.interfaces import AdmissionInfo
    from devcluster.storage.store import Store

__all__ = ["NamespaceLifecycle"]

_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_FREE = "localsubjectaccessreviews.authorization.k8s.io"
"""May be asked about any namespace, so that the answer tells nothing of it."""


class NamespaceLifecycle:
    """A check of a write's namespace."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._terminating: set[str] = set()
        for stored in store.select("", "namespaces"):
            self._follow(Change(stored.version, stored.key, None, stored))
        store.subscribe(self._follow)

    def objects_to(self, info: AdmissionInfo) -> bool:
        """Return whether `check` would refuse the write."""
        return self._problem(info) is not None

    def check(self, info: AdmissionInfo) -> None:
        """Raise StatusError if the write's namespace is missing or terminating."""
        problem = self._problem(info)
        if problem is not None:
            raise problem

    def _problem(self, info: AdmissionInfo) -> StatusError | None:
        resource = info.resource
        if resource.name == "namespaces":
            if info.operation == "DELETE" and not info.subresource and info.name in _IMMORTAL:
                return forbidden("", "namespaces", info.name, "this namespace may not be deleted")
            return None
        namespace = info.namespace
        if not namespace or info.operation in {"DELETE", "CONNECT"} or resource.name == _FREE:
            return None
        if self._store.get(Key("", "namespaces", "", namespace)) is None:
            return not_found("", "namespaces", namespace)
        if info.operation == "CREATE" and namespace in self._terminating:
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            refusal = forbidden(resource.group, resource.plural, info.name, text)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            refusal.details["causes"] = [cause]
            return refusal
        return None

    def _follow(self, change: Change) -> None:
        if change.key[:2] != ("", "namespaces"):
            return
        stored = change.new
        if stored is not None and orjson.loads(stored.data).get("status", {}).get("phase") == "Terminating":
            self._terminating.add(change.key.name)
        else:
            self._terminating.discard(change.key.name)
