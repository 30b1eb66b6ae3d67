"""Pet v1alpha1: still served, and converted to and from the storage version v1beta1."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from apis.petstore.v1beta1.pet import PetStatus, SpokenName
from manager.api import READY, ApiModel, Column, Resource, crd, schema_format

__all__ = ["Pet", "PetSpec"]


class PetSpec(ApiModel):
    """The desired pet."""

    name: SpokenName
    """Name of the pet. Two pets may have the same name."""
    type: Literal["dog", "cat", "bird", "reptile"]
    """Species of the pet."""
    # A string, because the API server accepts more date-times than Python's datetime, such as fractions of
    # any length. So a limit is also needed.
    birthday: Annotated[str, Field(max_length=128), schema_format("date-time")]
    """Time of the pet's birth. The store keeps the day in UTC."""


@crd(
    columns=(
        # kubectl shows the object's name before it.
        Column("Name", "string", ".spec.name", "Name of the pet"),
        Column("Type", "string", ".spec.type", "Species of the pet"),
        Column("ID", "string", ".status.id", "Id of the record in the store"),
        Column(
            "Ready",
            "string",
            '.status.conditions[?(@.type=="Ready")].status',
            "Whether the store has the record",
        ),
        Column.reason_of(READY),
    ),
    storage=False,
    deprecated="petstore.example.com/v1alpha1 Pet is deprecated; use petstore.example.com/v1beta1 Pet",
)
class Pet(Resource, group="petstore.example.com", version="v1alpha1", plural="pets"):
    """A pet, kept as a record in the manager's pet store. Use v1beta1."""

    spec: PetSpec
    """The desired pet."""
    status: PetStatus = Field(default_factory=PetStatus)
    """The pet as last observed in the store. Written by the controller."""
