from __future__ import annotations

from typing import ClassVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, create_model

from manager.api import ApiModel
from manager_tools.codegen import custom_resource_definitions
from manager_tools.codegen.model_schema import attribute_docs, model_schema, paragraphs
from tests.unit.manager_tools.codegen.made_models import kind_with


class Documented(BaseModel):
    """Docstring of the class, which describes no attribute."""

    limit: ClassVar[int] = 3
    """Docstring of a class variable, which is no field."""

    size: int = 0
    """How many
    there are."""

    bare: int = 0

    class Inner:
        deep: int
        """Docstring of an attribute of another class."""

    last: int = 0
    """At the end."""


class Narrowed(Documented):
    size: int = Field(default=1, ge=1)
    """At least one."""


class Silent(Documented):
    size: int = 2


def test_attribute_docs_returns_the_docstring_below_each_attribute():
    class Local(BaseModel):
        size: int = 0
        """Docstring in a local class."""

    docs = attribute_docs(Documented)
    assert docs["size"] == "How many\nthere are."
    assert docs["last"] == "At the end."
    assert not {"bare", "deep", "Inner"} & docs.keys()
    assert attribute_docs(Local) == {"size": "Docstring in a local class."}
    assert attribute_docs(create_model("WithoutSource", size=(int, 0))) == {}


def test_attribute_docs_are_inherited_and_can_be_overridden():
    assert attribute_docs(Narrowed)["size"] == "At least one."
    assert attribute_docs(Narrowed)["last"] == "At the end."
    assert attribute_docs(Silent)["size"] == "How many\nthere are."


def test_model_schema_uses_json_names_and_prefers_field_descriptions_to_docstrings():
    class OnWire(ApiModel):
        ready_replicas: int = 0
        """How many are ready."""
        explicit: int = Field(default=0, description="Said in the field.")
        """Said below it."""

    class Aliased(BaseModel):
        model_config = ConfigDict(validate_by_name=True)

        size: int = Field(default=0, alias="count")
        """How many."""

    properties = model_schema(OnWire)["properties"] | model_schema(Aliased)["properties"]
    assert {name: each["description"] for name, each in properties.items()} == {
        "readyReplicas": "How many are ready.",
        "explicit": "Said in the field.",
        "count": "How many.",
    }


LISTED = "Either:\n- one\n- two\n  indented\n1. first\n* starred"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("One sentence\n    over two lines.\n    ", "One sentence over two lines."),
        ("A\nb.\n\nC\nd.", "A b.\n\nC d."),
        (LISTED, LISTED),
        ("- one\n\nand\nmore", "- one\n\nand more"),
    ],
    ids=["a paragraph", "paragraphs", "lists and indented lines", "a text after a list"],
)
def test_crd_description_joins_lines_of_a_paragraph_and_keeps_line_breaks_of_lists(text: str, shown: str):
    assert paragraphs(text) == shown


class Described(ApiModel):
    """A model. It has two sentences."""

    description: str
    """A field of this name, described without an end"""
    inner: list[dict[str, str]] = Field(default_factory=list)
    """Lists."""


@pytest.mark.parametrize(
    ("limit", "whole", "field"),
    [
        (None, "A model. It has two sentences.", "A field of this name, described without an end"),
        (29, "A model.", "A field of this name,"),
        (4, "A", "A"),
        (0, None, None),
    ],
)
def test_crd_description_above_the_limit_is_cut_after_a_sentence_or_a_word(
    limit: int | None, whole: str | None, field: str | None
):
    [made] = custom_resource_definitions([kind_with(Described)], max_description=limit)
    [version] = made["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    value = spec["properties"]["value"]
    assert value.get("description") == whole
    assert value["properties"]["description"].get("description") == field
    assert value["properties"]["description"]["type"] == "string"
