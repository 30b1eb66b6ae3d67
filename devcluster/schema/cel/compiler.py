"""Compiler of CEL, from a syntax tree to a program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from devcluster.schema.cel import syntax
from devcluster.schema.cel.cost import Checked, estimate_cost
from devcluster.schema.cel.library import FUNCTIONS, NAMESPACES
from devcluster.schema.cel.macros import expand
from devcluster.schema.cel.operators import OPERATORS, connect, get_item
from devcluster.schema.cel.syntax import RESERVED
from devcluster.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    CelError,
    CompileError,
    Env,
    InstantiationError,
    Overload,
    Program,
    Run,
    Type,
    Typed,
    assignable,
    join,
    list_of,
    map_of,
    no_such_overload,
    optional_of,
    substitute,
    type_of,
)
from devcluster.schema.cel.values import NONE, LazyFields, Optional, type_of_value
from devcluster.schema.patterns import compile_pattern

_TYPE_NAMES = {
    "bool": type_of(BOOL),
    "int": type_of(INT),
    "uint": type_of(UINT),
    "double": type_of(DOUBLE),
    "string": type_of(STRING),
    "bytes": type_of(BYTES),
    "list": type_of(list_of(DYN)),
    "map": type_of(map_of(DYN, DYN)),
    "null_type": type_of(NULL),
    "type": type_of(Type("type")),
    "google.protobuf.Timestamp": type_of(TIMESTAMP),
    "google.protobuf.Duration": type_of(DURATION),
    "optional_type": type_of(optional_of(DYN)),
}


def compile_expression(
    source: str,
    variables: Mapping[str, Type],
    *,
    estimate: Type | None = None,
    types: Collection[str] = (),
) -> Program:
    """Parse, check and compile a CEL expression.

    Args:
        source: The text of the expression.
        variables: The types of the variables that the expression may use.
        estimate: The type of `self`, whose bounds are used to estimate the cost; None for no estimate.
        types: The names of types that the expression may construct: `Object{...}`.

    Raises:
        CompileError: the expression is invalid; the message lists all issues as the server does.
        InstantiationError: the only issue is an invalid constant.
    """
    compiler = Compiler(source, variables, types)
    try:
        tree = syntax.parse(source)
        typed = compiler.visit(tree)
    except RecursionError:
        raise CompileError(source, [(0, "expression recursion limit exceeded: 250")]) from None
    issues = compiler.issues or compiler.late_issues
    if issues:
        raise CompileError(source, issues)
    if compiler.constant_issue is not None:
        raise InstantiationError(compiler.constant_issue)
    cost = 0 if estimate is None else estimate_cost(tree, compiler.checked, estimate)
    return Program(typed.type, _guarded(typed.run), frozenset(compiler.used), cost)


class Compiler:
    """Compiler of one expression, which collects all issues before it reports them."""

    def __init__(self, source: str, variables: Mapping[str, Type], types: Collection[str] = ()) -> None:
        self.source = source
        self.types = types
        self.scope: dict[str, Type] = dict(variables)
        self.issues: list[tuple[int, str]] = []
        self.late_issues: list[tuple[int, str]] = []
        """Errors that are reported only for an otherwise valid expression."""
        self.used: set[str] = set()
        self.mixed = False
        """Whether lists may have items of different types, as for the arguments of `format`."""
        self.checked = Checked()
        self.constant_issue: str | None = None
        """The reason why the first invalid constant cannot be converted."""
        self._constants: set[int] = set()
        """Conversions of constants, by the identity of their nodes."""
        self._declared = frozenset(variables)

    def visit(self, node: syntax.Expr) -> Typed:
        typed = self._visit(node)
        self.checked.types[id(node)] = typed.type
        return typed

    def _visit(self, node: syntax.Expr) -> Typed:
        if isinstance(node, syntax.Literal):
            value = node.value
            return Typed(type_of_value(value), lambda _: value)
        compilers: dict[type, Callable[[Any], Typed]] = {
            syntax.Ident: self._ident,
            syntax.Select: self._select,
            syntax.Index: self._index,
            syntax.Call: self._call,
            syntax.ListLiteral: self._list,
            syntax.MapLiteral: self._map,
            syntax.StructLiteral: self._struct,
        }
        return compilers[type(node)](node)

    def visit_with(self, names: Mapping[str, Type], node: syntax.Expr) -> Typed:
        """Compile a node that may use additional variables, given by name and type."""
        outer, declared = self.scope, self._declared
        self.scope = {**outer, **names}
        self._declared = declared - names.keys()
        try:
            return self.visit(node)
        finally:
            self.scope, self._declared = outer, declared

    def fail(self, at: int, text: str) -> Typed:
        """Record an issue at an offset; return a value that fits all types, so that compilation continues."""
        self.issues.append((at, text))
        return Typed(ERROR, _never)

    def _ident(self, node: syntax.Ident) -> Typed:
        name = node.name
        if name in self.scope:
            if name in self._declared:
                self.used.add(name)
            return Typed(self.scope[name], lambda env: env[name])
        return self._type_name(name) or self.fail(
            node.at, f"undeclared reference to '{name}' (in container '')"
        )

    def _type_name(self, name: str) -> Typed | None:
        found = _TYPE_NAMES.get(name)
        if found is None:
            return None
        value = found.params[0]
        return Typed(found, lambda _: value)

    def _select(self, node: syntax.Select) -> Typed:
        dotted = _dotted(node)
        if dotted is not None and dotted.split(".")[0] not in self.scope:
            named = self._type_name(dotted)
            if named is not None:
                self.checked.named[id(node)] = dotted
                return named
        operand = self.visit(node.operand)
        kind, optional = operand.type, node.optional
        chained = kind.name == "optional_type"
        if chained:
            kind = kind.params[0]
        key, result = self.field_of(kind, node.field, node.at)
        get = operand.run
        if optional or chained:
            return Typed(optional_of(result), lambda env: _item_optional(get(env), key))
        return Typed(result, _select_field(get, key))

    def field_of(self, kind: Type, name: str, at: int) -> tuple[str, Type]:
        """Return the JSON key and the type of the field `name` in a value of type `kind`."""
        if kind.name == "object":
            # After a dot, a reserved word is also valid unescaped.
            found = kind.fields.get(name) or (name in RESERVED and kind.fields.get(f"__{name}__")) or None
            if found is not None:
                return found.key, found.type
            self.fail(at, f"undefined field '{name}'")
            return name, ERROR
        if kind.name == "map":
            return name, kind.params[1]
        if kind not in {DYN, ERROR} and not kind.variable:
            self.fail(at, f"type '{kind}' does not support field selection")
        return name, DYN

    def _index(self, node: syntax.Index) -> Typed:
        operand, key = self.visit(node.operand), self.visit(node.key)
        kind = operand.type
        chained = kind.name == "optional_type"
        if chained:
            kind = kind.params[0]
        result, wanted = DYN, DYN
        if kind.name == "list":
            result, wanted = kind.params[0], INT
        elif kind.name == "map":
            wanted, result = kind.params
        elif kind not in {DYN, ERROR}:
            wanted = Type("none")
        if not assignable(wanted, key.type, {}):
            return self.no_overload(node.at, "_[_]", [operand.type, key.type])
        get, index = operand.run, key.run
        if node.optional or chained:
            return Typed(optional_of(result), lambda env: _item_optional(get(env), index(env)))
        return Typed(result, lambda env: get_item(get(env), index(env)))

    def _list(self, node: syntax.ListLiteral) -> Typed:
        items: list[tuple[Run, bool]] = []
        kind: Type | None = None
        for each, optional in node.items:
            typed = self.visit(each)
            own = typed.type.params[0] if optional and typed.type.params else typed.type
            if kind is not None and not self.mixed and not assignable(kind, own, {}):
                self.late_issues.append((each.at, f"expected type '{kind}' but found '{own}'"))
            kind = own if kind is None else join(kind, own)
            items.append((typed.run, optional))
        found = list_of(kind or DYN)
        if any(optional for _, optional in items):
            return Typed(found, lambda env: _build_list(items, env))
        runs = [run for run, _ in items]
        return Typed(found, lambda env: [run(env) for run in runs])

    def _map(self, node: syntax.MapLiteral) -> Typed:
        entries: list[tuple[Run, Run, bool]] = []
        key_type: Type | None = None
        value_type: Type | None = None
        for key, value, optional in node.entries:
            typed_key, typed = self.visit(key), self.visit(value)
            own = typed.type.params[0] if optional and typed.type.params else typed.type
            for have, given, at in ((key_type, typed_key.type, key.at), (value_type, own, value.at)):
                if have is not None and not self.mixed and not assignable(have, given, {}):
                    self.late_issues.append((at, f"expected type '{have}' but found '{given}'"))
            key_type = typed_key.type if key_type is None else join(key_type, typed_key.type)
            value_type = own if value_type is None else join(value_type, own)
            entries.append((typed_key.run, typed.run, optional))
        return Typed(map_of(key_type or DYN, value_type or DYN), lambda env: _build_map(entries, env))

    def _struct(self, node: syntax.StructLiteral) -> Typed:
        if node.name.partition(".")[0] not in self.types:
            return self.fail(node.at, f"undeclared reference to '{node.name}' (in container '')")
        entries: list[tuple[Run, Run, bool]] = [
            (_constantly(name), self.visit(value).run, optional) for name, value, optional in node.entries
        ]
        return Typed(Type(node.name), lambda env: _build_map(entries, env))

    def _call(self, node: syntax.Call) -> Typed:
        expanded = expand(self, node)
        if expanded is not None:
            self.checked.expanded.add(id(node))
            return expanded
        if node.target is not None:
            namespace = _dotted(node.target)
            if namespace in NAMESPACES and namespace not in self.scope:
                name = f"{namespace}.{node.function}"
                self.checked.named[id(node)] = name
                return self._function(node, name, node.args, None)
        elif node.function in _SPECIAL:
            return self._special(node)
        return self._function(node, node.function, node.args, node.target)

    def _special(self, node: syntax.Call) -> Typed:
        typed = [self.visit(each) for each in node.args]
        types = [each.type for each in typed]
        if node.function == "_?_:_":
            if not assignable(BOOL, types[0], {}) or not assignable(types[1], types[2], {}):
                return self.no_overload(node.at, node.function, types)
            condition, then, otherwise = (each.run for each in typed)
            return Typed(
                join(types[1], types[2]), lambda env: then(env) if _bool(condition(env)) else otherwise(env)
            )
        for arg, kind in zip(node.args, types, strict=True):
            if not assignable(BOOL, kind, {}):
                self.fail(arg.at, f"expected type 'bool' but found '{kind}'")
        return Typed(BOOL, connect(typed[0].run, typed[1].run, decisive=node.function == "_||_"))

    def _function(
        self, node: syntax.Call, name: str, args: list[syntax.Expr], target: syntax.Expr | None
    ) -> Typed:
        member = target is not None
        outer, self.mixed = self.mixed, self.mixed or name == "format"
        typed = [self.visit(each) for each in ([target, *args] if target is not None else args)]
        self.mixed = outer
        overloads = (OPERATORS if name in OPERATORS and not member else FUNCTIONS).get(name)
        types = [each.type for each in typed]
        if overloads is None:
            return self.fail(node.at, f"undeclared reference to '{name}' (in container '')")
        fitting = [each for each in overloads if each.member == member and _fits(each, types)]
        if not fitting:
            return self.no_overload(node.at, name, types, member=member)
        self.checked.overloads[id(node)] = fitting
        results = [_result(each, types) for each in fitting]
        result = results[0] if all(each == results[0] for each in results) else DYN
        known = name in OPERATORS or not any(each == NULL or _has_dyn(each) for each in types)
        same = len({id(each.call) for each in fitting}) == 1
        call = fitting[0].call if known and same else _dispatch(name, fitting)
        self._check_literals(name, args)
        run = _bind(call, [each.run for each in typed])
        if name in _CONVERSIONS and self._is_constant(args[0]):
            self._convert_constant(node, run)
        return Typed(result, run)

    def _is_constant(self, node: syntax.Expr) -> bool:
        return isinstance(node, syntax.Literal) or id(node) in self._constants

    def _convert_constant(self, node: syntax.Call, run: Run) -> None:
        try:
            _guarded(run)({})
        except CelError as error:
            self.constant_issue = self.constant_issue or str(error)
        else:
            self._constants.add(id(node))

    def _check_literals(self, name: str, args: list[syntax.Expr]) -> None:
        check, last = _LITERALS.get(name), args[-1] if args else None
        if check is None or not isinstance(last, syntax.Literal) or not isinstance(last.value, str | int):
            return
        try:
            check(last.value)
        except (CelError, ValueError):
            self.late_issues.append((last.at, f"invalid {name} argument"))

    def no_overload(self, at: int, name: str, types: list[Type], *, member: bool = False) -> Typed:
        """Record the issue that no overload of a function accepts arguments of these types."""
        shown = list(map(str, types))
        applied = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
        return self.fail(at, f"found no matching overload for '{name}' applied to '{applied}'")


_LITERALS: dict[str, Callable[[Any], Any]] = {
    "matches": compile_pattern,
    "timestamp": FUNCTIONS["timestamp"][0].call,
    "duration": FUNCTIONS["duration"][0].call,
}
_CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_SPECIAL = frozenset({"_?_:_", "_&&_", "_||_"})
_UNFORESEEN = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""Errors that a function may raise for values that no check rules out."""


