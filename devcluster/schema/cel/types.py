"""Types, functions and errors of CEL."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class CelError(Exception):
    """Error of an expression that cannot be evaluated, with Kubernetes' message (`no such key: a`)."""


class CompileError(Exception):
    """Error of an expression that is invalid for all values; `str` is the text that the server quotes."""

    def __init__(self, source: str, issues: list[tuple[int, str]]) -> None:
        """Set up the error; each of `issues` is an offset in `source` and a message."""
        super().__init__("\n".join(_shown(source, at, text) for at, text in sorted(issues)))


class InstantiationError(CompileError):
    """Error of an expression with a constant that cannot be converted, such as `int('x')`."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)


def no_such_overload() -> CelError:
    """Build the error for argument types that an operator or function does not support."""
    return CelError("no such overload")


def _shown(source: str, at: int, text: str) -> str:
    start = source.rfind("\n", 0, at) + 1
    end = source.find("\n", at)
    line = source[start:] if end < 0 else source[start:end]
    column = at - start
    number = source.count("\n", 0, at) + 1
    return f"ERROR: <input>:{number}:{column + 1}: {text}\n | {line}\n | {'.' * column}^"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Field:
    """Field of an object type: its key in the JSON object, and its type."""

    key: str
    type: Type


@dataclasses.dataclass(frozen=True, slots=True)
class Type:
    """CEL type; `fields` has the fields of an object type by their names in expressions."""

    name: str
    params: tuple[Type, ...] = ()
    fields: Mapping[str, Field] = dataclasses.field(default_factory=dict, compare=False)
    identity: int = 0
    """A number that distinguishes object types with equal fields."""
    variable: bool = False
    max_elements: int = dataclasses.field(default=0, compare=False)
    """The schema's bound: bytes of a string, items of a list, entries of a map."""
    min_size: int = dataclasses.field(default=2, compare=False)
    """The bytes of the shortest JSON of a value."""

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"


DYN = Type("dyn")
ERROR = Type("!error!")
"""The type of a wrong expression; it is assignable to every type, so that an error is reported once."""
NULL = Type("null")
BOOL = Type("bool")
INT = Type("int")
UINT = Type("uint")
DOUBLE = Type("double")
STRING = Type("string")
BYTES = Type("bytes")
TIMESTAMP = Type("timestamp")
DURATION = Type("duration")
TYPE = Type("type")
URL = Type("kubernetes.URL")
QUANTITY = Type("kubernetes.Quantity")
IP = Type("net.IP")
CIDR = Type("net.CIDR")
FORMAT = Type("kubernetes.NamedFormat")
SEMVER = Type("kubernetes.Semver")
A = Type("A", variable=True)
B = Type("B", variable=True)

_NULLABLE = frozenset(
    {"timestamp", "duration", "object", URL.name, QUANTITY.name, IP.name, CIDR.name, "optional_type"}
)

Bindings = dict[str, Type]


def list_of(item: Type) -> Type:
    """Return the type `list(item)`."""
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type `map(key, value)`."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type `optional_type(value)`."""
    return Type("optional_type", (value,))


def type_of(value: Type) -> Type:
    """Return the type `type(value)`."""
    return Type("type", (value,))


def object_of(fields: Mapping[str, Field], min_size: int = 2) -> Type:
    """Return a new object type with these fields; it differs from all other object types."""
    return Type("object", fields=fields, identity=id(fields), min_size=min_size)


def assignable(wanted: Type, given: Type, bindings: Bindings) -> bool:  # noqa: PLR0911 -- a return for each case
    """Return whether a value of type `given` fits the type `wanted`; binds type variables in `bindings`."""
    if wanted.variable:
        bound = bindings.get(wanted.name)
        if bound is None or bound == DYN:
            bindings[wanted.name] = given
            return True
        if assignable(bound, given, bindings):
            return True
        if assignable(given, bound, bindings):
            bindings[wanted.name] = given
            return True
        return False
    if given.variable:
        return True
    if DYN in {wanted, given} or ERROR in {wanted, given}:
        return True
    if given == NULL:
        return wanted == NULL or wanted.name in _NULLABLE
    if wanted == NULL:
        return given.name in _NULLABLE
    if wanted.name != given.name or wanted.identity != given.identity:
        return False
    if wanted.name == "type":
        return True
    return all(
        assignable(one, other, bindings) for one, other in zip(wanted.params, given.params, strict=False)
    )


def substitute(template: Type, bindings: Bindings) -> Type:
    """Replace the type variables in `template`; an unbound variable becomes `dyn`."""
    if template.variable:
        found = bindings.get(template.name, DYN)
        return DYN if found.variable else found
    if not template.params:
        return template
    return Type(template.name, tuple(substitute(each, bindings) for each in template.params))


def join(one: Type, other: Type) -> Type:
    """Return the common type of two types; `dyn` if they have none."""
    if one == other or assignable(one, other, {}):
        return DYN if other == DYN else one
    if assignable(other, one, {}):
        return other
    return DYN


@dataclasses.dataclass(frozen=True, slots=True)
class Overload:
    """Overload of a function; if `member` is true, it is a method, and `params` begins with the receiver."""

    params: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    member: bool


Table = dict[str, list[Overload]]


def function(params: tuple[Type, ...], result: Type, call: Callable[..., Any]) -> Overload:
    """Declare an overload of a global function: `name(…)`."""
    return Overload(params, result, call, member=False)


def method(params: tuple[Type, ...], result: Type, call: Callable[..., Any]) -> Overload:
    """Declare an overload of a method: `receiver.name(…)`."""
    return Overload(params, result, call, member=True)


Env = dict[str, Any]
Run = Callable[[Env], Any]


class Typed(NamedTuple):
    """Compiled node: its type, and the function that evaluates it."""

    type: Type
    run: Run


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """Compiled expression."""

    type: Type
    run: Run
    """Evaluates the expression with the variables.

    Raises:
        CelError: the evaluation fails with these values.
    """
    uses: frozenset[str]
    """The variables it refers to."""
    cost: int = 0
    """The maximum cost of one evaluation, in the server's units; 0 if not estimated."""
