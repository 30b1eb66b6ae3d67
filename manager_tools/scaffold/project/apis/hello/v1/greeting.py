"""Greeting API: spec and status."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from manager.api import READY, ApiModel, Column, Int32, Resource, Status, crd

__all__ = ["Greeting", "GreetingSpec", "GreetingStatus"]


class GreetingSpec(ApiModel):
    """Desired state of a Greeting."""

    size: Annotated[Int32, Field(ge=0, le=100)] = 1
    """How many are wanted. Put your own fields in its place."""


class GreetingStatus(Status, conditions={READY: "what is wanted is there"}):
    """Observed state of a Greeting."""

    size: Int32 = 0
    """How many there are."""


@crd(
    columns=(
        Column("Wanted", "integer", ".spec.size", "How many are wanted"),
        Column("Ready", "string", ".status.conditions[?(@.type=='Ready')].status", "Whether they are there"),
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
    """What is wanted."""
    status: GreetingStatus = Field(default_factory=GreetingStatus)
    """What is there."""
