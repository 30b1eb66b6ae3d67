"""Kinds that only subresources accept, and that are not served as resources."""

from __future__ import annotations

import functools

from devcluster.kinds.resource import Resource
from devcluster.kinds.strategy import Strategy
from devcluster.types import schema_for

__all__ = ["internal_resource"]


@functools.cache
def internal_resource(group: str, version: str, kind: str) -> Resource:
    """Return such a kind as a resource for the decoder."""
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        list_kind="",
        schema=schema_for(group, version, kind),
        strategy=Strategy(),
        storage_version=version,
    )
