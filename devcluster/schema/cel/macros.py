"""Macros: calls that evaluate an argument not at all, conditionally, or several times."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from devcluster.schema.cel import syntax
from devcluster.schema.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    CelError,
    Env,
    Run,
    Type,
    Typed,
    assignable,
    list_of,
    map_of,
    no_such_overload,
    optional_of,
)
from devcluster.schema.cel.values import NONE, Optional, compare

BUDGET = "@budget"
"""The environment's key for a list with the remaining number of loop iterations."""
_TURN = "@turn"
"""The environment's key for the current item, index or key of a loop."""


class Compiler(Protocol):
    """Methods of the compiler that macros use."""

    def visit(self, node: syntax.Expr) -> Typed: ...
    def visit_with(self, names: Mapping[str, Type], node: syntax.Expr) -> Typed: ...
    def fail(self, at: int, text: str) -> Typed: ...
    def field_of(self, kind: Type, name: str, at: int) -> tuple[str, Type]: ...
    def no_overload(self, at: int, name: str, types: list[Type], *, member: bool = False) -> Typed: ...


def expand(compiler: Compiler, node: syntax.Call) -> Typed | None:
    """Compile the call of a macro; return None if the function is not a macro."""
    if node.function == "has" and node.target is None and len(node.args) == 1:
        return _has(compiler, node)
    if node.target is None:
        return None
    size = len(node.args)
    if node.function in {"optMap", "optFlatMap"} and size == 2:  # noqa: PLR2004 -- a name and an expression
        return _optional_map(compiler, node)
    macro = _MACROS.get((node.function, size))
    if macro is None:
        return None
    for each in node.args[: macro.names]:
        if not isinstance(each, syntax.Ident):
            return compiler.fail(each.at, "argument must be a simple name")
    return _comprehend(compiler, node, macro)


def _has(compiler: Compiler, node: syntax.Call) -> Typed:
    (field,) = node.args
    if not isinstance(field, syntax.Select):
        return compiler.fail(field.at, "invalid argument to has() macro")
    operand = compiler.visit(field.operand)
    kind = operand.type
    chained = kind.name == "optional_type"
    key, _ = compiler.field_of(kind.params[0] if chained else kind, field.field, node.at)
    get = operand.run

    def run(env: Env) -> bool:
        value = get(env)
        if type(value) is Optional:
            if not value.present:
                return False
            value = value.value
        if type(value) is dict:
            return key in value
        raise no_such_overload()

    return Typed(BOOL, run)


def _optional_map(compiler: Compiler, node: syntax.Call) -> Typed | None:
    name_node, body_node = node.args
    if not isinstance(name_node, syntax.Ident) or node.target is None:
        return None
    target = compiler.visit(node.target)
    if target.type.name == "optional_type":
        inner = target.type.params[0]
    elif target.type in {DYN, ERROR}:
        inner = DYN
    else:
        return compiler.no_overload(node.at, node.function, [target.type], member=True)
    name = name_node.name
    body = compiler.visit_with({name: inner}, body_node)
    get, evaluate = target.run, body.run
    flat = node.function == "optFlatMap"

    def run(env: Env) -> Any:
        value = get(env)
        if type(value) is not Optional:
            raise no_such_overload()
        if not value.present:
            return NONE
        result = evaluate({**env, name: value.value})
        return result if flat else Optional(result)

    return Typed(body.type if flat else optional_of(body.type), run)


def _comprehend(compiler: Compiler, node: syntax.Call, macro: _Macro) -> Typed | None:
    assert node.target is not None
    count, loop = macro.names, macro.loop
    target = compiler.visit(node.target)
    kind = target.type
    if kind.name == "list":
        first, second = (INT, kind.params[0]) if count == 2 else (kind.params[0], DYN)  # noqa: PLR2004
    elif kind.name == "map":
        first, second = kind.params
    elif kind in {DYN, ERROR}:
        first = second = DYN
    else:
        text = (
            f"expression of type '{kind}' cannot be range of a comprehension (must be list, map, or dynamic)"
        )
        return compiler.fail(node.target.at, text)
    names = tuple(each.name for each in node.args[:count] if isinstance(each, syntax.Ident))
    scope = dict(zip(names, (first, second), strict=False))
    bodies = [compiler.visit_with(scope, each) for each in node.args[count:]]
    result = macro.result(kind, bodies)
    if macro.tests and not assignable(BOOL, bodies[0].type, {}):
        compiler.fail(node.args[count].at, f"expected type 'bool' but found '{bodies[0].type}'")
    get, runs = target.run, [each.run for each in bodies]

    def run(env: Env) -> Any:
        value = get(env)
        pairs: Any
        if type(value) is dict:
            pairs = value.items() if count == 2 else ((key,) for key in value)  # noqa: PLR2004
        elif isinstance(value, list):
            pairs = enumerate(value) if count == 2 else ((each,) for each in value)  # noqa: PLR2004
        else:
            raise no_such_overload()
        inner = dict(env)
        return loop(_bound(inner, names, pairs), runs)

    return Typed(result, run)


