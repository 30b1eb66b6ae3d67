"""Conversion of OpenAPI documents from version 3 to version 2; fields without an equivalent are dropped."""

from __future__ import annotations

from typing import Any

from devcluster.api.openapi_schemas import REF

__all__ = ["to_v2"]

_METHODS = ("get", "put", "post", "delete", "patch")
_UNKNOWN_THERE = ("default", "nullable", "oneOf", "anyOf", "not")
_LOOSE = ("description", "x-kubernetes-embedded-resource", "x-kubernetes-preserve-unknown-fields")


def to_v2(document: dict[str, Any]) -> dict[str, Any]:
    """Convert a whole document."""
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
