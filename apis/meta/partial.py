"""An object of which only the metadata is known."""

from __future__ import annotations

from apis.meta.resource import Resource

__all__ = ["PartialObjectMetadata"]


class PartialObjectMetadata(
    Resource, group="meta.k8s.io", version="v1", plural="partialobjectmetadatas", namespaced=True
):
    """What the server sends when asked for metadata only; it does not say of which kind the object is."""
