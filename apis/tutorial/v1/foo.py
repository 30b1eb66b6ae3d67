"""Foo: somebody who is happy while a friend is around."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from manager.api import ApiModel, Column, Resource, Status, crd

__all__ = ["Colour", "Foo", "FooSpec", "FooStatus"]

Colour = Literal[
    "red",
    "red-orange",
    "orange",
    "yellow-orange",
    "yellow",
    "yellow-green",
    "green",
    "blue-green",
    "blue",
    "blue-violet",
    "violet",
    "red-violet",
]
"""The twelve colours of the wheel, in its order."""


class FooSpec(ApiModel):
    """Whom a Foo wants to have around."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """The name of the friend: a pod, in whichever namespace."""


class FooStatus(
    Status,
    about="the Foo",
    conditions={"Happy": "the friend is around; its reason and message tell why, or why not"},
):
    """How a Foo was when it was last looked at."""

    happy: bool | None = None
    """Whether there is a pod of the friend's name, in any namespace, that is not being deleted.
    Absent as long as nobody has looked."""
    # Read as any text: what the schema of another day let in is to be replaced, not to be stumbled over.
    colour: Annotated[str, Field(json_schema_extra={"enum": list(get_args(Colour))})] | None = None
    """The Foo's own colour, which follows from its name and its namespace."""


@crd(
    columns=(
        Column("Friend", "string", ".spec.name", "The pod that it wants to have around"),
        Column("Happy", "boolean", ".status.happy", "Whether there is such a pod"),
        Column("Colour", "string", ".status.colour", "Its own colour"),
        Column.reason_of("Happy"),
    ),
)
class Foo(Resource, group="tutorial.my.domain", version="v1", plural="foos"):
    """Somebody who is happy while a pod of a friend's name exists."""

    spec: FooSpec
    """Whom it wants to have around."""
    status: FooStatus = Field(default_factory=FooStatus)
    """How it was when it was last looked at. Written by the controller."""
