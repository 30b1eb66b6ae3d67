"""Pet v1beta1: a pet in an external pet store. It is the hub: other versions convert to and from it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from manager.api import (
    READY,
    ApiModel,
    Column,
    ConditionType,
    Resource,
    Status,
    cel,
    crd,
    schema_format,
)

__all__ = ["ADDRESS_PATTERN", "STORE_REACHABLE", "Pet", "PetOwner", "PetSpec", "PetStatus", "SpokenName"]

STORE_REACHABLE = ConditionType("StoreReachable")

# The store's rule for blank names. Go's and CEL's trim() remove fewer characters.
_SAYS_SOMETHING = cel(
    r"self.matches(r'[^\x09-\x0d\x1c-\x1f\x85\p{Z}]')", "must not be blank", reason="FieldValueInvalid"
)
# C programs end a string at the first NUL.
_HAS_NO_NUL = cel(r"!self.matches(r'\x00')", "must not contain NUL")
# Names of people and pets, in any script.
SpokenName = Annotated[str, Field(min_length=1, max_length=253), _SAYS_SOMETHING, _HAS_NO_NUL]
# The API server's `email` format also accepts "Ann <ann@example.com>".
_ATOM = r'[^\x00-\x20\x7f<>()\[\]:;@\\,".]+'
ADDRESS_PATTERN = rf"^{_ATOM}(\.{_ATOM})*@{_ATOM}(\.{_ATOM})*$"
_IS_AN_ADDRESS = cel(
    f"self.matches(r'{ADDRESS_PATTERN}')", "must be an address such as ann@example.com, and no name with it"
)


class PetOwner(ApiModel):
    """The owner of a pet."""

    name: SpokenName
    """Name of the owner."""
    email: Annotated[str, Field(max_length=254), schema_format("email"), _IS_AN_ADDRESS] | None = None
    """Email address of the owner, such as ann@example.com, without a name."""


class PetSpec(ApiModel):
    """The desired pet."""

    name: SpokenName
    """Name of the pet. Two pets may have the same name."""
    species: Literal["dog", "cat", "bird", "reptile"]
    """Species of the pet."""
    # A string, because objects written in v1alpha1 may contain an impossible day, and the server's `date`
    # includes the year 0. A CEL rule could refuse such a day. But the server could not evaluate any rule for
    # a stored impossible day, and would refuse every write, even of the status.
    birthday: Annotated[str, schema_format("date")]
    """Day of the pet's birth, as in 2021-04-01; years from 0001 to 9999."""
    owner: PetOwner | None = None
    """Owner of the pet, if any. The store does not receive it."""


class PetStatus(
    Status,
    about="the pet",
    conditions={
        READY: "the store has a record with this name, species and birthday",
        STORE_REACHABLE: "the store answered the last call for this pet",
    },
):
    """The pet as last observed in the store."""

    id: str | None = None
    """Id of the pet's record, assigned by the store. After a manual change here the record may be lost."""


@crd(
    columns=(
        # kubectl shows the object's name before it.
        Column("Name", "string", ".spec.name", "Name of the pet"),
        Column("Species", "string", ".spec.species", "Species of the pet"),
        Column("ID", "string", ".status.id", "Id of the record in the store"),
        Column(
            "Ready",
            "string",
            '.status.conditions[?(@.type=="Ready")].status',
            "Whether the store has the record",
        ),
        Column.reason_of(READY),
    ),
)
class Pet(Resource, group="petstore.example.com", version="v1beta1", plural="pets"):
    """A pet, kept as a record in the manager's pet store."""

    spec: PetSpec
    """The desired pet."""
    status: PetStatus = Field(default_factory=PetStatus)
    """The pet as last observed in the store. Written by the controller."""
