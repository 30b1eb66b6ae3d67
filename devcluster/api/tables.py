"""Tables and PartialObjectMetadata, as `kubectl get` and metadata informers request them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from devcluster.api.negotiation import Representation
from devcluster.clock import Clock
from devcluster.crd.json_path import cell
from devcluster.errors import StatusError, bad_request, not_acceptable
from devcluster.kinds.ages import age
from devcluster.kinds.resource import Column, Resource

Object = dict[str, Any]

_NAME = Column("Name", format="name", description="")
_AGE = Column("Age", "date", json_path=".metadata.creationTimestamp")
_INCLUDES = frozenset({"", "Metadata", "Object", "None"})


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decoder = msgspec.json.Decoder(_Metadata)


def partial_metadata(data: bytes, representation: Representation) -> bytes:
    """Return the PartialObjectMetadata of an object; argument and result are JSON."""
    metadata = bytes(_decoder.decode(data).metadata)
    head = f'{{"kind":"PartialObjectMetadata","apiVersion":"{representation.api_version}","metadata":'
    return b"".join((head.encode(), metadata, b"}"))


def check_include(include: str) -> None:
    """Raise StatusError, 400, for an unknown `includeObject`."""
    if include not in _INCLUDES:
        shown = msgspec.json.encode(include).decode()
        raise bad_request(
            f"Unable to convert to Table as requested: includeObject: Invalid value: {shown}: "
            "must be 'Metadata', 'Object', 'None', or empty"
        )


def column_definitions(resource: Resource) -> list[Object]:
    """Return the definitions of all columns in a resource's table."""
    columns = resource.columns
    if resource.custom:
        columns = (_NAME, *(columns or (_AGE,)))
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in columns or (_NAME, _AGE)
    ]


def table_row(
    resource: Resource, obj: Object, include: str, representation: Representation, clock: Clock
) -> Object:
    """Return the table row of one object; `obj` is in the version of `resource`."""
    row: Object = {"cells": _cells(resource, obj, clock)}
    if conditions := resource.strategy.row_conditions(obj):
        row["conditions"] = conditions
    if include == "Object":
        row["object"] = obj
    elif include == "None":
        row["object"] = None
    else:
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": representation.api_version,
            "metadata": obj["metadata"],
        }
    return row


def table(
    columns: list[Object] | None, rows: Iterable[Object], metadata: Object, representation: Representation
) -> Object:
    """Build the Table; `columns` is None for every event of a watch except the first."""
    return {
        "kind": "Table",
        "apiVersion": representation.api_version,
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": list(rows),
    }


def _cells(resource: Resource, obj: Object, clock: Clock) -> list[Any]:
    if not resource.custom:
        return resource.strategy.row(obj)
    name = obj["metadata"].get("name", "")
    now = clock.now()
    cells: list[Any] = [name]
    for column in resource.columns or (_AGE,):
        value = cell(obj, column)
        if column.type == "date":
            value = age(value, now) if value else value
        cells.append(value)
    return cells


def not_transformed(resource: Resource, *, is_list: bool) -> StatusError:
    """Build the 406 for a list that is requested in a form for one object, or the reverse."""
    suffix, found = ("", "a list") if is_list else ("List", "not a list")
    kind = resource.list_kind if is_list else resource.kind
    internal = f"{resource.group.partition('.')[0] or 'core'}.{kind}"
    if resource.custom:
        internal = f"unstructured.Unstructured{'List' if is_list else ''}"
    asked = f"PartialObjectMetadata{suffix}"
    return not_acceptable(f"you requested {asked}, but the requested object is {found} (*{internal})")
