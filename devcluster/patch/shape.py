"""Shapes: the merge rules of a schema's nodes, as in structured-merge-diff, computed once per node."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from devcluster.patch.fields import item_key, value_key
from devcluster.schema.lazy import LazyMapping
from devcluster.schema.node import UNSET, Schema


class Untypable(ValueError):
    """Error for a value that does not fit its schema; the message is the real server's."""


class NotConverted(Untypable):
    """Error for an object that does not convert to a version in which a manager owns fields."""


class Shape:
    """Merge rules of one node of a schema.

    The node's value may be a scalar, a list or a map; a node without a type permits all three. `scalar` is
    `untyped`, `numeric`, `string`, `boolean`, or empty if the value must not be a scalar. An atomic list or
    map has one owner as a whole.
    """

    __slots__ = (
        "atomic_list",
        "atomic_map",
        "element",
        "fields",
        "is_list",
        "is_map",
        "item",
        "key_defaults",
        "keys",
        "nothing",
        "scalar",
        "schema",
    )

    schema: Schema
    scalar: str
    is_list: bool
    is_map: bool
    atomic_list: bool
    atomic_map: bool
    keys: tuple[str, ...]
    """The key fields of the items of a list that is a map; () for a set."""
    key_defaults: dict[str, Any]
    fields: Mapping[str, Shape]
    element: Shape | None
    """The shape of the values under other keys; None if the schema permits no other keys."""
    item: Shape
    nothing: dict[str, Any]
    """An empty built-in object: its structs with the fields that Go never omits; {} for a custom kind."""

    def __init__(self, schema: Schema, *, preserve: bool = False) -> None:
        """Build the shape; `preserve` means that a parent node keeps unknown fields."""
        self.schema = schema
        name = schema.openapi_name
        raw = name.endswith(".RawExtension")
        if name.endswith(".Quantity"):
            kind, self.scalar = "scalar", "untyped"
        elif schema.int_or_string or schema.format == "int-or-string":
            kind, self.scalar = "", "untyped"
        else:
            kind, self.scalar = schema.type, _SCALARS.get(schema.type, "untyped" if not schema.type else "")
            if kind == "string" and schema.format not in {"", "byte"}:
                self.scalar = "untyped"
        if raw:
            kind, self.scalar = "", "untyped"
        self.is_list = kind in {"", "array"}
        self.is_map = kind in {"", "object"}
        self.atomic_map = raw or schema.map_type == "atomic"
        self._set_list(schema)
        preserve = preserve or schema.preserve_unknown
        if self.is_map:
            self.element = _element(schema, preserve=preserve, raw=raw)
            self.fields = LazyMapping(schema.properties, functools.partial(shape_of, preserve=preserve))
            if schema.embedded:
                self.fields = _with_meta(self.fields)
        if self.is_list:
            self.item = shape_of(schema.items, preserve=preserve) if schema.items is not None else UNTYPED

    def _set_list(self, schema: Schema) -> None:
        self.keys = ()
        if schema.list_type:
            self.atomic_list = schema.list_type == "atomic"
            if schema.list_type == "map":
                self.keys = schema.list_map_keys
        else:
            self.atomic_list = "merge" not in schema.patch_strategies
            if not self.atomic_list and schema.patch_merge_key:
                self.keys = (schema.patch_merge_key,)

    def __getattr__(self, name: str) -> Any:
        if name == "nothing":
            self.nothing = _nothing(self.schema) if is_builtin(self.schema) else {}
            return self.nothing
        if name != "key_defaults":
            raise AttributeError(name)
        self.key_defaults = {}
        for key in self.keys:
            field = self.item.fields.get(key) if self.item.is_map else None
            if field is not None and field.schema.default is not UNSET and field.schema.default is not None:
                self.key_defaults[key] = field.schema.default
        return self.key_defaults

    def child(self, name: str) -> Shape:
        """Return the shape of the value at a key; a key without a schema has a shape that fits any value."""
        return self.fields.get(name) or self.element or DEDUCED

    def key_of(self, item: Any) -> str:
        """Return the path step of a list item; raise Untypable if it has no key."""
        if not self.keys:
            if isinstance(item, dict):
                raise Untypable("associative list without keys has an element that's a map type")
            if isinstance(item, list):
                raise Untypable("not supported: associative list with lists as elements")
            if item is None:
                raise Untypable("associative list without keys has an element that's an explicit null")
            return value_key(item)
        if not isinstance(item, dict):
            what = "a null element" if item is None else "non-map elements"
            raise Untypable(f"associative list with keys may not have {what}")
        found = {}
        for key in self.keys:
            if key in item:
                found[key] = item[key]
            elif key in self.key_defaults:
                found[key] = self.key_defaults[key]
        if not found:
            names = " ".join(f'"{key}"' for key in self.keys)
            raise Untypable(
                f"associative list with keys has an element that omits all key fields [{names}]"
                " (and doesn't have default values for any key fields)"
            )
        return item_key(found)