def _dotted(node: syntax.Expr) -> str | None:
    if isinstance(node, syntax.Ident):
        return node.name
    if isinstance(node, syntax.Select) and not node.optional:
        before = _dotted(node.operand)
        return None if before is None else f"{before}.{node.field}"
    return None


def _has_dyn(kind: Type) -> bool:
    return kind == DYN or any(map(_has_dyn, kind.params))


def _fits(overload: Overload, types: list[Type]) -> bool:
    if len(overload.params) != len(types):
        return False
    bindings: dict[str, Type] = {}
    return all(assignable(want, given, bindings) for want, given in zip(overload.params, types, strict=True))


def _takes_nulls(overload: Overload, types: list[Type]) -> bool:
    """Return whether the overload accepts all arguments that are null."""
    return all(
        given != NULL or want.variable or want in {NULL, DYN}
        for want, given in zip(overload.params, types, strict=True)
    )


def _result(overload: Overload, types: list[Type]) -> Type:
    bindings: dict[str, Type] = {}
    for want, given in zip(overload.params, types, strict=True):
        assignable(want, given, bindings)
    return substitute(overload.result, bindings)


def _dispatch(name: str, overloads: list[Overload]) -> Callable[..., Any]:
    # The type of an argument is known only at run time.
    def call(*args: Any) -> Any:
        types = [type_of_value(each) for each in args]
        for each in overloads:
            if _fits(each, types) and _takes_nulls(each, types):
                return each.call(*args)
        raise CelError(f"no such overload: {name}")

    return call


