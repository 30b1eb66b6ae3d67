"""What the real server said to definitions and custom objects, and what ours says."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest

from devcluster.crd.definition import DefinitionStrategy
from devcluster.crd.strategy import CustomStrategy
from devcluster.exchange import User
from devcluster.kinds.strategy import Context
from devcluster.schema.node import Schema
from devcluster.schema.pruning import prune
from devcluster.schema.structural import parse
from devcluster.storage.store import Store
from tests.recordings import custom, load_answers

DEFINITIONS, SCHEMAS = load_answers(custom.DEFINITIONS), custom.schemas()


@pytest.fixture
def context() -> Context:
    return Context(store=Store(), now="2026-01-01T00:00:00Z", user=User("admin"))


@cache
def compiled(name: str) -> tuple[Schema, CustomStrategy]:
    schema = parse(SCHEMAS[name])
    return schema, CustomStrategy(schema, status=False)


def by_text(causes: list[dict[str, str]]) -> list[dict[str, str]]:
    return sorted(causes, key=lambda cause: (cause["field"], cause["message"]))


@pytest.mark.parametrize(("name", "definition"), custom.definition_cases().items(), ids=DEFINITIONS)
def test_a_definition_is_judged_as_the_real_server_judges_it(
    name: str, definition: dict[str, Any], context: Context
) -> None:
    strategy, answer = DefinitionStrategy(), DEFINITIONS[name]
    strategy.prepare_create(definition, context)
    strategy.default(definition)
    found = [error.to_cause() for error in strategy.validate_create(definition, context)]
    assert by_text(found) == by_text(answer.get("causes", []))
    if not found:
        assert strategy.warnings(definition, None) == answer.get("warnings", [])


@pytest.mark.parametrize("case", custom.objects(), ids=lambda case: case["id"])
def test_an_object_is_judged_as_the_real_server_judges_it(case: dict[str, Any], context: Context) -> None:
    schema, strategy = compiled(case["schema"])

    def decoded(spec: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": case["name"]}
        obj = {"kind": "X", "apiVersion": "g/v1", "metadata": metadata, "spec": copy.deepcopy(spec)}
        prune(obj, schema)
        strategy.default(obj)
        return obj

    new = decoded(case["new"])
    if case["old"] is None:
        found = strategy.validate_create(new, context)
    else:
        old = decoded(case["old"])
        found = strategy.validate_update(new, old, context)
        assert strategy.warnings(new, old) == case["warnings"] or found
    assert by_text([error.to_cause() for error in found]) == by_text(case["causes"])
    if not found:
        assert new["spec"] == case["spec"]