_SCALARS: Final = {"integer": "numeric", "number": "numeric", "string": "string", "boolean": "boolean"}


def shape_of(schema: Schema, *, preserve: bool = False) -> Shape:
    """Return the shape of a node, which is built at the first call; later calls ignore `preserve`."""
    shape: Shape | None = schema.merge_shape
    if shape is None:
        shape = Shape(schema, preserve=preserve)
        schema.merge_shape = shape
    return shape


def _element(schema: Schema, *, preserve: bool, raw: bool) -> Shape | None:
    if raw:
        return UNTYPED
    if schema.additional is not None:
        return shape_of(schema.additional, preserve=preserve)
    return DEDUCED if preserve or not schema.properties else None


def _free(*, atomic: bool) -> Shape:
    """Return a shape that fits any value; its lists are atomic, its maps only if `atomic`."""
    shape = Shape.__new__(Shape)
    shape.schema = Schema()
    shape.scalar = "untyped"
    shape.is_list = shape.is_map = True
    shape.atomic_list = True
    shape.atomic_map = atomic
    shape.keys = ()
    shape.fields = {}
    shape.element = shape
    shape.item = shape
    return shape


UNTYPED: Final = _free(atomic=True)
"""The shape of any value that is owned as a whole."""
DEDUCED: Final = _free(atomic=False)
"""The shape of any value whose maps are owned key by key."""
DEDUCED.item = UNTYPED


def _object_meta() -> Schema:
    text = Schema(type="string")
    texts = Schema(type="object", additional=text)
    time = Schema(type="string", format="date-time")
    number = Schema(type="integer", format="int64")
    flag = Schema(type="boolean")
    owner = Schema(
        type="object",
        map_type="atomic",
        properties={
            "apiVersion": text,
            "blockOwnerDeletion": flag,
            "controller": flag,
            "kind": text,
            "name": text,
            "uid": Schema(type="string", default=""),
        },
    )
    entry = Schema(
        type="object",
        properties={
            **dict.fromkeys(("apiVersion", "fieldsType", "manager", "operation", "subresource"), text),
            "fieldsV1": Schema(type="object"),
            "time": time,
        },
    )
    return Schema(
        type="object",
        properties={
            "annotations": texts,
            "creationTimestamp": time,
            "deletionGracePeriodSeconds": number,
            "deletionTimestamp": time,
            "finalizers": Schema(type="array", items=text, list_type="set"),
            "generateName": text,
            "generation": number,
            "labels": texts,
            "managedFields": Schema(type="array", items=entry, list_type="atomic"),
            "name": text,
            "namespace": text,
            "ownerReferences": Schema(type="array", items=owner, list_type="map", list_map_keys=("uid",)),
            "resourceVersion": text,
            "selfLink": text,
            "uid": text,
        },
    )


_TEXT: Final = shape_of(Schema(type="string"))
OBJECT_META: Final = shape_of(_object_meta())


def root_shape(schema: Schema) -> Shape:
    """Return the shape of a whole object, with the common fields apiVersion, kind and metadata."""
    shape: Shape | None = schema.merge_shape
    if shape is None:
        shape = Shape(schema)
        if shape.is_map:
            shape.fields = _with_meta(shape.fields)
        schema.merge_shape = shape
    return shape


def _with_meta(fields: Mapping[str, Shape]) -> Mapping[str, Shape]:
    """Return the fields with the common ones (apiVersion, kind, metadata) added."""
    return {
        **dict(fields.items()),
        "apiVersion": _TEXT,
        "kind": _TEXT,
        "metadata": OBJECT_META,
    }


def is_builtin(schema: Schema) -> bool:
    """Return whether a schema describes a built-in type, which is a Go struct."""
    return bool(schema.openapi_name)


def _nothing(schema: Schema) -> dict[str, Any]:
    empty: dict[str, Any] = {}
    for name, field in schema.properties.items():
        if isinstance(field.default, dict) and not field.default and field.type == "object":
            empty[name] = _nothing(field)
        elif field.default is not UNSET and not field.default:
            empty[name] = field.default
        elif name in schema.required:
            empty[name] = None
    return empty
