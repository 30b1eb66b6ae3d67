from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import ConfigDict, Field

from manager.api import ApiModel, Int32, IntOrString, cel, preserve_unknown, required
from manager_tools.codegen.manifest import leads_somewhere
from manager_tools.codegen.structural import structural_schema
from tests.support.kinds import Limits, Mode, Port, Widget
from tests.unit.manager_tools.codegen.made_models import field_schema, kind_with, spec_schema


class Nothing(ApiModel):
    pass


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


INT_OR_STRING = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (Int32, {"type": "integer", "format": "int32"}),
        (IntOrString, INT_OR_STRING),
        (datetime, {"type": "string", "format": "date-time"}),
        (list[str | None], {"type": "array", "items": {"type": "string", "nullable": True}}),
        (
            dict[str, int | None],
            {"type": "object", "additionalProperties": {"type": "integer", "nullable": True}},
        ),
        (Annotated[dict[str, Any], preserve_unknown()], {"type": "object", **ANYTHING}),
        (Annotated[Any, preserve_unknown()], ANYTHING),
        (Literal["one", "two"], {"type": "string", "enum": ["one", "two"]}),
        (Mode, {"description": "How hard a widget tries.", "type": "string", "enum": ["fast", "slow"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Nothing, {"type": "object", "properties": {}}),
        (
            Annotated[str, Field(min_length=1, max_length=9, pattern="^a")],
            {"type": "string", "pattern": "^a", "minLength": 1, "maxLength": 9},
        ),
        (
            Annotated[list[int], Field(min_length=1, max_length=9)],
            {"type": "array", "minItems": 1, "maxItems": 9, "items": {"type": "integer"}},
        ),
    ],
)
def test_field_schema_translates_a_python_annotation_to_openapi(annotation: Any, schema: dict[str, Any]):
    assert field_schema(annotation) == schema


@pytest.mark.parametrize(
    ("limits", "schema"),
    [
        (Field(ge=0, le=9), {"minimum": 0, "maximum": 9}),
        (Field(gt=0, lt=9), {"minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": True}),
        (Field(ge=1, gt=0), {"minimum": 1}),
        (Field(ge=0, gt=0), {"minimum": 0, "exclusiveMinimum": True}),
        (Field(le=1, lt=2), {"maximum": 1}),
        (Field(multiple_of=5), {"multipleOf": 5}),
        (Field(ge=-(2**63), le=2**63 - 1), {}),
    ],
)
def test_field_schema_of_an_integer_has_bounds_unless_int64_implies_them(limits: Any, schema: dict[str, Any]):
    assert field_schema(Annotated[int, limits]) == {"type": "integer", **schema}


@pytest.mark.parametrize(
    "annotation", [str | None, Annotated[str | None, Field()], Annotated[str, Field()] | None]
)
def test_spec_schema_does_not_require_a_field_whose_default_is_none(annotation: Any):
    assert spec_schema(annotation, None) == {"type": "object", "properties": {"value": {"type": "string"}}}


def test_field_schema_of_an_optional_type_equals_the_schema_of_the_type_itself():
    one_or_none = Literal["a", None]  # noqa: PYI061 - the form that is tested
    assert field_schema(one_or_none, None) == {"type": "string", "enum": ["a"]}
    assert field_schema(Mode | None, None)["enum"] == ["fast", "slow"]
    assert field_schema(IntOrString | None, None) == INT_OR_STRING


def test_spec_schema_requires_fields_without_default_and_fields_marked_required():
    assert spec_schema(str)["required"] == ["value"]
    assert "required" not in spec_schema(str, "")
    for annotation, default in ((str | None, None), (str, "")):
        schema = spec_schema(Annotated[annotation, required()], default)
        assert schema["required"] == ["value"]
        assert schema["properties"]["value"] == {"type": "string"}


@pytest.mark.parametrize(
    ("annotation", "default", "wire"),
    [
        (str, "", ""),
        (list[int], [1], [1]),
        (Mode, Mode.SLOW, "slow"),
        (Limits, Limits(high=7), {"low": 1, "high": 7}),
    ],
)
def test_field_schema_writes_defaults_as_json_values(annotation: Any, default: Any, wire: Any):
    assert field_schema(annotation, default)["default"] == wire


def test_field_schema_inlines_a_nested_model_and_omits_factory_defaults():
    inner = field_schema(Port)
    assert inner["description"] == "A port of a widget."
    assert inner["required"] == ["name", "number"]
    assert list(inner["properties"]) == ["name", "number", "protocol", "target"]
    assert not {"additionalProperties", "x-kubernetes-preserve-unknown-fields"} & inner.keys()
    assert "default" not in field_schema(list[int], Field(default_factory=list))


def test_field_schema_allows_fields_named_like_json_schema_keywords():
    class Odd(ApiModel):
        title: str = "t"
        default: int | None = None
        properties: dict[str, str] = Field(default_factory=dict)

    assert field_schema(Odd)["properties"] == {
        "title": {"type": "string", "default": "t"},
        "default": {"type": "integer"},
        "properties": {"type": "object", "additionalProperties": {"type": "string"}},
    }


def test_field_schema_adds_cel_rules_of_a_field_only_to_that_field():
    class Ruled(ApiModel):
        model_config = ConfigDict(json_schema_extra=cel("self.a > 0", "of the model"))
        a: int

    class Pair(ApiModel):
        ruled: Annotated[
            Ruled | None,
            cel("self.a < 9", "of the field", reason="FieldValueForbidden"),
            cel("true", "third"),
        ] = None
        plain: Ruled

    of_model = {"rule": "self.a > 0", "message": "of the model"}
    properties = field_schema(Pair)["properties"]
    assert properties["plain"]["x-kubernetes-validations"] == [of_model]
    assert properties["ruled"]["x-kubernetes-validations"] == [
        of_model,
        {"rule": "self.a < 9", "message": "of the field", "reason": "FieldValueForbidden"},
        {"rule": "true", "message": "third"},
    ]


def test_structural_schema_declares_metadata_as_an_object_without_properties():
    schema = structural_schema(kind_with(str))
    assert list(schema["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert schema["required"] == ["spec"]


SCHEMA = structural_schema(Widget)


@pytest.mark.parametrize(
    ("path", "leads"),
    [
        *((path, True) for path in (".spec.mode", ".metadata.labels", ".spec.limits.low")),
        *((path, True) for path in (".spec.settings.what.ever", ".spec.selector.app", ".spec.ports[0].name")),
        ('.status.conditions[?(@.type=="Ready")].status', True),
        (".spec.selector['app.kubernetes.io/name']", True),
        *((path, False) for path in ("spec.mode", "", ".", ".spec.size", ".spec.mode.deeper")),
    ],
)
def test_json_path_check_accepts_only_the_path_of_an_existing_field(path: str, leads: bool):
    assert leads_somewhere(path, SCHEMA) is leads
