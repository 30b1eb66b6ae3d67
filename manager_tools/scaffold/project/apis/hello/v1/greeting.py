"""Greeting API: spec and status."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from manager.api import READY, ApiModel, Column, Int32, Resource, Status, crd

__all__ = ["Greeting", "GreetingSpec", "GreetingStatus"]


class GreetingSpec(ApiModel):
    """Desired state of a Greeting."""

    size: Annotated[Int32, Field(ge=0, le=100)] = 1
    """The desired number. Replace this field by your own fields."""


class GreetingStatus(Status, conditions={READY: "the observed state is the desired state"}):
    """Observed state of a Greeting."""

    size: Int32 = 0
    """The observed number."""


@crd(
    columns=(
        Column("Wanted", "integer", ".spec.size", "The desired number"),
        Column("Ready", "string", ".status.conditions[?(@.type=='Ready')].status", "Whether it is ready"),
        Column.reason_of(READY),
    ),
)
class Greeting(
    Resource,
    group="hello.example.com",
    version="v1",
    plural="greetings",
):
    """Describe the kind here: `kubectl explain` shows this text."""

    spec: GreetingSpec = Field(default_factory=GreetingSpec)
    """The desired state."""
    status: GreetingStatus = Field(default_factory=GreetingStatus)
    """The observed state."""
