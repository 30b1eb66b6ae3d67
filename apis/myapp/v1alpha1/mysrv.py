"""MySrv: a service that somebody announces."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from manager.api import ApiModel, Column, Int32, Resource, Status, crd

__all__ = ["MySrv", "MySrvSpec", "MySrvStatus"]


class MySrvSpec(ApiModel):
    """The service that is announced."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """What the service is called."""
    port: Annotated[Int32, Field(ge=1, le=65535)]
    """The port that it listens on."""


class MySrvStatus(Status, about="the service", conditions={"Ready": "its spec, as it is now, is taken up"}):
    """What became of the announcement."""

    status: str | None = None
    """In a word how the service stands: Available once its spec is taken up; absent before."""


@crd(
    columns=(
        Column("Name", "string", ".spec.name", "What the service is called"),
        Column("Port", "integer", ".spec.port", "The port that it listens on"),
        Column("Status", "string", ".status.status", "How it stands"),
        Column.reason_of("Ready"),
    ),
)
class MySrv(Resource, group="myapp.idcos.com", version="v1alpha1", plural="mysrvs"):
    """A service that is announced. Nothing is run for it."""

    spec: MySrvSpec
    """The service."""
    status: MySrvStatus = Field(default_factory=MySrvStatus)
    """What became of it. Written by the controller."""
