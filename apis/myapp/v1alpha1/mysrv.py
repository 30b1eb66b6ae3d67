"""MySrv: the announcement of a service by its name and port; no workload runs for it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from manager.api import READY, ApiModel, Column, Int32, Resource, Status, crd

__all__ = ["MySrv", "MySrvSpec", "MySrvStatus"]


class MySrvSpec(ApiModel):
    """The announced service: its name and its port."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the service."""
    port: Annotated[Int32, Field(ge=1, le=65535)]
    """The port that the service listens on."""


class MySrvStatus(
    Status, about="the service", conditions={READY: "the operator has acknowledged the current spec"}
):
    """The state of the announcement."""

    status: str | None = None
    """The state in a word: Available once the operator has acknowledged the spec; absent before."""


@crd(
    columns=(
        Column("Name", "string", ".spec.name", "Name of the service"),
        Column("Port", "integer", ".spec.port", "Port of the service"),
        Column("Status", "string", ".status.status", "State of the announcement"),
        Column.reason_of(READY),
    ),
)
class MySrv(Resource, group="myapp.idcos.com", version="v1alpha1", plural="mysrvs"):
    """An announced service. No workload runs for it."""

    spec: MySrvSpec
    """The announced service."""
    status: MySrvStatus = Field(default_factory=MySrvStatus)
    """The state of the announcement. Written by the controller."""
