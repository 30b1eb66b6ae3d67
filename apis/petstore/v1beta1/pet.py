"""Pet: a pet in an external pet store. The hub: other versions are converted to this one and from it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from manager.api import (
    ApiModel,
    Column,
    Resource,
    Status,
    cel,
    crd,
    schema_format,
)

__all__ = ["ADDRESS_PATTERN", "Pet", "PetOwner", "PetSpec", "PetStatus", "SpokenName"]

# What the store takes for blank. Go calls less than this space, and CEL's trim() with it.
_SAYS_SOMETHING = cel(
    r"self.matches(r'[^\x09-\x0d\x1c-\x1f\x85\p{Z}]')", "must not be blank", reason="FieldValueInvalid"
)
# Where a program written in C reads a text, it ends at the first NUL.
_HAS_NO_NUL = cel(r"!self.matches(r'\x00')", "must not contain NUL")
# A name that people use, in any script.
SpokenName = Annotated[str, Field(min_length=1, max_length=253), _SAYS_SOMETHING, _HAS_NO_NUL]
# The server's `email` is what may stand in the head of a mail, so "Ann <ann@example.com>" too.
_ATOM = r'[^\x00-\x20\x7f<>()\[\]:;@\\,".]+'
ADDRESS_PATTERN = rf"^{_ATOM}(\.{_ATOM})*@{_ATOM}(\.{_ATOM})*$"
_IS_AN_ADDRESS = cel(
    f"self.matches(r'{ADDRESS_PATTERN}')", "must be an address such as ann@example.com, and no name with it"
)


class PetOwner(ApiModel):
    """Who a pet belongs to."""

    name: SpokenName
    """What the owner is called."""
    email: Annotated[str, Field(max_length=254), schema_format("email"), _IS_AN_ADDRESS] | None = None
    """Where mail reaches the owner: an address such as ann@example.com, and no name with it."""


class PetSpec(ApiModel):
    """The pet as it is to be in the store."""

    name: SpokenName
    """What the pet is called. Two pets may have the same name."""
    species: Literal["dog", "cat", "bird", "reptile"]
    """What the pet is."""
    # A text, because objects written in v1alpha1 may have a birthday here that is no day of the calendar.
    # The server's `date` begins with the year 0. A rule in CEL could refuse that, but where a stored birthday
    # is no day, no rule can be evaluated, and then the server refuses every write, the status too.
    birthday: Annotated[str, schema_format("date")]
    """The day on which the pet was born, as in 2021-04-01; years from 0001 to 9999."""
    owner: PetOwner | None = None
    """Who the pet belongs to, if anybody. The store does not hear of it."""


class PetStatus(
    Status,
    about="the pet",
    conditions={
        "Ready": "the store has a record with this name, species and birthday",
        "StoreReachable": "the store answered when it was last asked about this pet",
    },
):
    """The pet as it was last seen in the store."""

    id: str | None = None
    """What the store knows the pet by. Given by the store; changed here by hand, it may be taken for lost."""


@crd(
    columns=(
        # kubectl shows the name of the object before it.
        Column("Name", "string", ".spec.name", "What the pet is called"),
        Column("Species", "string", ".spec.species", "What the pet is"),
        Column("ID", "string", ".status.id", "What the store knows the pet by"),
        Column(
            "Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether the store has it"
        ),
        Column.reason_of("Ready"),
    ),
)
class Pet(Resource, group="petstore.example.com", version="v1beta1", plural="pets"):
    """A pet, kept as a record in the pet store that the manager was told of."""

    spec: PetSpec
    """The pet as it is to be in the store."""
    status: PetStatus = Field(default_factory=PetStatus)
    """The pet as it was last seen in the store. Written by the controller."""
