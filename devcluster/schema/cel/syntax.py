"""Parser of CEL expressions."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from devcluster.quantity import parse_integer
from devcluster.schema.cel.types import CompileError
from devcluster.schema.cel.values import UInt

_TOKEN = re.compile(
    r"""(?P<space>[\t\n\f\r ]+|//[^\n]*)
    |(?P<string>[bB]?[rR]?(?:'{3}(?:\\.|[^\\])*?'{3}|"{3}(?:\\.|[^\\])*?"{3})|[rR]?[bB]?(?:'{3}(?:\\.|[^\\])*?'{3}|"{3}(?:\\.|[^\\])*?"{3})
        |(?:[rR][bB]?|[bB][rR])(?:'[^'\n]*'|"[^"\n]*")|[bB]?(?:'(?:\\.|[^\\'\n])*'|"(?:\\.|[^\\"\n])*"))
    |(?P<double>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<int>0[xX][0-9a-fA-F]+[uU]?|\d+[uU]?)
    |(?P<ident>[_a-zA-Z][_a-zA-Z0-9]*)
    |(?P<quoted>`[a-zA-Z0-9_.\-/ ]+`)
    |(?P<op>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_WORDS = (
    "as break const continue else for function if import let loop package namespace return var void while"
)
RESERVED = frozenset(_WORDS.split())
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:x(?P<x>[0-9a-fA-F]{2})|X(?P<X>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|(?P<o>[0-3][0-7]{2})|(?P<c>.))",
    re.DOTALL,
)
_SURROGATES = range(0xD800, 0xE000)
_OPERAND = (
    " expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, "
    "STRING, BYTES, IDENTIFIER}"
)
_OPERATORS = (
    {"||"},
    {"&&"},
    {"<", "<=", ">", ">=", "==", "!=", "in"},
    {"+", "-"},
    {"*", "/", "%"},
)
"""By precedence, the loosest first."""


@dataclasses.dataclass(slots=True)
class Expr:
    """Node of the syntax tree; `at` is its offset in the source, for error messages."""

    at: int


@dataclasses.dataclass(slots=True)
class Literal(Expr):
    """Node of a constant."""

    value: Any


@dataclasses.dataclass(slots=True)
class Ident(Expr):
    """Node of an identifier."""

    name: str


@dataclasses.dataclass(slots=True)
class Select(Expr):
    """Node of `operand.field`, or `operand.?field`."""

    operand: Expr
    field: str
    optional: bool = False


@dataclasses.dataclass(slots=True)
class Index(Expr):
    """Node of `operand[key]`, or `operand[?key]`."""

    operand: Expr
    key: Expr
    optional: bool = False


@dataclasses.dataclass(slots=True)
class Call(Expr):
    """Node of `function(args)`, of `target.function(args)`, or of an operator with a name such as `_+_`."""

    function: str
    args: list[Expr]
    target: Expr | None = None


@dataclasses.dataclass(slots=True)
class ListLiteral(Expr):
    """Node of a list `[a, ?b]`: its items, and whether each item is optional."""

    items: list[tuple[Expr, bool]]


@dataclasses.dataclass(slots=True)
class MapLiteral(Expr):
    """Node of a map `{k: v, ?k: v}`."""

    entries: list[tuple[Expr, Expr, bool]]


@dataclasses.dataclass(slots=True)
class StructLiteral(Expr):
    """Node of `Name{field: value, ?field: value}`; the name of a nested type contains dots."""

    name: str
    entries: list[tuple[str, Expr, bool]]


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse(source: str) -> Expr:
    """Parse an expression into its syntax tree; raise CompileError for a syntax error."""
    return _Parser(source).parse()


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens: list[_Token] = list(self._scan())
        self._next = 0

    def parse(self) -> Expr:
        found = self._expression()
        if self._token.kind != "end":
            raise self._unexpected(" expecting <EOF>", "extraneous")
        return found

    def _scan(self) -> Iterator[_Token]:
        at = 0
        while at < len(self._source):
            matched = _TOKEN.match(self._source, at)
            if matched is None:
                text = f"Syntax error: token recognition error at: {self._source[at]!r}"
                raise CompileError(self._source, [(at, text)])
            kind = str(matched.lastgroup)
            if kind != "space":
                yield _Token(kind, matched.group(), at)
            at = matched.end()
        yield _Token("end", "<EOF>", len(self._source))

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._token
        self._next += 1
        return token

    def _accept(self, text: str) -> _Token | None:
        token = self._token
        if token.text == text and token.kind in {"op", "ident"}:
            return self._take()
        return None

    def _expect(self, text: str) -> _Token:
        token = self._accept(text)
        if token is not None:
            return token
        if self._token.kind == "end":
            issue = f"Syntax error: missing '{text}' at '<EOF>'"
            raise CompileError(self._source, [(self._token.at, issue)])
        raise self._unexpected(f" expecting '{text}'")

    def _unexpected(self, expecting: str, problem: str = "mismatched") -> CompileError:
        token = self._token
        text = f"Syntax error: {problem} input '{token.text}'{expecting}"
        return CompileError(self._source, [(token.at, text)])

    def _expression(self) -> Expr:
        condition = self._binary()
        question = self._accept("?")
        if question is not None:
            then = self._binary()
            self._expect(":")
            otherwise = self._expression()
            condition = Call(question.at, "_?_:_", [condition, then, otherwise])
        return condition

    def _binary(self, level: int = 0) -> Expr:
        """Parse the binary operators of this precedence level, and of all levels that bind tighter."""
        if level == len(_OPERATORS):
            return self._unary()
        left = self._binary(level + 1)
        while self._token.text in _OPERATORS[level] and self._token.kind in {"op", "ident"}:
            operator = self._take()
            name = "@in" if operator.text == "in" else f"_{operator.text}_"
            left = Call(operator.at, name, [left, self._binary(level + 1)])
        return left

    def _unary(self) -> Expr:
        token = self._token
        if token.kind == "op" and token.text in {"!", "-"}:
            count = 0
            while self._accept(token.text):
                count += 1
            if token.text == "-" and count == 1 and self._token.kind in {"int", "double"}:
                literal = self._number(self._take(), negative=True)
                return self._members(literal)
            operand = self._member()
            return Call(token.at, f"{token.text}_", [operand]) if count % 2 else operand
        return self._member()

    def _member(self) -> Expr:
        return self._members(self._primary())

    def _members(self, operand: Expr) -> Expr:
        while True:
            dot = self._accept(".")
            if dot is not None:
                operand = self._select(operand, dot)
                continue
            name = _struct_name(operand)
            if name and (brace := self._accept("{")) is not None:
                operand = StructLiteral(brace.at, name, self._fields())
                continue
            bracket = self._accept("[")
            if bracket is None:
                return operand
            optional = self._accept("?") is not None
            key = self._expression()
            self._expect("]")
            operand = Index(bracket.at, operand, key, optional)

    def _select(self, operand: Expr, dot: _Token) -> Expr:
        optional = self._accept("?") is not None
        token = self._token
        if token.kind == "quoted":
            raise CompileError(self._source, [(token.at, "unsupported syntax: '`'")])
        if token.kind != "ident" or token.text == "in":
            raise self._unexpected(" expecting IDENTIFIER")
        self._take()
        opening = None if optional else self._accept("(")
        if opening is None:
            return Select(dot.at, operand, token.text, optional)
        return Call(opening.at, token.text, self._arguments(")"), operand)

    def _arguments(self, closing: str) -> list[Expr]:
        found: list[Expr] = []
        while self._accept(closing) is None:
            if found:
                self._expect(",")
            found.append(self._expression())
        return found

    def _primary(self) -> Expr:
        token = self._take()
        if token.kind == "op":
            return self._bracketed(token)
        if token.kind in {"int", "double"}:
            return self._number(token)
        if token.kind == "string":
            return Literal(token.at, self._string(token))
        if token.kind == "ident" and token.text != "in":
            if token.text in {"true", "false", "null"}:
                return Literal(token.at, {"true": True, "false": False, "null": None}[token.text])
            if token.text in RESERVED:
                raise CompileError(self._source, [(token.at, f"reserved identifier: {token.text}")])
            opening = self._accept("(")
            if opening is None:
                return Ident(token.at, token.text)
            return Call(opening.at, token.text, self._arguments(")"))
        self._next -= 1
        raise self._unexpected(_OPERAND)

    def _bracketed(self, token: _Token) -> Expr:
        if token.text == "(":
            inner = self._expression()
            self._expect(")")
            return inner
        if token.text == "[":
            return self._list(token)
        if token.text == "{":
            return self._map(token)
        if token.text == "." and self._token.kind == "ident":
            return self._primary()
        self._next -= 1
        raise self._unexpected(_OPERAND)

    def _elements(self, closing: str) -> Iterator[bool]:
        """Yield, before each element of a literal, whether a `?` marks it as optional.

        A comma may follow the last element.
        """
        is_first = True
        while self._accept(closing) is None:
            if not is_first:
                self._expect(",")
                if self._accept(closing) is not None:
                    return
            is_first = False
            yield self._accept("?") is not None

    def _list(self, token: _Token) -> Expr:
        items: list[tuple[Expr, bool]] = []
        for optional in self._elements("]"):
            # A comprehension would take a frame more of the stack for each level, on Python 3.11.
            items.append((self._expression(), optional))  # noqa: PERF401
        return ListLiteral(token.at, items)

    def _map(self, token: _Token) -> Expr:
        entries: list[tuple[Expr, Expr, bool]] = []
        for optional in self._elements("}"):
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression(), optional))
        return MapLiteral(token.at, entries)

    def _fields(self) -> list[tuple[str, Expr, bool]]:
        entries: list[tuple[str, Expr, bool]] = []
        for optional in self._elements("}"):
            token = self._token
            if token.kind not in {"ident", "quoted"}:
                raise self._unexpected(" expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}")
            self._take()
            self._expect(":")
            entries.append((token.text.strip("`"), self._expression(), optional))
        return entries

    def _number(self, token: _Token, *, negative: bool = False) -> Literal:
        sign = -1 if negative else 1
        if token.kind == "double":
            number = float(token.text)
            if math.isinf(number):
                raise CompileError(self._source, [(token.at, "invalid double literal")])
            return Literal(token.at, sign * number)
        unsigned = token.text[-1] in "uU"
        digits = token.text.rstrip("uU")
        magnitude = int(digits, 16) if digits[:2] in {"0x", "0X"} else parse_integer(digits)
        value = None if magnitude is None else sign * magnitude
        if value is None or not (0 <= value < 2**64 if unsigned else -(2**63) <= value < 2**63):
            raise CompileError(self._source, [(token.at, f"invalid {'uint' if unsigned else 'int'} literal")])
        return Literal(token.at, UInt(value) if unsigned else value)

    def _string(self, token: _Token) -> str | bytes:
        text = token.text
        prefix = text[: min(at for at in (text.find("'"), text.find('"')) if at >= 0)].lower()
        text = text[len(prefix) :]
        text = text[3:-3] if len(text) >= 6 and text[:3] in {"'''", '"""'} else text[1:-1]  # noqa: PLR2004
        if "r" not in prefix:
            text = _ESCAPE.sub(lambda matched: self._unescape(matched, token, binary="b" in prefix), text)
        return text.encode(errors="surrogateescape") if "b" in prefix else text

    def _unescape(self, matched: re.Match[str], token: _Token, *, binary: bool) -> str:
        kind, digits = str(matched.lastgroup), matched[matched.lastgroup or 0]
        if binary and kind in {"o", "x", "X"}:  # a byte, and no character
            return bytes([int(digits, 8 if kind == "o" else 16)]).decode(errors="surrogateescape")
        if kind != "c":
            code = int(digits, 8 if kind == "o" else 16)
            if code > sys.maxunicode or code in _SURROGATES:
                problem = "unable to unescape string" if binary else "invalid unicode code point"
                raise CompileError(self._source, [(token.at, problem)])
            return chr(code)
        if digits not in _ESCAPES:
            raise CompileError(
                self._source, [(token.at, "Syntax error: token recognition error at: " + token.text)]
            )
        return _ESCAPES[digits]


def _struct_name(node: Expr) -> str:
    """Return the name of the type that a literal constructs, or "" if the expression is not a name."""
    if isinstance(node, Ident):
        return node.name if node.name in {"JSONPatch", "Object"} else ""
    if isinstance(node, Select) and (above := _struct_name(node.operand)):
        return f"{above}.{node.field}"
    return ""
