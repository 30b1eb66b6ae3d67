from __future__ import annotations

import enum
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

import pytest
from pydantic import Field, SecretStr, model_validator

from manager.api import (
    ApiModel,
    Column,
    Int32,
    Resource,
    Scale,
    atomic_map,
    cel,
    crd,
    list_map,
    list_set,
    schema_pattern,
    schema_words,
)
from manager_tools.codegen import ModelError, custom_resource_definitions
from tests.support.kinds import Limits, Port
from tests.unit.manager_tools.codegen.made_models import field_schema, kind_with


class Cat(ApiModel):
    type: Literal["cat"]


class Dog(ApiModel):
    type: Literal["dog"]


class Tree(ApiModel):
    branches: list[Tree] = Field(default_factory=list)


class Unkeyed(ApiModel):
    name: str | None = None
    inner: Limits


@pytest.mark.parametrize(
    ("annotation", "field", "reason"),
    [
        (int | str, "Widget.spec.value", "expressed by IntOrString"),
        (list[Limits | str], r"Widget.spec.value\[\]", "no union"),
        (Annotated[Cat | Dog, Field(discriminator="type")], "Widget.spec.value", "no union"),
        (str | None, "Widget.spec.value", "give it the default None"),
        (Any, "Widget.spec.value", r"preserve_unknown\(\)"),
        (dict[str, dict[str, Any]], r"Widget.spec.value\{\}", r"preserve_unknown\(\)"),
        (dict[Literal["a"], str], "Widget.spec.value", "keys of a map"),
        (list[None], r"Widget.spec.value\[\]", "no type for None alone"),
        (tuple[int, str], "Widget.spec.value", "tuple"),
        (set[str], "Widget.spec.value", r"list_set\(\)"),
        (timedelta, "Widget.spec.value", "no format 'duration'.*use str with a pattern"),
        (SecretStr, "Widget.spec.value", "asterisks"),
        (Callable[[], None], "Widget.spec.value", "has no JSON schema"),
        (Literal["a", 1], "Widget.spec.value", "all be of one type"),
        (Annotated[str, Field(json_schema_extra={"not": {}})], "Widget.spec.value", "has no 'not'"),
        (Annotated[str, Field(json_schema_extra={"$ref": "#/b"})], "Widget", "there is no schema '#/b'"),
        (Annotated[str, list_set()], "Widget.spec.value", "for lists"),
        (Annotated[list[str], atomic_map()], "Widget.spec.value", "for maps"),
        (Annotated[list[Limits], list_set()], "Widget.spec.value", "must be scalars"),
        (Annotated[list[Port], list_map("title")], "Widget.spec.value", "'title', which its items do not"),
        (Annotated[list[Unkeyed], list_map("name")], "Widget.spec.value", "required or have a default"),
        (Annotated[list[Unkeyed], list_map("inner")], "Widget.spec.value", "must be a scalar"),
        (Tree, "Widget", "Tree contains itself"),
    ],
)
def test_field_schema_error_names_the_field_of_an_unsupported_annotation(
    annotation: Any, field: str, reason: str
):
    with pytest.raises(ModelError, match=f"^{field}: .*{reason}"):
        field_schema(annotation)


class Validated(ApiModel):
    name: Annotated[str, Field(pattern="^(?!x)a$")] = "a"

    @model_validator(mode="after")
    def check(self) -> Self:
        return self


LACKS = "the server's regular expressions have no "


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)", f"{LACKS}'(?=' ("),
        (r"(a)\1", rf"{LACKS}'\\1' ("),
        ("^a*+b$", f"{LACKS}'*+' ("),
        ("^[a-z]{1,2000}$", f"{LACKS}'{{1,2000}}' ("),
        ("[a--b]", f"{LACKS}'a--' ("),
        ("^a{,5}$", "the server takes '{,5}' literally; write {0,5}"),
    ],
)
def test_pattern_is_refused_when_go_does_not_support_it_or_reads_it_differently(pattern: str, reason: str):
    for limit in (schema_pattern(pattern), Field(pattern=pattern)):
        with pytest.raises(ModelError) as caught:
            field_schema(Annotated[str, limit])
        assert caught.value.field == "Widget.spec.value"
        assert caught.value.reason.startswith(reason)


@pytest.mark.parametrize(
    ("annotation", "default", "field"),
    [
        (Annotated[str | None, Field(pattern="a(?=b)")], None, ""),
        (dict[str, Annotated[str, Field(pattern="a(?=b)", min_length=1)]], ..., "{}"),
        (Validated, ..., ".name"),
    ],
)
def test_unsupported_pattern_error_names_the_path_of_the_field(annotation: Any, default: Any, field: str):
    with pytest.raises(ModelError, match=LACKS) as caught:
        field_schema(annotation, default)
    assert caught.value.field == f"Widget.spec.value{field}"


