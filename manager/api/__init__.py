"""The base of every kind: metadata, conditions, owner references, and the Resource class."""

from __future__ import annotations

from manager.api.condition import Condition, ConditionStatus, find_condition, is_true, set_condition
from manager.api.crd import Column, CrdOptions, Scale, crd, crd_options, is_crd
from manager.api.meta import GroupVersionKind, ObjectKey, ObjectMeta, OwnerReference
from manager.api.model import ApiModel
from manager.api.resource import (
    PartialObjectMetadata,
    Resource,
    controller_of,
    controller_reference,
    is_controlled_by,
    recommended_labels,
)
from manager.api.schema import (
    Int32,
    Int64,
    IntOrString,
    Quantity,
    atomic_list,
    atomic_map,
    cel,
    granular_map,
    list_map,
    list_set,
    preserve_unknown,
    required,
    schema_format,
    schema_pattern,
    schema_words,
    server_default,
    together,
)
from manager.api.status import Status, StepsStatus
from manager.api.unstructured import Unstructured

__all__ = [
    "ApiModel",
    "Column",
    "Condition",
    "ConditionStatus",
    "CrdOptions",
    "GroupVersionKind",
    "Int32",
    "Int64",
    "IntOrString",
    "ObjectKey",
    "ObjectMeta",
    "OwnerReference",
    "PartialObjectMetadata",
    "Quantity",
    "Resource",
    "Scale",
    "Status",
    "StepsStatus",
    "Unstructured",
    "atomic_list",
    "atomic_map",
    "cel",
    "controller_of",
    "controller_reference",
    "crd",
    "crd_options",
    "find_condition",
    "granular_map",
    "is_controlled_by",
    "is_crd",
    "is_true",
    "list_map",
    "list_set",
    "preserve_unknown",
    "recommended_labels",
    "required",
    "schema_format",
    "schema_pattern",
    "schema_words",
    "server_default",
    "set_condition",
    "together",
]
