"""CEL rules that no recording of a real server contains."""

from __future__ import annotations

import pytest

from devcluster.schema.cel import CelError, CompileError, compile_expression
from devcluster.schema.cel.types import DYN, STRING
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


def test_cel_rule_is_stopped_when_it_exceeds_its_cost_limit():
    around = "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, c >= 0)))"
    schema = parse({"type": "object", "x-kubernetes-validations": [{"rule": around}]})
    (error,) = compile_rules(schema).validate({}).errors
    assert "operation cancelled: actual cost limit exceeded" in str(error)


def test_cel_conversion_keeps_an_undecodable_text_of_format_byte():
    convert = compile_conversion(parse({"type": "string", "format": "byte"}))
    assert convert is not None
    assert (convert("YQ=="), convert("é"), convert("a")) == (b"a", "é", "a")


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        (r"'\U00110000'", "invalid unicode code point"),
        (r"'\ud800'", "invalid unicode code point"),
        (r"b'\U00110000'", "unable to unescape string"),
        ("9" * 5000, "invalid int literal"),
        ("9" * 5000 + "u", "invalid uint literal"),
        ("-1e999", "invalid double literal"),
        ("\N{ARABIC-INDIC DIGIT THREE}", "token recognition error"),
        ("timestamp(253402300800)", "invalid timestamp argument"),
        ("timestamp('0001-01-01T00:00:00+01:00')", "invalid timestamp argument"),
        ("timestamp('2026-01-01T00:00:00+00:99')", "invalid timestamp argument"),
        ("timestamp('2026-01-01T00:00:00+25:00')", "invalid timestamp argument"),
        ("duration('9999999999h')", "invalid duration argument"),
        ("duration(5)", "invalid duration argument"),
        ("uint(double('NaN'))", "unsigned integer overflow"),
        ("uint(-0.5)", "unsigned integer overflow"),
        ("uint('+5')", "from 'string' to 'uint'"),
        ("uint('\N{ARABIC-INDIC DIGIT THREE}')", "from 'string' to 'uint'"),
        ("int('1_0')", "from 'string' to 'int'"),
        ("int(' 5 ')", "from 'string' to 'int'"),
        (f"int('{'9' * 5000}')", "from 'string' to 'int'"),
        ("double(' 5')", "from 'string' to 'double'"),
        ("double('1e999')", "from 'string' to 'double'"),
    ],
)
def test_compile_expression_refuses_a_constant_that_go_cannot_read(expression: str, problem: str):
    with pytest.raises(CompileError, match=problem):
        compile_expression(expression, {})


@pytest.mark.parametrize(
    "expression",
    [
        "int('+5') == 5",
        "double('1_0') == 10.0",
        "double('-Infinity') < 0.0",
        "timestamp('2026-01-01T00:00:00+24:60') < timestamp('2026-01-01T00:00:00Z')",
        "string(timestamp('0999-01-01T00:00:00Z')) == '0999-01-01T00:00:00Z'",
        "string(timestamp(-62135596800)) == '0001-01-01T00:00:00Z'",
    ],
)
def test_compile_expression_converts_a_constant_as_go_does(expression: str):
    assert compile_expression(expression, {}).run({}) is True


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("timestamp(self + '-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
        ("timestamp(self + '-12-31T23:59:59Z') - timestamp('0001-01-01T00:00:00Z')", "integer overflow"),
        ("timestamp(0).getHours(self.substring(2) + ':xx')", "no such overload"),
    ],
)
def test_program_raises_only_cel_errors(expression: str, problem: str):
    with pytest.raises(CelError, match=problem):
        compile_expression(expression, {"self": STRING}).run({"self": "9999"})