@pytest.mark.parametrize(
    ("pattern", "translated"),
    [
        (r"^[\u00e4\w]+$", r"^[\x{e4}\w]+$"),
        (r"^[\u{1F600}]$", r"^[\x{1F600}]$"),
        (r"\U0001F600", r"\x{1F600}"),
        (r"^[a-z]+\Z", r"^[a-z]+\z"),
        (r"\\Z\\u00e4", r"\\Z\\u00e4"),
        ("(?i)^(?P<x>a)$", "(?i)^(?P<x>a)$"),
        (r"^\Qa.b\E$", r"^\Qa.b\E$"),
    ],
)
def test_pattern_is_translated_from_python_to_go_syntax(pattern: str, translated: str):
    assert field_schema(Annotated[str, schema_pattern(pattern)])["pattern"] == translated


class Reading(enum.Enum):
    LOW = 0.5
    OFF_SCALE = float("inf")


@pytest.mark.parametrize(
    ("annotation", "default", "reason"),
    [
        (float, float("nan"), "its default is nan"),
        (list[float], [1.0, float("inf")], "its default is inf"),
        (int, 2**63, "its default 9223372036854775808 is beyond int64"),
        (Int32, 2**31, "its default 2147483648 is beyond int32"),
        (Annotated[int, Field(le=2**63 - 5)], ..., "its maximum 9223372036854775803 is beyond int64"),
        (Annotated[int, Field(gt=-(2**63))], ..., "its minimum -9223372036854775808 is beyond int64"),
        (Annotated[float, schema_words(maximum=float("inf"))], ..., "its maximum has to be a finite number"),
        (Annotated[int, schema_words(maximum=1.5)], ..., "its maximum 1.5 is no whole number"),
        (Annotated[int, schema_words(multipleOf=0)], ..., "its multipleOf has to be more than 0"),
        (Reading, ..., "its enum has inf"),
        (Literal[-(2**63) - 1], ..., "its enum has -9223372036854775809"),
        (str, "\ud800", "its default has a lone surrogate"),
        (Annotated[str, Field(description="x\udfff")], ..., "its description has a lone surrogate"),
        (list[Annotated[str, schema_words(enum=["a", "\ud800"])]], ..., "its enum has a lone surrogate"),
    ],
)
def test_crd_error_names_the_keyword_with_an_invalid_number_or_a_lone_surrogate(
    annotation: Any, default: Any, reason: str
):
    with pytest.raises(ModelError, match=rf"^Widget.spec.value(\[\])?: {reason}"):
        custom_resource_definitions([kind_with(annotation, default)])


class Named(ApiModel):
    name: str = "abc"


@pytest.mark.parametrize(
    ("annotation", "default", "reason"),
    [
        (Annotated[str, Field(max_length=2)], "long", "its default: Too long"),
        (Annotated[list[str], schema_words(maxItems=2**70)], ..., "json: cannot unmarshal number"),
        (
            Annotated[list[Named], list_map("name", "name")],
            ...,
            "its x-kubernetes-list-map-keys: .* duplicate",
        ),
        (Annotated[list[str | None], list_set()], ..., "its items.nullable|its nullable"),
        (Annotated[str, cel("self ==", "no")], ..., "its rule 'self ==': compilation failed: .*Syntax error"),
        (Annotated[Named, cel("self.name == 'a'", "no", field_path=".nam")], ..., "its rule .*valid path"),
    ],
)
def test_custom_resource_definitions_error_names_a_field_that_an_api_server_would_refuse(
    annotation: Any, default: Any, reason: str
):
    with pytest.raises(ModelError) as caught:
        custom_resource_definitions([kind_with(annotation, default)])
    assert re.search(f"the API server refuses .*({reason})", caught.value.reason), caught.value
    assert "\n" not in str(caught.value)
    if "json:" not in reason:
        assert re.fullmatch(r"Widget.spec.value(\[\])?", caught.value.field)


class User(ApiModel):
    name: str = ""
    tags: list[str] = Field(default_factory=list)


Distinct = cel("self.all(x, self.exists_one(y, x.name == y.name))", "no")


@pytest.mark.parametrize(
    ("annotation", "field", "reason"),
    [
        (
            Annotated[list[User], Distinct],
            "Widget.spec.value",
            r"its rule 'self.all.*; give Widget.spec.value and Widget.spec.value\[\].name a max_length",
        ),
        (
            dict[str, list[Annotated[User, cel("self.tags.all(t, t != self.name)", "no")]]],
            "Widget.spec.value{}[]",
            r"give .*Widget.spec.value and Widget.spec.value\{\} a max_length",
        ),
        (
            Annotated[int, cel("lists.range(self).all(x, x > 3)", "no")],
            "Widget.spec.value",
            "; write a simpler rule",
        ),
        (
            Annotated[list[str], cel("self.size() < 3", "no", message_expression="self.join(', ')")],
            "Widget.spec.value",
            r"its message_expression .*; give Widget.spec.value a max_length",
        ),
        (
            Annotated[
                list[User],
                Field(max_length=25),
                *(cel(f"self.all(x, x.name != self[{index}].name)", "no") for index in range(20)),
            ],
            "Widget.spec.value",
            r"all rules together may cost more than the limit; give Widget.spec.value\[\].name a max_length",
        ),
    ],
)
def test_cel_rule_error_names_the_missing_bounds_when_the_cost_is_too_high(
    annotation: Any, field: str, reason: str
):
    with pytest.raises(ModelError, match=reason) as caught:
        custom_resource_definitions([kind_with(annotation)])
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def test_cel_rule_is_accepted_when_its_values_are_bounded():
    class Short(ApiModel):
        name: Annotated[str, Field(max_length=63)] = ""

    custom_resource_definitions([kind_with(Annotated[list[Short], Field(max_length=50), Distinct])])


