"""The parts of an object's metadata that controllers need, decoded without the rest of the object."""

from __future__ import annotations

import msgspec

from devcluster.controllers.client import Object
from devcluster.errors import qualified
from devcluster.storage import Key, Stored

__all__ = [
    "Metadata",
    "OwnerReference",
    "controller_of",
    "key_of",
    "metadata_of",
    "owner_reference",
    "resource_of",
]


class OwnerReference(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """An entry of `metadata.ownerReferences`."""

    uid: str = ""
    kind: str = ""
    name: str = ""
    api_version: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Metadata(msgspec.Struct, rename="camel", frozen=True):
    """The part of `metadata` that decides about an object's life."""

    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str = ""

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference of the object's controller, or None."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class _Envelope(msgspec.Struct):
    metadata: Metadata


_decoder = msgspec.json.Decoder(_Envelope)
_PLAIN = Metadata()


def metadata_of(stored: Stored) -> Metadata:
    """Read from the bytes; most objects have none of it, which costs a search only."""
    data = stored.data
    if b'"ownerReferences"' in data or b'"deletionTimestamp"' in data or b'"finalizers"' in data:
        try:
            return _decoder.decode(data).metadata
        except msgspec.ValidationError:
            # A null, or a word in a text of the object that looks like one of the three.
            return _PLAIN
    return _PLAIN


def resource_of(key: Key) -> str:
    """Return the resource's qualified name, such as `deployments.apps`."""
    return qualified(key.group, key.plural)


def key_of(obj: Object) -> tuple[str, str]:
    """Return the object's (namespace, name)."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def controller_of(obj: Object) -> Object | None:
    """Return the owner reference of the object's controller, or None."""
    references: list[Object] = obj["metadata"].get("ownerReferences") or []
    return next((reference for reference in references if reference.get("controller")), None)


def owner_reference(owner: Object) -> Object:
    """Build the owner reference for objects that `owner` controls."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
