"""What the real server made of rules, and what ours makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.schema.cel import CelError, CompileError, compile_expression
from devcluster.schema.cel.types import BOOL, DYN
from devcluster.schema.declarations import compile_conversion, declare, escape
from devcluster.schema.rules import compile_rules
from devcluster.schema.structural import parse
from tests.recordings import custom, load_answers

RULES = custom.rules()
SCHEMA = parse({"type": "object", "properties": RULES["properties"]})
NO_OVERLOAD = "call arguments did not match a supported operator, function or macro signature for rule:"


def answer(rule: str) -> bool | dict[str, Any]:
    kind, convert = declare(SCHEMA), compile_conversion(SCHEMA)
    assert kind is not None
    assert convert is not None
    value = convert(RULES["self"])
    try:
        program = compile_expression(rule, {"self": kind, "oldSelf": kind})
    except CompileError as error:
        return {"compile": f"compilation failed: {error}"}
    if program.type != BOOL:
        return {"compile": "cel expression must evaluate to a bool"}
    try:
        held: bool = program.run({"self": value, "oldSelf": value})
        return held
    except CelError as error:
        text = str(error)
        if text.startswith("no such overload"):
            return {"error": f"'{text}': {NO_OVERLOAD}"}
        return {"error": f"{text} evaluating rule:"}


@pytest.mark.parametrize(
    ("rule", "recorded"), load_answers(custom.RULES).items(), ids=lambda each: str(each)[:70]
)
def test_a_rule_means_what_it_means_to_the_real_server(rule: str, recorded: bool | dict[str, Any]) -> None:
    assert answer(rule) == recorded


@pytest.mark.parametrize(
    ("text", "is_before"),
    [("0000-01-01", True), ("0000-12-31", True), ("0001-01-01", False), ("0000-12-31T23:59:59Z", True)],
)
def test_the_year_0_comes_before_the_year_1(text: str, is_before: bool) -> None:
    schema = parse({"type": "string", "format": "date-time" if "T" in text else "date"})
    convert, kind = compile_conversion(schema), declare(schema)
    assert convert is not None
    assert kind is not None
    program = compile_expression("self < timestamp('0001-01-01T00:00:00Z')", {"self": kind})
    assert program.run({"self": convert(text)}) is is_before


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain", "plain"),
        ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("$x", None),
        ("1x", None),
    ],
)
def test_names_of_properties_are_escaped(name: str, escaped: str | None) -> None:
    assert escape(name) == escaped


def test_a_deep_expression_is_refused_and_not_overflown() -> None:
    with pytest.raises(CompileError, match="recursion limit"):
        compile_expression("(" * 5000 + "1" + ")" * 5000, {})
    with pytest.raises(CompileError):
        compile_expression("[" * 5000, {})


def test_a_rule_that_goes_round_for_ever_is_stopped() -> None:
    around = "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, c >= 0)))"
    schema = parse({"type": "object", "x-kubernetes-validations": [{"rule": around}]})
    rules = compile_rules(schema)
    assert rules is not None
    (error,) = rules.validate({}).errors
    assert "operation cancelled: actual cost limit exceeded" in str(error)


def test_the_variables_that_are_used_are_told() -> None:
    program = compile_expression(
        "self.all(oldSelf, oldSelf > 0) && has(request.user)", {"self": DYN, "request": DYN}
    )
    assert program.uses == {"self", "request"}
