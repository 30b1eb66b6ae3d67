"""OwnerReferencesPermissionEnforcement: users need delete and finalizer rights to set owner references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.access.attributes import Attributes, quoted
from devcluster.errors import StatusError, forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable

    from devcluster.api.interfaces import AdmissionInfo, Authorizer
    from devcluster.kinds.registry import Registry

__all__ = ["OwnerReferences"]

Object = dict[str, Any]

_ANYTHING = Attributes(
    verb="update", group="*", version="*", resource="*", subresource="finalizers", name="*"
)
"""A user with this permission may set finalizers on every object."""


class OwnerReferences:
    """A check that the user has the rights that new owner references need.

    An object is deleted with its owner, so setting an owner needs the right to delete the object. A reference
    that blocks the owner's deletion acts like a finalizer of the owner, and needs the right to set its
    finalizers.
    """

    def __init__(self, authorizer: Authorizer, registry: Registry) -> None:
        self._authorizer = authorizer
        self._registry = registry

    def concerns(self, info: AdmissionInfo) -> bool:
        """Return whether the write changes owners."""
        if info.obj is None or (info.resource.name == "pods" and info.subresource == "status"):
            return False
        return _owners(info.obj) != _owners(info.old)

    def check(self, info: AdmissionInfo) -> None:
        """Raise StatusError if the user lacks a right that the new owner references need."""
        if not self.concerns(info):
            return
        resource = info.resource
        if info.operation != "CREATE":
            self._require(
                info,
                Attributes(
                    verb="delete",
                    group=resource.group,
                    version=resource.version,
                    resource=resource.plural,
                    subresource=info.subresource,
                    namespace=info.namespace,
                    name=info.name,
                ),
                "cannot set an ownerRef on a resource you can't delete",
            )
        blocking = list(_newly_blocking(info))
        if not blocking or self._authorizer.authorize(info.user, _ANYTHING).allowed:
            return
        for owner in blocking:
            self._check_blocking(info, owner)

    def _check_blocking(self, info: AdmissionInfo, owner: Object) -> None:
        api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        group, _, version = api_version.rpartition("/")
        resource = self._registry.of_kind(group, version, kind)
        if resource is None:
            raise _refusal(
                info,
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion "
                f"{api_version} Kind {kind}: no matches for kind {quoted(kind)} in version "
                f"{quoted(api_version)}",
            )
        self._require(
            info,
            Attributes(
                verb="update",
                group=resource.group,
                version=resource.version,
                resource=resource.plural,
                subresource="finalizers",
                namespace=info.namespace if resource.namespaced else "",
                name=owner.get("name", ""),
            ),
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set "
            "finalizers on",
        )

    def _require(self, info: AdmissionInfo, wanted: Attributes, otherwise: str) -> None:
        decision = self._authorizer.authorize(info.user, wanted)
        if not decision.allowed:
            raise _refusal(info, f"{otherwise}: {decision.reason}, <nil>")


def _owners(obj: Object | None) -> list[Object]:
    if obj is None:
        return []
    return obj.get("metadata", {}).get("ownerReferences") or []


def _newly_blocking(info: AdmissionInfo) -> Iterable[Object]:
    """Yield the references whose blockOwnerDeletion this write sets."""
    before = {owner.get("uid"): owner for owner in _owners(info.old)}
    for owner in _owners(info.obj):
        if owner.get("blockOwnerDeletion") and not before.get(owner.get("uid"), {}).get("blockOwnerDeletion"):
            yield owner


def _refusal(info: AdmissionInfo, why: str) -> StatusError:
    return forbidden(info.resource.group, info.resource.plural, info.name, why)
