"""Validation rules of a schema (`x-kubernetes-validations`), compiled once and run on each write."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from devcluster.errors import (
    FieldError,
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_required,
)
from devcluster.schema.cel import CelError, CompileError, InstantiationError, Program, compile_expression
from devcluster.schema.cel.macros import BUDGET
from devcluster.schema.cel.types import BOOL, STRING, Type, optional_of
from devcluster.schema.cel.values import NONE, Optional
from devcluster.schema.correlation import MISSING, find_item, same
from devcluster.schema.declarations import Convert, compile_conversion, declare
from devcluster.schema.node import Schema, parse
from devcluster.schema.problems import FieldPathError, resolve_field_path

_UNSET_FIELD = "<nil>"
_TURNS = 300_000
"""The maximum number of loop iterations of a node's rules for one value; they take a fraction of a second."""
_MESSAGE_LIMIT = 5 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """Compiled validation rule."""

    program: Program
    optional_old: bool
    message: str
    """The name of the rule in errors of its evaluation: its message, or else its text."""
    failed: str
    """The error's message for a rule that evaluates to false."""
    message_program: Program | None
    reason: str
    field: str
    """The path of the field that the error names, relative to the value."""

    @property
    def transition(self) -> bool:
        """Whether the rule uses `oldSelf`; without `optional_old`, it then only applies to updates."""
        return "oldSelf" in self.program.uses


def compile_rule(source: Mapping[str, Any], kind: Type, schema: Schema, *, estimate: bool = False) -> Rule:
    """Compile a validation rule; with `estimate`, also estimate its maximum cost.

    Raises:
        CompileError, WrongResult, MessageError: the rule is invalid; the message is the server's.
    """
    optional = bool(source.get("optionalOldSelf"))
    variables = {"self": kind, "oldSelf": optional_of(kind) if optional else kind}
    text = source["rule"]
    bounds = kind if estimate else None
    program = compile_expression(text, variables, estimate=bounds)
    if program.type != BOOL:
        raise WrongResult("cel expression must evaluate to a bool")
    message = (source.get("message") or "").strip()
    expression = source.get("messageExpression")
    message_program = compile_message(expression, variables, bounds) if expression else None
    field = ""
    if source.get("fieldPath"):
        try:
            field, _ = resolve_field_path(source["fieldPath"], schema)
        except FieldPathError:
            field = ""
    return Rule(
        program,
        optional,
        message or text.strip(),
        message or f"failed rule: {text.strip()}",
        message_program,
        source.get("reason") or "",
        field,
    )


def compile_message(expression: str, variables: Mapping[str, Type], bounds: Type | None) -> Program:
    """Compile a messageExpression; raise MessageError if it is invalid."""
    try:
        program = compile_expression(expression, variables, estimate=bounds)
    except InstantiationError as error:
        raise MessageError(f"messageExpression instantiation failed: {error}") from error
    except CompileError as error:
        raise MessageError(f"messageExpression compilation failed: {error}") from error
    if program.type != STRING:
        raise MessageError("messageExpression must evaluate to a string")
    return program


class WrongResult(Exception):
    """Error for a validation rule whose result is not boolean."""


class MessageError(Exception):
    """Error for a messageExpression that does not compile, or whose result is not a string."""


@dataclasses.dataclass(slots=True)
class Findings:
    """Errors that rules have found; `forgiven` has errors in values that the update does not change."""

    errors: list[FieldError] = dataclasses.field(default_factory=list)
    forgiven: list[FieldError] = dataclasses.field(default_factory=list)


