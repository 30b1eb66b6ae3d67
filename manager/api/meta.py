"""The identity of kinds and objects, and the metadata that every object has."""

from __future__ import annotations

import operator
from datetime import datetime
from typing import NamedTuple, Protocol

from pydantic import Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from manager.api.model import ApiModel


class _Reference(Protocol):
    """An object that names a kind, such as an owner reference."""

    @property
    def api_version(self) -> str: ...

    @property
    def kind(self) -> str: ...


class GroupVersionKind(NamedTuple):
    """API group (empty for the core group), version and kind."""

    group: str
    version: str
    kind: str

    @classmethod
    def from_api_version(cls, api_version: str, kind: str) -> GroupVersionKind:
        """Build one from an object's `apiVersion` (`v1`, `apps/v1`) and `kind`."""
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)

    def is_named_by(self, reference: _Reference) -> bool:
        """Return whether a reference means this kind, in any version of the kind."""
        group, _, _ = reference.api_version.rpartition("/")
        return (group, reference.kind) == (self.group, self.kind)

    @property
    def api_version(self) -> str:
        """The `apiVersion` of objects of this kind: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """Format the kind as kubectl does: `Deployment.v1.apps`, `Pod.v1`."""
        return f"{self.kind}.{self.version}.{self.group}" if self.group else f"{self.kind}.{self.version}"


class ObjectKey(NamedTuple):
    """Namespace and name; the namespace of a cluster-scoped object is the empty string."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OwnerReference(ApiModel):
    """Names an owner, in the same namespace or cluster-scoped; when all owners are gone, so is the object."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    """True for the one owner that manages the object."""
    block_owner_deletion: bool | None = None
    """True to keep the owner, when it is deleted in the foreground, until the object is gone."""


class ObjectMeta(ApiModel):
    """An object's metadata, as far as controllers use it; the rest (`managedFields`) stays as it came.

    Strings and collections are always there: a field that the server left out is empty here, and an empty
    field is left out on the wire, because in metadata the two mean the same.
    """

    name: str = Field(default="", exclude_if=operator.not_)
    namespace: str = Field(default="", exclude_if=operator.not_)
    generate_name: str = Field(default="", exclude_if=operator.not_)
    uid: str = Field(default="", exclude_if=operator.not_)
    resource_version: str = Field(default="", exclude_if=operator.not_)
    generation: int = Field(default=0, exclude_if=operator.not_)
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict, exclude_if=operator.not_)
    annotations: dict[str, str] = Field(default_factory=dict, exclude_if=operator.not_)
    finalizers: list[str] = Field(default_factory=list, exclude_if=operator.not_)
    owner_references: list[OwnerReference] = Field(default_factory=list, exclude_if=operator.not_)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema of a template's metadata, which lacks what only the server sets.

        An object's own metadata has the server's schema instead.
        """
        del core_schema, handler
        text = {"type": "string"}
        texts = {"type": "object", "additionalProperties": text}
        properties = {
            "annotations": texts,
            "finalizers": {"type": "array", "items": text},
            "labels": texts,
            "name": text,
            "namespace": text,
        }
        return {"type": "object", "properties": properties}
