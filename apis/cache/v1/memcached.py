"""Memcached: a set of memcached servers."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from manager.api import ApiModel, Column, Int32, Resource, Scale, Status, cel, crd

__all__ = ["Memcached", "MemcachedSpec", "MemcachedStatus"]


ImageName = Annotated[
    str, Field(max_length=1024), cel("self.matches('^[!-~]*$')", "must be ASCII without spaces")
]


class MemcachedSpec(ApiModel):
    """The memcached servers that are wanted."""

    size: Annotated[Int32, Field(ge=0, le=10_000)]
    """How many memcached servers to run, 0 for none."""
    image: ImageName | None = None
    """Container image of the servers. By default the image that the manager was started with."""


class MemcachedStatus(
    Status,
    about="the servers",
    conditions={
        "Available": "as many servers as wanted are ready",
        "Progressing": "servers are being started, replaced or removed",
        "Degraded": "something keeps the servers from becoming what is wanted",
    },
):
    """The memcached servers as they were last seen."""

    nodes: list[str] = Field(default_factory=list)
    """Names of this Memcached's pods that do not terminate and have not failed, sorted; the first 100."""
    node_count: Int32 | None = None
    """How many such pods there are."""
    replicas: Int32 | None = None
    """How many servers there are, ready or not."""
    ready_replicas: Int32 | None = None
    """How many servers are ready to take connections."""
    selector: str | None = None
    """Label selector of the servers' pods, for autoscalers."""


@crd(
    columns=(
        Column("Size", "integer", ".spec.size", "How many servers are wanted"),
        Column("Ready", "integer", ".status.readyReplicas", "How many servers are ready"),
        Column.reason_of("Available"),
    ),
    scale=Scale(".spec.size", ".status.replicas", ".status.selector"),
    short_names=("mc",),
)
class Memcached(Resource, group="cache.example.com", version="v1", plural="memcacheds"):
    """A set of memcached servers, run as a Deployment of the same name."""

    # The name becomes the value of a label, by which the servers' pods are found.
    model_config = ConfigDict(
        json_schema_extra=cel(
            "size(self.metadata.name) <= 63", "must be at most 63 characters", field_path=".metadata.name"
        )
    )

    spec: MemcachedSpec
    """The servers that are wanted."""
    status: MemcachedStatus = Field(default_factory=MemcachedStatus)
    """The servers as they were last seen. Written by the controller."""
