"""Models with one field, for tests of the CRD generator."""

from __future__ import annotations

from typing import Any

from pydantic import Field, create_model

from manager.api import ApiModel, Resource, Status
from manager_tools.codegen.structural import structural_schema


def kind_with(annotation: Any, default: Any = ...) -> type[Resource]:
    """Return a kind `Widget` whose spec has one field, `value`, with this annotation."""
    spec = create_model("WidgetSpec", __base__=ApiModel, value=(annotation, default))
    return create_model(
        "Widget",
        __base__=Resource,
        __cls_kwargs__={"group": "test.example.com", "version": "v1", "plural": "widgets"},
        spec=(spec, ...),
        status=(Status, Field(default_factory=Status)),
    )


def spec_schema(annotation: Any, default: Any = ...) -> Any:
    """Return the structural schema of a spec with this one field."""
    return structural_schema(kind_with(annotation, default))["properties"]["spec"]


def field_schema(annotation: Any, default: Any = ...) -> Any:
    """Return the structural schema of a field with this annotation and default."""
    return spec_schema(annotation, default)["properties"]["value"]
