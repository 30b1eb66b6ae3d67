"""CEL rules that no recording of a real server contains."""

from __future__ import annotations

import pytest

from devcluster.schema.cel import CelError, CompileError, compile_expression
from devcluster.schema.cel.types import DYN
from devcluster.schema.declarations import compile_conversion, declare
from devcluster.schema.node import parse
from devcluster.schema.rules import compile_rules


@pytest.mark.parametrize(
    ("text", "is_before"),
    [("0000-01-01", True), ("0000-12-31", True), ("0001-01-01", False), ("0000-12-31T23:59:59Z", True)],
)
def test_cel_timestamp_of_year_0_is_before_year_1(text: str, is_before: bool):
    schema = parse({"type": "string", "format": "date-time" if "T" in text else "date"})
    convert, kind = compile_conversion(schema), declare(schema)
    assert convert is not None
    assert kind is not None
    program = compile_expression("self < timestamp('0001-01-01T00:00:00Z')", {"self": kind})
    assert program.run({"self": convert(text)}) is is_before


def test_deeply_nested_cel_expression_is_refused_without_stack_overflow():
    with pytest.raises(CompileError, match="recursion limit"):
        compile_expression("(" * 5000 + "1" + ")" * 5000, {})
    with pytest.raises(CompileError):
        compile_expression("[" * 5000, {})


@pytest.mark.parametrize("null", ["null", "self.nothing"])
@pytest.mark.parametrize(
    "expression",
    ["{}.isGreaterThan(quantity('1'))", "quantity('1').add({})", "{}.getHost()"],
)
def test_cel_method_on_null_raises_no_such_overload(expression: str, null: str):
    program = compile_expression(expression.format(null), {"self": DYN})
    with pytest.raises(CelError, match=r"^no such overload"):
        program.run({"self": {"nothing": None}})


@pytest.mark.parametrize(
    ("text", "pattern", "found"),
    [("éx", "y*", "['', '', '']"), ("yéy", "y*", "['y', 'y']"), ("-é-a", "[-a]?", "['-', '-', 'a']")],
)
def test_cel_find_all_returns_the_same_empty_matches_as_go(text: str, pattern: str, found: str):
    assert compile_expression(f"'{text}'.findAll('{pattern}') == {found}", {}).run({}) is True


@pytest.mark.parametrize(
    "expression",
    [r"'\ud800' == '\ufffd'", r"!'\ud800'.matches('a')", r"'\ud800'.matches('^.$')", r"size(b'\udc80') == 3"],
)
def test_cel_literal_contains_the_replacement_character_for_an_escaped_surrogate(expression: str):
    assert compile_expression(expression, {}).run({}) is True


def test_cel_rule_is_stopped_when_it_exceeds_its_cost_limit():
    around = "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, c >= 0)))"
    schema = parse({"type": "object", "x-kubernetes-validations": [{"rule": around}]})
    rules = compile_rules(schema)
    assert rules is not None
    (error,) = rules.validate({}).errors
    assert "operation cancelled: actual cost limit exceeded" in str(error)