class Short(ApiModel):
    name: Annotated[str, Field(max_length=1)] = "long"


class Nested(ApiModel):
    pairs: list[Short] = Field(default_factory=list)


class TooNested(ApiModel):
    last_seen: dict[str, list[datetime | int]] = Field(default_factory=dict)


@pytest.mark.parametrize(("model", "field"), [(Nested, "pairs[].name"), (TooNested, "lastSeen{}[]")])
def test_model_error_names_a_nested_field_by_its_path_of_json_names(model: type[ApiModel], field: str):
    with pytest.raises(ModelError) as caught:
        custom_resource_definitions([kind_with(list[model])])
    assert caught.value.field == f"Widget.spec.value[].{field}"


def value_column(**changes: Any) -> dict[str, Any]:
    """Return CRD options with one printer column, of the field `value` unless `changes` say otherwise."""
    words = {"name": "Value", "type": "string", "json_path": ".spec.value", **changes}
    return {"columns": (Column(**words),)}


NO_FIELD = "there is no such field, but selectable_fields of @crd() names"
NO_DOT = "and a path begins with a dot"
OF_SERVER = "the API server refuses "


@pytest.mark.parametrize(
    ("options", "reason", "detail"),
    [
        ({"short_names": ("AB",)}, OF_SERVER, "spec.names.shortNames[0]: Invalid value"),
        (value_column(format="uuid"), OF_SERVER, "must be one of byte,date"),
        (value_column(priority=2**40), OF_SERVER, "cannot unmarshal number"),
        ({"scale": Scale(".spec.value", ".spec.value")}, OF_SERVER, "should be a json path under .status"),
        ({"singular": "A widget"}, OF_SERVER, "singular of @crd(), spec.names.singular: Invalid value"),
        ({"labels": {"a": "b c"}}, OF_SERVER, 'labels of @crd(), metadata.labels: Invalid value: "b c"'),
        ({"annotations": {"a b": "c"}}, OF_SERVER, "annotations of @crd(), metadata.annotations: Invalid"),
        ({"selectable_fields": (".spec",)}, OF_SERVER, "selectable_fields of @crd(), spec.selectableFields"),
        ({"short_names": "wd"}, "short_names of @crd() has to be a tuple of texts, not 'wd'", ""),
        ({"annotations": {"a": 1}}, "annotations of @crd() has to map texts to texts, not be {'a': 1}", ""),
        ({"singular": ""}, "singular of @crd() is empty", ""),
        ({"scale": ".spec.value"}, "scale of @crd() has to be a Scale, not '.spec.value'", ""),
        ({"columns": (".a",)}, "columns of @crd() has to be a tuple of Column, not ('.a',)", ""),
        ({"selectable_fields": ("spec.value",)}, "selectable_fields of @crd() names", NO_DOT),
        ({"selectable_fields": ("",)}, "selectable_fields of @crd() names the path ''", NO_DOT),
        (value_column(json_path=""), "column Value names the path ''", NO_DOT),
        ({"selectable_fields": (".spec.valu",)}, NO_FIELD, ""),
        ({"selectable_fields": (".metadata2",)}, NO_FIELD, ""),
        (value_column(json_path=".spec.colour"), "Widget.spec.colour: ", "column Value"),
        ({"scale": Scale(".spec.value", ".status.replicas")}, "Widget.status.replicas: ", "scale"),
        ({"scale": Scale(".spec.value", ".status.conditions", "spec.b")}, "the path 'spec.b'", NO_DOT),
    ],
)
def test_crd_option_error_names_the_kind_and_describes_the_invalid_option(
    options: dict[str, Any], reason: str, detail: str
):
    with pytest.raises(ModelError, match=f"{re.escape(reason)}.*{re.escape(detail)}") as caught:
        custom_resource_definitions([crd(status=False, **options)(kind_with(str))])
    assert caught.value.field.startswith("Widget")


@pytest.mark.parametrize("group", ["nodots", "mine.k8s.io"])
def test_api_group_is_refused_when_it_has_no_dot_or_is_reserved(group: str):
    class Grouped(Resource, group=group, version="v1", plural="widgets"):
        spec: Limits

    with pytest.raises(ModelError, match=r"^Grouped: the API server refuses"):
        custom_resource_definitions([crd()(Grouped)])


def test_field_schema_refuses_a_default_that_json_cannot_express():
    with pytest.raises(ModelError, match=r"Widget: .*not JSON serializable"):
        field_schema(Annotated[str, Field()], object())


def test_list_map_raises_value_error_without_a_key():
    with pytest.raises(ValueError, match="at least one key"):
        list_map()