class Rules:
    """Validation rules of a node and of all nodes below it."""

    def __init__(
        self,
        schema: Schema,
        kind: Type,
        rules: list[Rule],
        *,
        root: bool,
    ) -> None:
        self.schema = schema
        self.rules = rules
        self.properties: dict[str, Rules] = {}
        self.items: Rules | None = None
        self.additional: Rules | None = None
        self.all_of: list[Rules] = []
        self.kind = kind
        self._root = root
        self._convert: Convert | None = compile_conversion(schema) if rules else None

    def validate(self, value: Any, old: Any = None) -> Findings:
        """Run all rules on a value, and return their errors; `old` is the value before an update, or None."""
        findings = Findings()
        self._validate(value, old, "", findings, old is not None and same(value, old))
        return findings

    def _validate(self, value: Any, old: Any, path: str, findings: Findings, forgive: bool) -> None:
        if value is None:
            return
        if self.rules:
            self._apply(value, old, path, findings, forgive)
        for each in self.all_of:
            each._validate(value, old, path, findings, forgive)  # noqa: SLF001 -- of this very class
        if type(value) is list:
            if self.items is not None:
                keys = self.schema.list_map_keys if self.schema.list_type == "map" else None
                for index, item in enumerate(value):
                    before = MISSING if keys is None else find_item(old, item, keys)
                    self._descend(self.items, item, before, f"{path}[{index}]", findings, forgive)
        elif type(value) is dict:
            self._members(value, old, path, findings, forgive)

    def _members(self, value: Any, old: Any, path: str, findings: Findings, forgive: bool) -> None:
        known = old if type(old) is dict else {}
        if self.additional is not None:
            for name, each in value.items():
                self._descend(
                    self.additional, each, known.get(name, MISSING), f"{path}[{name}]", findings, forgive
                )
        for name, rules in self.properties.items():
            if name in value:
                below = f"{path}.{name}" if path else name
                self._descend(rules, value[name], known.get(name, MISSING), below, findings, forgive)

    def _descend(
        self, rules: Rules, value: Any, old: Any, path: str, findings: Findings, forgive: bool
    ) -> None:
        if old is MISSING:
            rules._validate(value, None, path, findings, forgive)
        else:
            rules._validate(value, old, path, findings, forgive or same(value, old))

    def _apply(self, value: Any, old: Any, path: str, findings: Findings, forgive: bool) -> None:
        convert = self._convert
        env = {"self": value if convert is None else convert(value), BUDGET: [_TURNS]}
        before = old if old is None or convert is None else convert(old)
        kind = self.schema.type or ("object" if self._root else "")
        shown = path or _UNSET_FIELD
        for rule in self.rules:
            if rule.transition:
                if old is None and not rule.optional_old:
                    continue
                if rule.optional_old:
                    env["oldSelf"] = NONE if old is None else Optional(before)
                else:
                    env["oldSelf"] = before
            try:
                if rule.program.run(env) is True:
                    continue
            except CelError as error:
                findings.errors.append(field_invalid(shown, kind, _failure(str(error), rule)))
                continue
            broken = _broken(rule, value, kind, path, _message(rule, env))
            (findings.forgiven if forgive and not rule.transition else findings.errors).append(broken)


def _failure(text: str, rule: Rule) -> str:
    if text.startswith("no such overload"):
        why = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{text}': {why}: {rule.message}"
    if text.startswith("operation cancelled"):
        why = "no further validation rules will be run due to call cost exceeds limit for rule"
        return f"'{text}': {why}: {rule.message}"
    return f"{text} evaluating rule: {rule.message}"


def _message(rule: Rule, env: dict[str, Any]) -> str:
    if rule.message_program is None:
        return rule.failed
    try:
        text = rule.message_program.run(env)
    except CelError:
        return rule.failed
    if not isinstance(text, str):
        return rule.failed
    text = text.strip()
    usable = text and "\n" not in text and len(text.encode()) <= _MESSAGE_LIMIT
    return text if usable else rule.failed


def _broken(rule: Rule, value: Any, kind: str, path: str, text: str) -> FieldError:
    field = f"{path}.{rule.field}" if path and rule.field else path or rule.field or _UNSET_FIELD
    if rule.reason == "FieldValueForbidden":
        return field_forbidden(field, text)
    if rule.reason == "FieldValueRequired":
        return field_required(field, text)
    whole = kind in {"object", "array"}
    if rule.reason == "FieldValueDuplicate":
        return (
            FieldError("FieldValueDuplicate", field, "Duplicate value")
            if whole
            else field_duplicate(field, value)
        )
    if whole:
        return FieldError("FieldValueInvalid", field, f"Invalid value: {text}")
    return field_invalid(field, value, text)


def compile_rules(schema: Schema, *, root: bool = True) -> Rules | None:
    """Compile the rules of a valid schema and of its nested schemas; return None if they have no rules."""
    kind = declare(schema, root=root)
    return None if kind is None else _compile(schema, schema, kind, root=root)


def _compile(schema: Schema, node: Schema, kind: Type, *, root: bool) -> Rules | None:
    """Compile the rules in `schema` with the types of `node`; both are the same schema, except in `allOf`."""
    sources = schema.source.get("x-kubernetes-validations") or ()
    own = [compile_rule(each, kind, node) for each in sources if (each.get("rule") or "").strip()]
    found = Rules(node, kind, own, root=root)
    for name, each in schema.properties.items():
        inner = node.properties.get(name)
        below = declare(inner, root=inner.embedded) if inner is not None else None
        if (
            inner is not None
            and below is not None
            and (rules := _compile(each, inner, below, root=inner.embedded))
        ):
            found.properties[name] = rules
    if schema.items is not None and node.items is not None and kind.params:
        found.items = _compile(schema.items, node.items, kind.params[0], root=node.items.embedded)
    if schema.additional is not None and node.additional is not None and kind.name == "map":
        found.additional = _compile(
            schema.additional, node.additional, kind.params[1], root=node.additional.embedded
        )
    for each in schema.source.get("allOf") or ():
        if rules := _compile(parse(each), node, kind, root=root):
            found.all_of.append(rules)
    if not (own or found.properties or found.items or found.additional or found.all_of):
        return None
    return found
