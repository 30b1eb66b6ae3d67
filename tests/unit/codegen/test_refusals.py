from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, SecretStr

from manager.api import ApiModel, Condition, atomic_list, atomic_map, list_map, list_set
from manager.codegen import ModelError
from manager.codegen.structural import structural_schema
from tests.support.widget import Limits, Port
from tests.unit.codegen.made_models import field_schema, kind_with


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
        (bool | str, "Widget.spec.value", r"no union of several types \(boolean, string\)"),
        (list[Limits | str], r"Widget.spec.value\[\]", "no union"),
        (Annotated[Cat | Dog, Field(discriminator="type")], "Widget.spec.value", "no union"),
        (str | None, "Widget.spec.value", "give it the default None"),
        (Any, "Widget.spec.value", r"preserve_unknown\(\)"),
        (list[Any], r"Widget.spec.value\[\]", r"preserve_unknown\(\)"),
        (dict[str, Any], "Widget.spec.value", r"preserve_unknown\(\)"),
        (dict[str, dict[str, Any]], r"Widget.spec.value\{\}", r"preserve_unknown\(\)"),
        (dict[Literal["a"], str], "Widget.spec.value", "keys of a map"),
        (dict[Annotated[str, Field(pattern="^a")], str], "Widget.spec.value", "keys of a map"),
        (tuple[int, str], "Widget.spec.value", "tuple"),
        (set[str], "Widget.spec.value", r"list_set\(\)"),
        (timedelta, "Widget.spec.value", "no format 'duration'.*use str with a pattern"),
        (time, "Widget.spec.value", "no format 'time'"),
        (bytes, "Widget.spec.value", "no format 'binary'"),
        (Decimal, "Widget.spec.value", "no union"),
        (SecretStr, "Widget.spec.value", "asterisks"),
        (Callable[[], None], "Widget.spec.value", "has no JSON schema"),
        (Literal["a", 1], "Widget.spec.value", "all be of one type"),
        (Annotated[str, Field(json_schema_extra={"not": {}})], "Widget.spec.value", "has no 'not'"),
        (
            Annotated[str, Field(json_schema_extra={"format": "phone"})],
            "Widget.spec.value",
            "no format 'phone'",
        ),
        (Annotated[str, list_set()], "Widget.spec.value", "for lists"),
        (Annotated[list[str], atomic_map()], "Widget.spec.value", "for maps"),
        (Annotated[dict[str, str], atomic_list()], "Widget.spec.value", "for lists"),
        (Annotated[list[Limits], list_set()], "Widget.spec.value", "must be scalars"),
        (
            Annotated[list[Port], list_map("title")],
            "Widget.spec.value",
            "'title', which its items do not have",
        ),
        (Annotated[list[str], list_map("name")], "Widget.spec.value", "'name', which its items do not have"),
        (Annotated[list[Unkeyed], list_map("name")], "Widget.spec.value", "required or have a default"),
        (Annotated[list[Unkeyed], list_map("inner")], "Widget.spec.value", "must be a scalar"),
    ],
)
def test_what_a_structural_schema_cannot_say_is_refused_by_field(annotation: Any, field: str, reason: str):
    with pytest.raises(ModelError, match=f"^{field}: .*{reason}"):
        field_schema(annotation)


@pytest.mark.parametrize("pattern", ["(?=a)", "(?!a)", "(?<=a)", "(?<!a)", r"(a)\1"])
def test_a_pattern_that_the_servers_regular_expressions_lack_is_refused(pattern: str):
    with pytest.raises(ModelError, match="regular expressions"):
        field_schema(Annotated[str, Field(json_schema_extra={"pattern": pattern})])


def test_a_model_that_contains_itself_is_refused():
    with pytest.raises(ModelError, match="Tree contains itself"):
        structural_schema(kind_with(Tree))


def test_a_default_without_a_json_form_is_refused():
    with pytest.raises(ModelError, match=r"Widget: .*not JSON serializable"):
        field_schema(Annotated[str, Field()], object())


def test_the_error_names_fields_deep_inside_as_they_are_on_the_wire():
    class Inner(ApiModel):
        good_conditions: list[Condition] = Field(default_factory=list)
        last_seen: dict[str, list[datetime | int]] = Field(default_factory=dict)

    with pytest.raises(ModelError) as caught:
        field_schema(list[Inner])
    assert caught.value.field == "Widget.spec.value[].lastSeen{}[]"


def test_a_list_map_needs_a_key():
    with pytest.raises(ValueError, match="at least one key"):
        list_map()
