"""Schemas in OpenAPI documents of version 3 and version 2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from devcluster.kinds.resource import Resource
from devcluster.types import table

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
    """Return the component's name for lists of the kind."""
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
    """Return the schemas of the components `roots`, and of all components that they refer to, by name."""
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
    """Return a schema with apiVersion, kind and metadata added to each embedded object."""
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


_METHODS = ("get", "put", "post", "delete", "patch")
_UNKNOWN_THERE = ("default", "nullable", "oneOf", "anyOf", "not")
_LOOSE = ("description", "x-kubernetes-embedded-resource", "x-kubernetes-preserve-unknown-fields")


def to_v2(document: dict[str, Any]) -> dict[str, Any]:
    """Convert a whole document to version 2."""
    schemas = document["components"]["schemas"]
    return {
        "swagger": "2.0",
        "info": document["info"],
        "paths": {path: _path(operations) for path, operations in document["paths"].items()},
        "definitions": {name: _schema(schema) for name, schema in schemas.items()},
        "securityDefinitions": document["components"]["securitySchemes"],
        "security": [{"BearerToken": []}],
    }


def _path(operations: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        method: _operation(operations[method]) for method in _METHODS if method in operations
    }
    made["parameters"] = [_parameter(each) for each in operations.get("parameters", ())]
    return made


def _operation(operation: dict[str, Any]) -> dict[str, Any]:
    made = {key: value for key, value in operation.items() if key not in {"requestBody", "responses"}}
    made["parameters"] = [_parameter(each) for each in operation.get("parameters", ())]
    made["consumes"] = ["*/*"]
    made["produces"] = ["application/json", "application/yaml"]
    if body := operation.get("requestBody"):
        content = body["content"]
        made["consumes"] = list(content)
        schema = _schema(next(iter(content.values()))["schema"])
        parameter = {"name": "body", "in": "body", "schema": schema}
        made["parameters"].append(parameter | ({"required": True} if body.get("required") else {}))
    made["responses"] = {code: _response(answer) for code, answer in operation["responses"].items()}
    made["schemes"] = ["https"]
    return made


def _parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    return {**{key: value for key, value in parameter.items() if key != "schema"}, **parameter["schema"]}


def _response(answer: dict[str, Any]) -> dict[str, Any]:
    made = {"description": answer["description"]}
    if content := answer.get("content"):
        made["schema"] = _schema(next(iter(content.values()))["schema"])
    return made


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    if reference := schema.get("$ref"):
        return {"$ref": f"#/definitions/{reference.removeprefix(REF)}"}
    if (parts := schema.get("allOf")) and len(parts) == 1 and "$ref" in parts[0]:
        described = {key: value for key, value in schema.items() if key not in {"allOf", "default"}}
        return described | _schema(parts[0])
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return {key: schema[key] for key in _LOOSE if key in schema}
    made = {key: value for key, value in schema.items() if key not in _UNKNOWN_THERE and key != "allOf"}
    if schema.get("nullable"):
        for key in ("type", "format", "properties", "items", "additionalProperties"):
            made.pop(key, None)
    elif "oneOf" in schema:  # quantities, and numbers or strings
        made["type"] = "string"
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _schema(made[key])
    if "properties" in made:
        made["properties"] = {name: _schema(each) for name, each in made["properties"].items()}
    return made
