"""Edits of a project's Python files, and the operators that `create api` generates."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from manager.api import ObjectMeta
from manager_tools.scaffold import Names
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting
from manager_tools.scaffold.writing import (
    CHILD_KINDS,
    operator_text,
    plural_of,
    with_import,
    with_members,
    with_operator,
)
from manager_tools.testing import operated

DOC = '    """It."""'
BOTH = "(\n    GreetingOperator,\n    CompanyOperator,\n)\n"


@pytest.mark.parametrize(
    ("there", "then"),
    [
        ("OPERATORS = (GreetingOperator,)", f"OPERATORS = {BOTH}"),
        ("OPERATORS = (\n    GreetingOperator,\n)", f"OPERATORS = {BOTH}"),
        ("OPERATORS: tuple[object, ...] = ()", "OPERATORS: tuple[object, ...] = (\n    CompanyOperator,\n)"),
    ],
)
def test_new_operator_is_added_to_an_operators_tuple_of_any_layout(project: Path, there: str, then: str):
    main_module = (project / "controllers" / "main.py").read_text()
    assert "OPERATORS = (GreetingOperator,)\n" in main_module
    names = Names(program="shop", domain="acme.test", group="store", version="v1", kind="Company")
    written = with_operator(main_module.replace("OPERATORS = (GreetingOperator,)", there), names)
    assert then in written
    assert "from controllers.store.company import CompanyOperator\n" in written


@pytest.mark.parametrize(
    ("there", "then"),
    [
        (":\n    pass", "    versions = (V2,)\n\n    pass"),
        (f":\n{DOC}", f"{DOC}\n\n    versions = (V2,)"),
        (f":\n{DOC}\n\n    owns = ()", f"{DOC}\n\n    versions = (V2,)\n    owns = ()"),
        (
            f":\n{DOC}\n\n    # Mine.\n    owns = ()",
            f"{DOC}\n\n    versions = (V2,)\n\n    # Mine.\n    owns = ()",
        ),
        (f":\n{DOC}\n    def f(self): ...", f"{DOC}\n\n    versions = (V2,)\n\n    def f(self): ..."),
        (":\n    versions = ()", "    versions = (V2,)"),
        (":\n    versions = (\n        V1,\n    )", "    versions = (V1, V2)"),
        (":\n    versions = V1,  # Old.", "    versions = (V1, V2)  # Old."),
        (
            ":\n    versions: ClassVar[tuple[Any, ...]] = (V1,)",
            "    versions: ClassVar[tuple[Any, ...]] = (V1, V2)",
        ),
    ],
)
def test_versions_and_methods_are_inserted_into_a_class_of_any_layout(there: str, then: str):
    text = f"class It(Operator[Greeting]){there}\n\n\nX = 1\n"
    changed = with_members(text, "It", "    def g(self): ...\n", "V2")
    assert changed == f"class It(Operator[Greeting]):\n{then}\n\n    def g(self): ...\n\n\nX = 1\n"


@pytest.mark.parametrize(
    ("there", "then"),
    [
        ("import os\n\nX = 1\n", "import os\nfrom manager import webhook\n\nX = 1\n"),
        ("from manager import webhook, z\n", "from manager import webhook, z\n"),
        ("from manager import z, B as C\n", "from manager import B as C, webhook, z\n"),
        ("from manager import a  # noqa\n", "from manager import a  # noqa\nfrom manager import webhook\n"),
    ],
)
def test_import_is_added_only_when_it_is_missing(there: str, then: str):
    assert with_import(there, "manager", "webhook") == then


NAMESPACED = [kind for kind in CHILD_KINDS if kind != "Namespace"]


@pytest.fixture(params=[*([kind] for kind in NAMESPACED), NAMESPACED], ids=lambda kinds: kinds[-1])
def operator_module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module of a generated operator that owns the kinds of the parameter."""
    module = ModuleType("operator_with_children")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(operator_text(request.param), vars(module))
    assert [owned.gvk.kind for owned in module.GreetingOperator.owns] == request.param
    return module


async def test_generated_operator_creates_children_of_any_kind_and_reports_ready(operator_module: ModuleType):
    async with operated(operator_module.GreetingOperator) as world:
        greeting = await world.create(Greeting(metadata=ObjectMeta(name="sample")))
        await world.until(greeting, lambda it: [each.status for each in it.status.conditions] == ["True"])
        for owned in operator_module.GreetingOperator.owns:
            child = await world.get(owned, "sample")
            assert [each.uid for each in child.metadata.owner_references] == [greeting.metadata.uid]


def test_template_renaming_replaces_no_text_that_an_earlier_replacement_inserted():
    names = Names(program="hello", domain="greeting.v1", group="greeting", version="v2", kind="Hello")
    text = "hello greeter hello.example.com/v1 Greeting GreetingSpec greetings test_greeting apps_v1"
    assert names.in_place(text) == (
        "greeting hello greeting.greeting.v1/v2 Hello HelloSpec greetings test_hello apps_v1"
    )


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        *(("Greeting", "greetings"), ("Company", "companies"), ("Key", "keys"), ("Y", "ys")),
        *(("Box", "boxes"), ("Ingress", "ingresses"), ("Patch", "patches")),
    ],
)
def test_plural_of_a_kind_follows_english_spelling_rules(kind: str, plural: str):
    assert plural_of(kind) == plural