def _guarded(run: Run) -> Run:
    """Return a function that evaluates `run`, and raises CelError for every error that it fails with."""

    def guarded(env: Env) -> Any:
        try:
            return run(env)
        except _UNFORESEEN:
            raise no_such_overload() from None

    return guarded


def _bind(call: Callable[..., Any], runs: list[Run]) -> Run:
    if len(runs) == 1:
        (only,) = runs
        return lambda env: call(only(env))
    if len(runs) == 2:  # noqa: PLR2004 -- most functions and all operators
        one, other = runs
        return lambda env: call(one(env), other(env))
    return lambda env: call(*[run(env) for run in runs])


def _select_field(operand: Run, key: str) -> Run:
    def run(env: Env) -> Any:
        value = operand(env)
        if type(value) is dict:
            try:
                return value[key]
            except KeyError:
                raise CelError(f"no such key: {key}") from None
        if type(value) is LazyFields:
            return value.get(key)
        raise no_such_overload()

    return run


def _item_optional(value: Any, key: Any) -> Any:
    if type(value) is Optional:
        if not value.present:
            return NONE
        value = value.value
    if type(value) is dict:
        return Optional(value[key]) if key in value else NONE
    if isinstance(value, list):
        return Optional(value[key]) if isinstance(key, int) and 0 <= key < len(value) else NONE
    raise no_such_overload()


def _build_list(items: list[tuple[Run, bool]], env: Env) -> list[Any]:
    found = []
    for run, optional in items:
        value = run(env)
        if not optional:
            found.append(value)
        elif value.present:
            found.append(value.value)
    return found


def _build_map(entries: list[tuple[Run, Run, bool]], env: Env) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key_run, run, optional in entries:
        key, value = key_run(env), run(env)
        if optional:
            if not value.present:
                continue
            value = value.value
        if key in found:
            raise CelError(f"Failed with repeated key: {key}")
        found[key] = value
    return found


def _bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise no_such_overload()


def _constantly(value: Any) -> Run:
    return lambda _: value


def _never(_: Env) -> Any:
    raise CelError("not compiled")
