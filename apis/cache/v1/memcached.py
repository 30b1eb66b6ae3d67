"""Memcached: a set of memcached servers."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from manager.api import (
    AVAILABLE,
    DEGRADED,
    PROGRESSING,
    ApiModel,
    Column,
    Int32,
    Resource,
    Scale,
    Status,
    cel,
    crd,
)

__all__ = ["Memcached", "MemcachedSpec", "MemcachedStatus"]


ImageName = Annotated[
    str, Field(max_length=1024), cel("self.matches('^[!-~]*$')", "must be ASCII without spaces")
]


class MemcachedSpec(ApiModel):
    """The desired memcached servers."""

    size: Annotated[Int32, Field(ge=0, le=10_000)]
    """The number of memcached servers, 0 for none."""
    image: ImageName | None = None
    """Container image of the servers. By default the image of the manager's flag --memcached-image."""


class MemcachedStatus(
    Status,
    about="the servers",
    conditions={
        AVAILABLE: "the Deployment has enough ready servers",
        PROGRESSING: "servers are being started, replaced or removed",
        DEGRADED: "a problem keeps the servers from the desired state",
    },
):
    """The memcached servers as last observed."""

    nodes: list[str] = Field(default_factory=list)
    """Names of this Memcached's pods that are neither terminating nor failed, sorted; the first 100."""
    node_count: Int32 | None = None
    """The number of this Memcached's pods that are neither terminating nor failed."""
    replicas: Int32 | None = None
    """The number of servers, ready or not."""
    ready_replicas: Int32 | None = None
    """The number of servers that are ready for connections."""
    selector: str | None = None
    """Label selector of the servers' pods, for autoscalers."""


@crd(
    columns=(
        Column("Size", "integer", ".spec.size", "Desired servers"),
        Column("Ready", "integer", ".status.readyReplicas", "Ready servers"),
        Column.reason_of(AVAILABLE),
    ),
    scale=Scale(".spec.size", ".status.replicas", ".status.selector"),
    short_names=("mc",),
)
class Memcached(Resource, group="cache.example.com", version="v1", plural="memcacheds"):
    """A set of memcached servers, run as a Deployment of the same name."""

    # The operator finds the servers' pods by the object's name, which is the value of a label.
    model_config = ConfigDict(
        json_schema_extra=cel(
            "size(self.metadata.name) <= 63", "must be at most 63 characters", field_path=".metadata.name"
        )
    )

    spec: MemcachedSpec
    """The desired servers."""
    status: MemcachedStatus = Field(default_factory=MemcachedStatus)
    """The servers as last observed. Written by the controller."""
