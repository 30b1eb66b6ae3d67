"""Pet: a pet in an external pet store."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from apis.meta import ApiModel, Column, Condition, Int64, Resource, cel, crd, list_map
from apis.meta.schema import schema_format

__all__ = ["Pet", "PetSpec", "PetStatus"]

# What the store takes for blank. Go calls less than this space, and CEL's trim() with it.
_SAYS_SOMETHING = cel(
    r"self.matches(r'[^\x09-\x0d\x1c-\x1f\x85\p{Z}]')", "must not be blank", reason="FieldValueInvalid"
)
# Where a program written in C reads a text, it ends at the first NUL.
_HAS_NO_NUL = cel(r"!self.matches(r'\x00')", "must not contain NUL")


class PetSpec(ApiModel):
    """The pet as it is to be in the store."""

    name: Annotated[str, Field(min_length=1, max_length=253), _SAYS_SOMETHING, _HAS_NO_NUL]
    """What the pet is called. Two pets may have the same name."""
    type: Literal["dog", "cat", "bird", "reptile"]
    """What the pet is."""
    # A text, because the server lets more pass as a date-time than Python has a datetime for.
    birthday: Annotated[str, schema_format("date-time")]
    """When the pet was born. The store has the day of it, in UTC."""


class PetStatus(ApiModel):
    """The pet as it was last seen in the store."""

    id: str | None = None
    """What the store knows the pet by. Given by the store; changed here by hand, it may be taken for lost."""
    observed_generation: Int64 | None = None
    """The metadata.generation that this status was made for."""
    conditions: Annotated[list[Condition], list_map("type")] = Field(default_factory=list)
    """What is known about the pet:
    Ready: the store has a record with this name, type and birthday;
    StoreReachable: the store answered when it was last asked about this pet."""


@crd(
    columns=(
        # kubectl shows the name of the object before it.
        Column("Name", "string", ".spec.name", "What the pet is called"),
        Column("Type", "string", ".spec.type", "What the pet is"),
        Column("ID", "string", ".status.id", "What the store knows the pet by"),
        Column(
            "Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether the store has it"
        ),
    ),
)
class Pet(Resource, group="petstore.example.com", version="v1alpha1", plural="pets"):
    """A pet, kept as a record in the pet store that the manager was told of."""

    spec: PetSpec
    """The pet as it is to be in the store."""
    status: PetStatus = Field(default_factory=PetStatus)
    """The pet as it was last seen in the store. Written by the controller."""
