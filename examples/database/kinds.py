"""The kind Database, and the kinds that its operator uses."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from manager.api import (
    AVAILABLE,
    DEGRADED,
    PROGRESSING,
    ApiModel,
    Column,
    Int32,
    Resource,
    Status,
    StepsStatus,
    crd,
)

__all__ = ["Database", "DatabaseSpec", "DatabaseStatus", "Job", "StatefulSet"]


class StatefulSet(Resource, group="apps", version="v1", plural="statefulsets"):
    """A controller of pods that have names and an order."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: dict[str, Any] = Field(default_factory=dict)


class Job(Resource, group="batch", version="v1", plural="jobs"):
    """Pods that run to completion."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: dict[str, Any] = Field(default_factory=dict)


class DatabaseSpec(ApiModel):
    """The desired servers."""

    version: Annotated[str, Field(pattern=r"^[a-z0-9.-]+$", max_length=40)]
    """The tag of the image."""
    replicas: Annotated[Int32, Field(ge=1, le=9)] = 3
    """The number of servers."""


class DatabaseStatus(
    Status,
    conditions={
        AVAILABLE: "all servers are ready",
        PROGRESSING: "an upgrade runs, or servers are being replaced",
        DEGRADED: "the last upgrade has failed",
    },
):
    """The servers of a Database as last observed."""

    ready: Int32 = 0
    """How many servers are ready."""
    upgrade: StepsStatus = Field(default_factory=StepsStatus)
    """The running or the last upgrade."""


@crd(
    columns=(
        Column("Version", "string", ".spec.version", "The version that is wanted"),
        Column("Ready", "integer", ".status.ready", "How many servers are ready"),
        Column("Upgrade", "string", ".status.upgrade.state", "The state of the last upgrade"),
        Column("Progress", "string", ".status.upgrade.progress", "The number of the step"),
        Column("Step", "string", ".status.upgrade.step", "The current step, or the last one"),
        Column("Message", "string", ".status.upgrade.message", "What the step waits for", priority=1),
    )
)
class Database(Resource, group="db.example.com", version="v1", plural="databases"):
    """Database servers of one version."""

    spec: DatabaseSpec
    """The wanted servers."""
    status: DatabaseStatus = Field(default_factory=DatabaseStatus)
    """The last observed servers."""
