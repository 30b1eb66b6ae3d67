"""Foo: an object that is happy while a pod with a certain name exists."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from manager.api import ApiModel, Column, ConditionType, Resource, Status, crd

__all__ = ["HAPPY", "Colour", "Foo", "FooSpec", "FooStatus"]

HAPPY = ConditionType("Happy")

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
"""The twelve colours of the wheel, in order."""


class FooSpec(ApiModel):
    """The friend of a Foo."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """The friend's name: the name of a pod in any namespace."""


class FooStatus(
    Status,
    about="the Foo",
    conditions={HAPPY: "the friend exists; reason and message say why, or why not"},
):
    """The Foo as last observed."""

    happy: bool | None = None
    """Whether a pod with the friend's name exists in any namespace and is not being deleted. Absent until the
    first observation."""
    # The model accepts any text, so that values from an older schema can be read and replaced.
    colour: Annotated[str, Field(json_schema_extra={"enum": list(get_args(Colour))})] | None = None
    """The Foo's colour, computed from its name and namespace."""


@crd(
    columns=(
        Column("Friend", "string", ".spec.name", "Name of the friend, a pod"),
        Column("Happy", "boolean", ".status.happy", "Whether the friend exists"),
        Column("Colour", "string", ".status.colour", "Colour of the Foo"),
        Column.reason_of(HAPPY),
    ),
)
class Foo(Resource, group="tutorial.my.domain", version="v1", plural="foos"):
    """An object that is happy while a pod with the friend's name exists."""

    spec: FooSpec
    """The friend."""
    status: FooStatus = Field(default_factory=FooStatus)
    """The Foo as last observed. Written by the controller."""
