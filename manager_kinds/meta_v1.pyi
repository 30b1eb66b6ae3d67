# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import Any, Required, TypedDict

from manager_kinds.factory import Part

__all__ = [
    "ConditionDict",
    "FieldSelectorRequirement",
    "FieldSelectorRequirementDict",
    "LabelSelector",
    "LabelSelectorDict",
    "LabelSelectorRequirement",
    "LabelSelectorRequirementDict",
    "ManagedFieldsEntry",
    "ManagedFieldsEntryDict",
    "ObjectMetaDict",
    "OwnerReference",
    "OwnerReferenceDict",
]

class ConditionDict(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    observedGeneration: int
    lastTransitionTime: Required[str]
    reason: Required[str]
    message: Required[str]

class FieldSelectorRequirement(Part[FieldSelectorRequirementDict]):
    key: str
    operator: str
    values: list[str] | None = None

class FieldSelectorRequirementDict(TypedDict, total=False):
    key: Required[str]
    operator: Required[str]
    values: list[str]

class LabelSelector(Part[LabelSelectorDict]):
    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None

class LabelSelectorDict(TypedDict, total=False):
    matchLabels: dict[str, str]
    matchExpressions: list[LabelSelectorRequirementDict]

class LabelSelectorRequirement(Part[LabelSelectorRequirementDict]):
    key: str
    operator: str
    values: list[str] | None = None

class LabelSelectorRequirementDict(TypedDict, total=False):
    key: Required[str]
    operator: Required[str]
    values: list[str]

class ManagedFieldsEntry(Part[ManagedFieldsEntryDict]):
    manager: str | None = None
    operation: str | None = None
    api_version: str | None = None
    time: datetime | None = None
    fields_type: str | None = None
    fields_v1: dict[str, Any] | None = None
    subresource: str | None = None

class ManagedFieldsEntryDict(TypedDict, total=False):
    manager: str
    operation: str
    apiVersion: str
    time: str
    fieldsType: str
    fieldsV1: dict[str, Any]
    subresource: str

class ObjectMetaDict(TypedDict, total=False):
    name: str
    generateName: str
    namespace: str
    selfLink: str
    uid: str
    resourceVersion: str
    generation: int
    creationTimestamp: str
    deletionTimestamp: str
    deletionGracePeriodSeconds: int
    labels: dict[str, str]
    annotations: dict[str, str]
    ownerReferences: list[OwnerReferenceDict]
    finalizers: list[str]
    managedFields: list[ManagedFieldsEntryDict]

class OwnerReference(Part[OwnerReferenceDict]):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None

class OwnerReferenceDict(TypedDict, total=False):
    apiVersion: Required[str]
    kind: Required[str]
    name: Required[str]
    uid: Required[str]
    controller: bool
    blockOwnerDeletion: bool
