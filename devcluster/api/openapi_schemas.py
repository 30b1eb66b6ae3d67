"""The components of OpenAPI documents: built-in types from the table, custom kinds from their definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from devcluster.kinds.resource import Resource
from devcluster.types import table

__all__ = ["REF", "component_of", "components", "list_component_of", "own_components"]

REF = "#/components/schemas/"
"""The prefix of a reference to a component."""

_OBJECT_META = table.META + "ObjectMeta"
_LIST_META = table.META + "ListMeta"
_API_VERSION = {
    "description": "The group and version of the API that the object is written in.",
    "type": "string",
}
_KIND = {"description": "The kind of the object, in CamelCase.", "type": "string"}
_METADATA = {
    "description": "What every object has: its name, labels, annotations and more.",
    "allOf": [{"$ref": REF + _OBJECT_META}],
}
_LIST_METADATA = {
    "description": "What every list has: its version, and how to continue it.",
    "allOf": [{"$ref": REF + _LIST_META}],
}


def component_of(resource: Resource) -> str:
    """Return the component's name for the kind: `io.k8s.api.apps.v1.Deployment`, `com.example.v1.Widget`."""
    if not resource.custom:
        return resource.schema.openapi_name
    return f"{_package(resource)}.{resource.kind}"


def list_component_of(resource: Resource) -> str:
    """Return the component's name for the kind's lists."""
    if resource.custom:
        return f"{_package(resource)}.{resource.list_kind}"
    name = table.name_of(resource.group, resource.version, resource.list_kind)
    return name or component_of(resource)


def own_components(resource: Resource) -> dict[str, dict[str, Any]]:
    """Return the components of a custom kind: its objects and its lists."""
    name = component_of(resource)
    schema = _published(resource.schema.source)
    schema["type"] = "object"
    schema["properties"] = {
        **schema.get("properties", {}),
        "apiVersion": _API_VERSION,
        "kind": _KIND,
        "metadata": _METADATA,
    }
    if resource.selectable_fields:
        fields = [{"fieldPath": path.removeprefix(".")} for path in resource.selectable_fields]
        schema["x-kubernetes-selectable-fields"] = fields
    items = {"description": f"The {resource.plural}.", "type": "array", "items": {"$ref": REF + name}}
    listed = {
        "description": f"{resource.list_kind} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {"apiVersion": _API_VERSION, "items": items, "kind": _KIND, "metadata": _LIST_METADATA},
    }
    return {
        name: {**schema, "x-kubernetes-group-version-kind": [_gvk(resource, resource.kind)]},
        list_component_of(resource): {
            **listed,
            "x-kubernetes-group-version-kind": [_gvk(resource, resource.list_kind)],
        },
    }


def components(roots: Iterable[str], custom: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the schemas of these names, and of all names they refer to, by name."""
    found: dict[str, Any] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        schema = custom.get(name)
        if schema is None:
            schema = table.entries().get(name, {}).get("schema")
        if schema is None:
            continue  # an unpublished type
        found[name] = schema
        waiting.extend(reference for reference in _references(schema) if reference not in found)
    return dict(sorted(found.items()))


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(reference := schema.get("$ref"), str):
            yield reference.removeprefix(REF)
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _published(source: Any) -> dict[str, Any]:
    """Return a definition's schema with the implied fields of embedded objects added."""
    schema = dict(source)
    if properties := schema.get("properties"):
        schema["properties"] = {name: _published(each) for name, each in properties.items()}
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            schema[inner] = _published(schema[inner])
    if schema.get("x-kubernetes-int-or-string"):
        schema.setdefault("anyOf", [{"type": "integer"}, {"type": "string"}])
    if schema.get("x-kubernetes-embedded-resource"):
        own = {"apiVersion": _API_VERSION, "kind": _KIND, "metadata": _METADATA}
        schema["properties"] = {**schema.get("properties", {}), **own}
        schema["required"] = [*schema.get("required", ()), "kind", "apiVersion"]
    return schema


def _package(resource: Resource) -> str:
    return f"{'.'.join(reversed(resource.group.split('.')))}.{resource.version}"


def _gvk(resource: Resource, kind: str) -> dict[str, str]:
    return {"group": resource.group, "kind": kind, "version": resource.version}
