"""What every kind is made of: metadata, conditions, owner references, and the Resource base."""

from __future__ import annotations

from apis.meta.condition import Condition, ConditionStatus, find_condition, is_true, set_condition
from apis.meta.crd import Column, CrdOptions, Scale, crd, crd_options
from apis.meta.kind import GroupVersionKind
from apis.meta.model import ApiModel
from apis.meta.numbers import Int32, Int64, IntOrString
from apis.meta.object_key import ObjectKey
from apis.meta.object_meta import ObjectMeta
from apis.meta.owner import controller_of, controller_reference, is_controlled_by
from apis.meta.owner_reference import OwnerReference
from apis.meta.partial import PartialObjectMetadata
from apis.meta.resource import Resource
from apis.meta.schema import (
    atomic_list,
    atomic_map,
    cel,
    list_map,
    list_set,
    preserve_unknown,
    required,
    together,
)

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
    "Resource",
    "Scale",
    "atomic_list",
    "atomic_map",
    "cel",
    "controller_of",
    "controller_reference",
    "crd",
    "crd_options",
    "find_condition",
    "is_controlled_by",
    "is_true",
    "list_map",
    "list_set",
    "preserve_unknown",
    "required",
    "set_condition",
    "together",
]