def _bound(env: Env, names: tuple[str, ...], pairs: Any) -> Any:
    # All iterations share one environment, since nothing keeps it beyond an iteration.
    budget = env.get(BUDGET)
    for pair in pairs:
        if budget is not None:
            budget[0] -= 1
            if budget[0] < 0:
                raise CelError("operation cancelled: actual cost limit exceeded")
        for name, value in zip(names, pair, strict=True):
            env[name] = value
        env[_TURN] = pair[0]
        yield env


class _Macro(NamedTuple):
    """Macro with a loop: the number of its variables, the loop over the items, and the type of the result."""

    names: int
    loop: Callable[[Any, list[Run]], Any]
    result: Callable[[Type, list[Typed]], Type]
    tests: bool = False
    """Whether the first expression is a condition."""


def _quantify(*, decisive: bool) -> Callable[[Any, list[Run]], bool]:
    def loop(turns: Any, runs: list[Run]) -> bool:
        failure: CelError | None = None
        for env in turns:
            try:
                value = runs[0](env)
            except CelError as error:
                failure = failure or error
                continue
            if value is decisive:
                return bool(value)
            if type(value) is not bool:
                failure = failure or no_such_overload()
        if failure is not None:
            raise failure
        return not decisive

    return loop


def _true(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise no_such_overload()


def _passing(turns: Any, runs: list[Run]) -> Any:
    """Yield the iterations for which the condition is true; without a condition, yield all of them."""
    tests = runs[:-1]
    for env in turns:
        if all(_true(test(env)) for test in tests):
            yield env


def _map(turns: Any, runs: list[Run]) -> list[Any]:
    make = runs[-1]
    return [make(env) for env in _passing(turns, runs)]


def _transform_entry(turns: Any, runs: list[Run]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for env in _passing(turns, runs):
        for key, value in runs[-1](env).items():
            if key in found:
                raise CelError(f"insert failed: key {key!r} already exists")
            found[key] = value
    return found


def _sort_by(turns: Any, runs: list[Run]) -> list[Any]:
    by_key = functools.cmp_to_key(compare)
    keyed: list[tuple[Any, Any]] = [(by_key(runs[0](env)), env[_TURN]) for env in turns]
    keyed.sort(key=lambda pair: pair[0])
    return [item for _, item in keyed]


def _bool_result(_: Type, __: list[Typed]) -> Type:
    return BOOL


def _list_result(_: Type, bodies: list[Typed]) -> Type:
    return list_of(bodies[-1].type)


def _same_list(kind: Type, _: list[Typed]) -> Type:
    return list_of(kind.params[0] if kind.params else DYN)


def _map_result(kind: Type, bodies: list[Typed]) -> Type:
    return map_of(kind.params[0] if kind.name == "map" else INT, bodies[-1].type)


_QUANTIFIERS: dict[str, Callable[[Any, list[Run]], bool]] = {
    "all": _quantify(decisive=False),
    "exists": _quantify(decisive=True),
    **dict.fromkeys(
        ("exists_one", "existsOne"), lambda turns, runs: sum(_true(runs[0](env)) for env in turns) == 1
    ),
}
_MAKERS: dict[str, tuple[Callable[[Any, list[Run]], Any], Callable[[Type, list[Typed]], Type]]] = {
    "transformList": (_map, _list_result),
    "transformMap": (
        lambda turns, runs: {env[_TURN]: runs[-1](env) for env in _passing(turns, runs)},
        _map_result,
    ),
    "transformMapEntry": (_transform_entry, lambda _, bodies: bodies[-1].type),
}
_MACROS: dict[tuple[str, int], _Macro] = {
    **{
        (name, count + 1): _Macro(count, loop, _bool_result, tests=True)
        for name, loop in _QUANTIFIERS.items()
        for count in (1, 2)
    },
    **{
        (name, size): _Macro(2, *maker, tests=size > 3)  # noqa: PLR2004 -- two names and an expression
        for name, maker in _MAKERS.items()
        for size in (3, 4)
    },
    ("map", 2): _Macro(1, _map, _list_result),
    ("map", 3): _Macro(1, _map, _list_result, tests=True),
    ("sortBy", 2): _Macro(1, _sort_by, _same_list),
    ("filter", 2): _Macro(
        1, lambda turns, runs: [env[_TURN] for env in turns if _true(runs[0](env))], _same_list, tests=True
    ),
}
