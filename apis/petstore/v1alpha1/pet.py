"""Pet as it was at first: still served, and converted to v1beta1, in which objects are stored, and back."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from apis.petstore.v1beta1.pet import PetStatus, SpokenName
from manager.api import ApiModel, Column, Resource, crd, schema_format

__all__ = ["Pet", "PetSpec"]


class PetSpec(ApiModel):
    """The pet as it is to be in the store."""

    name: SpokenName
    """What the pet is called. Two pets may have the same name."""
    type: Literal["dog", "cat", "bird", "reptile"]
    """What the pet is."""
    # A text, because the server lets more pass as a date-time than Python has a datetime for: also a fraction
    # as long as one likes, so there is a limit.
    birthday: Annotated[str, Field(max_length=128), schema_format("date-time")]
    """When the pet was born. The store has the day of it, in UTC."""


@crd(
    columns=(
        # kubectl shows the name of the object before it.
        Column("Name", "string", ".spec.name", "What the pet is called"),
        Column("Type", "string", ".spec.type", "What the pet is"),
        Column("ID", "string", ".status.id", "What the store knows the pet by"),
        Column(
            "Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether the store has it"
        ),
        Column.reason_of("Ready"),
    ),
    storage=False,
    deprecated="petstore.example.com/v1alpha1 Pet is deprecated; use petstore.example.com/v1beta1 Pet",
)
class Pet(Resource, group="petstore.example.com", version="v1alpha1", plural="pets"):
    """A pet, kept as a record in the pet store that the manager was told of. Use v1beta1."""

    spec: PetSpec
    """The pet as it is to be in the store."""
    status: PetStatus = Field(default_factory=PetStatus)
    """The pet as it was last seen in the store. Written by the controller."""
