"""Kinds that are sent to subresources only, and are not served as resources."""

from __future__ import annotations

import functools

from devcluster.kinds.resource import Resource
from devcluster.kinds.strategy import Strategy
from devcluster.types import schema_for

__all__ = ["internal_resource"]


@functools.cache
def internal_resource(group: str, version: str, kind: str) -> Resource:
    """Such a kind, as the decoder wants it."""
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
