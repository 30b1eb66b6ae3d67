"""Label and field selectors, from query parameters and from objects."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from devcluster.names import label_key, label_value
from devcluster.quantity import parse_integer, quoted

_INT64 = range(-(2**63), 2**63)
_BINARY = ("in", "notin", "=", "==", "!=", "gt", "lt")
_SYMBOLS = {"=": "=", "==": "=", "!=": "!=", ">": "gt", "<": "lt", "in": "in", "notin": "notin"}
# A run of special characters is one token only when it is one of these; blanks separate tokens.
_TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^ \t\r\n=!(),<>]+)|$)")
_IDENTIFIER = "identifier"
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_NODE_OPERATORS = {**_OPERATORS, "Gt": "gt", "Lt": "lt"}


class SelectorError(ValueError):
    """Error for an invalid selector; the message is the API server's."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Requirement:
    key: str
    operator: str
    """`in`, `notin`, `exists`, `!`, `gt`, `lt`; equality is `in`, inequality `notin`."""
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                actual = None if value is None else _integer(value)
                bound = _integer(next(iter(self.values), ""))
                if actual is None or bound is None:
                    return False
                return actual > bound if self.operator == "gt" else actual < bound


class LabelSelector:
    """Requirements for labels; a selector without requirements matches all objects."""

    __slots__ = ("_matches_nothing", "requirements")

    def __init__(self, requirements: Sequence[_Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements = tuple(requirements)
        self._matches_nothing = nothing

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """Parse the selector of a query: `app=x,tier in (a,b),!old`; raise SelectorError if invalid."""
        return cls(_Parser(text).parse())

    @classmethod
    def of(cls, selector: Mapping[str, Any] | None) -> LabelSelector:
        """Convert a metav1.LabelSelector ({}: all, None: no objects); raises the errors of `of_node_term`."""
        if selector is None:
            return cls(nothing=True)
        equal = cls.equal_to(selector.get("matchLabels") or {})
        others = (_read(each, _OPERATORS) for each in selector.get("matchExpressions") or ())
        return cls([*equal.requirements, *others])

    @classmethod
    def of_node_term(cls, expressions: Sequence[Mapping[str, Any]] | None) -> LabelSelector:
        """Convert the matchExpressions of a node selector term, which may also use Gt and Lt.

        Raises:
            SelectorError: an operator is unknown, or In or NotIn has no values.
        """
        return cls([_read(each, _NODE_OPERATORS) for each in expressions or ()])

    @classmethod
    def equal_to(cls, labels: Mapping[str, str]) -> LabelSelector:
        """Return the selector that requires each of these labels, as in a Service."""
        return cls([_Requirement(key, "in", frozenset([value])) for key, value in labels.items()])

    @property
    def empty(self) -> bool:
        """Whether the selector matches all objects."""
        return not self.requirements and not self._matches_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self._matches_nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)


class FieldSelector:
    """Requirements for fields, with the operators `=` and `!=`."""

    __slots__ = ("requirements",)

    def __init__(self, requirements: Sequence[tuple[str, str, bool]] = ()) -> None:
        """Set up the selector; a requirement is (field, value, whether they must be equal)."""
        self.requirements = tuple(requirements)

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        """Parse the selector of a query, such as `status.phase!=Running`; raise SelectorError if invalid."""
        return cls([_field_requirement(part, text) for part in _split(text) if part])

    @property
    def fields(self) -> list[str]:
        """Names of the fields in the selector, in its order."""
        return [field for field, _, _ in self.requirements]

    @property
    def empty(self) -> bool:
        """Whether the selector matches all objects."""
        return not self.requirements

    def value_of(self, field: str) -> str | None:
        """Return the value that the selector requires for `field`, or None if it requires none."""
        for name, value, equal in self.requirements:
            if name == field and equal:
                return value
        return None

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether the selector matches these fields; a missing field counts as ""."""
        return all((fields.get(field, "") == value) is equal for field, value, equal in self.requirements)


class _Parser:
    """Recursive descent parser for the tokens of a label selector."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._place = 0

    def parse(self) -> list[_Requirement]:
        requirements: list[_Requirement] = []
        while True:
            kind, text = self._peek()
            if kind == "":
                return requirements
            if kind not in {_IDENTIFIER, "!"}:
                raise SelectorError(f"found '{text}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            kind, text = self._next()
            if kind == "":
                return requirements
            if kind != ",":
                raise SelectorError(f"found '{text}', expected: ',' or 'end of string'")
            kind, text = self._peek()
            if kind not in {_IDENTIFIER, "!"}:
                raise SelectorError(f"found '{text}', expected: identifier after ','")

    def _requirement(self) -> _Requirement:
        kind, text = self._next()
        absent = kind == "!"
        if absent:
            kind, text = self._next()
        if kind != _IDENTIFIER:
            raise SelectorError(f"found '{text}', expected: identifier")
        key = text
        _check("<nil>", key, label_key)
        if absent:
            return _Requirement(key, "!")
        if self._peek()[0] in {"", ","}:
            return _Requirement(key, "exists")
        _, text = self._next()
        operator = _SYMBOLS.get(text)
        if operator is None:
            raise SelectorError(f"found '{text}', expected: {', '.join(_BINARY)}")
        values = self._set() if operator in {"in", "notin"} else self._value()
        for index, value in enumerate(sorted(values)):
            if operator in {"gt", "lt"} and _integer(value) is None:
                wrong = "for 'Gt', 'Lt' operators, the value must be an integer"
                raise SelectorError(f"values[{index}]: Invalid value: {quoted(value)}: {wrong}")
            _check(f"values[{index}][{key}]", value, label_value)
        return _Requirement(key, {"=": "in", "!=": "notin"}.get(operator, operator), frozenset(values))

    def _value(self) -> set[str]:
        if self._peek()[0] in {"", ","}:
            return {""}
        kind, text = self._next()
        if kind != _IDENTIFIER:
            raise SelectorError(f"found '{text}', expected: identifier")
        return {text}

    def _set(self) -> set[str]:
        kind, text = self._next()
        if kind != "(":
            raise SelectorError(f"found '{text}' expected: '('")
        kind, text = self._peek()
        if kind not in {_IDENTIFIER, ",", ")"}:
            raise SelectorError(f"found '{text}', expected: ',', ')' or identifier")
        values: set[str] = set()
        last = ","
        while True:
            kind, text = self._next()
            if kind == ")":
                return values | {""} if last == "," else values
            if last == _IDENTIFIER and kind != ",":
                raise SelectorError(f"found '{text}', expected: ',' or ')'")
            if kind == _IDENTIFIER:
                values.add(text)
            elif kind != ",":
                raise SelectorError(f"found '{text}', expected: ',', or identifier")
            elif last == ",":
                values.add("")
            last = kind

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._place]

    def _next(self) -> tuple[str, str]:
        token = self._tokens[self._place]
        # The end of the text is a token that is never consumed.
        self._place = min(self._place + 1, len(self._tokens) - 1)
        return token


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens = []
    place = 0
    while (found := _TOKEN.match(text, place)) is not None and found.end() > place:
        symbol, word = found.groups()
        if symbol is not None:
            tokens.append((symbol, symbol))
        elif word is not None:
            tokens.append((_IDENTIFIER, word))
        place = found.end()
    tokens.append(("", ""))
    return tokens


def _read(expression: Mapping[str, Any], operators: Mapping[str, str]) -> _Requirement:
    """Convert a requirement from an object's selector."""
    operator = operators.get(expression.get("operator", ""))
    if operator is None:
        raise SelectorError(f'"{expression.get("operator")}" is not a valid label selector operator')
    values = frozenset(expression.get("values") or ())
    if operator in {"in", "notin"} and not values:
        raise SelectorError("for 'in', 'notin' operators, values set can't be empty")
    return _Requirement(expression.get("key", ""), operator, values)


def _check(path: str, value: str, problems: Callable[[str], list[str]]) -> None:
    if found := problems(value):
        raise SelectorError(f"{path}: Invalid value: {quoted(value)}: {'; '.join(found)}")


def _integer(text: str) -> int | None:
    number = parse_integer(text)
    return number if number is not None and number in _INT64 else None


def _split(text: str) -> list[str]:
    """Split a text at its commas, but not at a comma after a backslash."""
    return re.findall(r"((?:\\.|[^,\\])*\\?)(?:,|\Z)", text, re.DOTALL)


def _field_requirement(part: str, whole: str) -> tuple[str, str, bool]:
    found = re.search(r"!=|==|=", part)
    if found is None:
        raise SelectorError(f"invalid selector: '{whole}'; can't understand '{part}'")
    return part[: found.start()], _unescaped(part[found.end() :]), found.group() != "!="


def _unescaped(value: str) -> str:
    shown, place = [], 0
    while place < len(value):
        character = value[place]
        if character == "\\":
            following = value[place + 1 : place + 2]
            if following not in {"\\", ",", "="} or not following:
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{following}")
            character = following
            place += 1
        elif character in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(character)}")
        shown.append(character)
        place += 1
    return "".join(shown)
