"""Static cost estimate of the server: the maximum cost of an expression before any value is known.

A unit stands for about 50 ns. The server refuses definitions by this estimate, so the sums here are exactly
the server's, with two oddities:

- The size of a value is looked up by the value's path, without the path's first step. So a path of one step,
  for example the path of an item in a list literal, gives the size of `self`.
- Two paths with the same beginning may share their memory. Then an addition to one path replaces the addition
  to the other path.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from devcluster.schema.cel import syntax
from devcluster.schema.cel.types import (
    BYTES,
    CIDR,
    DYN,
    FORMAT,
    IP,
    QUANTITY,
    SEMVER,
    STRING,
    URL,
    Overload,
    Type,
)

UNLIMITED: Final = 2**64 - 1
"""The cost of an unbounded expression; sums and products saturate here."""

_TEXT: Final = 0.1
"""Cost of reading one character."""
_REGEX: Final = 0.25
"""Cost of each character of a regular expression."""
_NEW_LIST, _NEW_MAP = 10, 30
_FORMAT_TEXT, _FORMAT_REGEX = 64, 128
_ADDRESS = 16
"""The bytes of the longest IP address."""

_SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
_SELECTABLE = frozenset({"map", "object"})
_CONSTANT_EQUALITY = frozenset({IP, CIDR, QUANTITY, SEMVER})
_ORDER = frozenset({"_<_", "_<=_", "_>_", "_>=_"})
_ONE_PASS = frozenset({"isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"})
_ONE_UNIT = frozenset(
    """
    masked prefixLength family isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast
    isGlobalUnicast sign asInteger isInteger asApproximateFloat isGreaterThan isLessThan compareTo add
    sub major minor patch format.named getScheme getHostname getHost getPort getEscapedPath getQuery
    """.split()  # noqa: SIM905 -- a list would fill a page
)
_PARSED = frozenset({"cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"})


class Size(NamedTuple):
    """Bounds for the length of a string, or for the size of a list or map."""

    least: int
    most: int

    def __or__(self, other: Size) -> Size:
        """Return the smallest bounds that include both sizes."""
        return Size(min(self.least, other.least), max(self.most, other.most))


_UNKNOWN: Final = Size(0, UNLIMITED)
_ONE: Final = Size(1, 1)


class _Entries(NamedTuple):
    """Bounds for the content of a list or map that the expression constructs."""

    kind: str
    key: Size
    value: Size

    def __or__(self, other: _Entries) -> _Entries:
        """Return the smallest bounds that include both contents."""
        return _Entries(self.kind, self.key | other.key, self.value | other.value)


@dataclasses.dataclass(slots=True)
class _Path:
    """Path that consists of the first `length` of the steps.

    The other steps belong to a longer path, which shares the memory.
    """

    steps: list[str]
    length: int

    def __iter__(self) -> Any:
        return iter(self.steps[: self.length])


def _extended(path: _Path | None, step: str) -> _Path:
    if path is None:
        return _Path([step], 1)
    length, steps = path.length, path.steps
    if length == len(steps):
        steps = [*steps, *([""] * length)]  # room for as many again
    steps[length] = step
    return _Path(steps, length + 1)


class _Variable(NamedTuple):
    path: _Path | None
    size: Size | None = None
    entries: _Entries | None = None


class _Value(NamedTuple):
    """Argument of a call, with the size that was known when the call's cost was estimated."""

    type: Type
    size: Size | None
    path: _Path | None
    node: Any


@dataclasses.dataclass(slots=True)
class Checked:
    """Results of the compiler for the nodes of a tree, by the `id` of the node."""

    types: dict[int, Type] = dataclasses.field(default_factory=dict)
    overloads: dict[int, list[Overload]] = dataclasses.field(default_factory=dict)
    expanded: set[int] = dataclasses.field(default_factory=set)
    """The calls that are macros."""
    named: dict[int, str] = dataclasses.field(default_factory=dict)
    """The calls of functions whose names have a dot, and the members that are names of types."""


def estimate_cost(tree: syntax.Expr, checked: Checked, root: Type) -> int:
    """Return the maximum cost of one evaluation; `root` is the type of `self`, with its bounds."""
    return _Coster(checked, root).cost(tree)


def _add(*costs: int) -> int:
    return min(sum(costs), UNLIMITED)


def _multiply(one: int, other: int) -> int:
    return min(one * other, UNLIMITED)


def _times(size: int, factor: float) -> int:
    """Multiply in floating point, as the server does, which loses the last digits of large sizes."""
    if size > 0 and factor > 0 and float(size) > UNLIMITED / factor:
        return UNLIMITED
    return min(math.ceil(float(size) * factor), UNLIMITED)


def _sum(one: Size, other: Size) -> Size:
    return Size(_add(one.least, other.least), _add(one.most, other.most))


def _product(one: Size, other: Size) -> Size:
    return Size(_multiply(one.least, other.least), _multiply(one.most, other.most))


class _Coster:
    def __init__(self, checked: Checked, root: Type) -> None:
        self._checked = checked
        self._root = root
        self._paths: dict[int, _Path] = {}
        self._sizes: dict[int, Size] = {}
        self._entries: dict[int, _Entries] = {}
        self._variables: dict[str, list[_Variable]] = {}

    def cost(self, node: syntax.Expr) -> int:
        match node:
            case syntax.Literal():
                return 0
            case syntax.Ident():
                variable = self._variable(node.name)
                self._set_path(node, _Path([node.name], 1) if variable is None else variable.path)
                return 1
            case syntax.Select():
                return self._select(node)
            case syntax.Index():
                return self._index(node)
            case syntax.ListLiteral():
                return self._list(node)
            case syntax.MapLiteral():
                return self._map(node)
            case syntax.Call():
                return self._macro(node) if id(node) in self._checked.expanded else self._call(node)
            case _:
                raise AssertionError(node)

    # -- the known facts about a node

    def _variable(self, name: str) -> _Variable | None:
        stack = self._variables.get(name)
        return stack[-1] if stack else None

    def _set_path(self, node: syntax.Expr, path: _Path | None) -> None:
        if path is None:
            self._paths.pop(id(node), None)
        else:
            self._paths[id(node)] = path

    def _path(self, node: syntax.Expr) -> _Path | None:
        if isinstance(node, syntax.Ident) and (variable := self._variable(node.name)) is not None:
            return variable.path
        return self._paths.get(id(node))

    def _type(self, node: syntax.Expr) -> Type:
        return self._checked.types[id(node)]

    def _size(self, node: syntax.Expr) -> Size | None:
        if (known := self._sizes.get(id(node))) is not None:
            return known
        if (own := _literal_size(node)) is not None:
            return own
        if (declared := self._declared(self._path(node))) is not None:
            self._sizes[id(node)] = declared
            return declared
        if _is_scalar(self._type(node)):
            return _ONE
        if isinstance(node, syntax.Ident) and (variable := self._variable(node.name)) is not None:
            return variable.size
        return None

    def _declared(self, path: Any) -> Size | None:
        """Return the size that the schema declares for the end of the path, or None if unknown."""
        if path is None:
            return None
        kind = self._root
        for step in list(path)[1:]:
            found = _child(kind, step)
            if found is None:
                return None
            kind = found
        return Size(0, kind.max_elements)

    def _size_or_unknown(self, node: syntax.Expr) -> Size:
        return self._size(node) or _UNKNOWN

    def _entries_of(self, node: syntax.Expr) -> _Entries | None:
        if (known := self._entries.get(id(node))) is not None:
            return known
        if isinstance(node, syntax.Ident) and (variable := self._variable(node.name)) is not None:
            return variable.entries
        return None

    def _value(self, node: syntax.Expr) -> _Value:
        return _Value(self._type(node), self._size(node), self._path(node), node)

    # -- expressions

    def _select(self, node: syntax.Select) -> int:
        if id(node) in self._checked.named:
            self._set_path(node, _Path([self._checked.named[id(node)]], 1))
            return 1
        cost = self.cost(node.operand)
        if node.optional:
            self._value(node.operand)
            return _add(cost, 1)
        if self._type(node.operand).name in _SELECTABLE:
            cost = _add(cost, 1)
        self._set_path(node, _extended(self._path(node.operand), node.field))
        return cost

    def _index(self, node: syntax.Index) -> int:
        cost = 1
        for each in (node.operand, node.key):
            cost = _add(cost, self.cost(each))
            self._value(each)
        kind = self._type(node.operand).name
        if not node.optional and kind != "optional_type":
            step = "@items" if kind == "list" else "@values"
            entries = self._entries_of(node.operand)
            self._set_path(node, _extended(self._path(node.operand), step))
            size = entries.value if entries is not None else self._size(node)
            if size is not None:
                self._sizes[id(node)] = size
        return cost

    def _list(self, node: syntax.ListLiteral) -> int:
        cost = _NEW_LIST
        item = Size(UNLIMITED, 0) if node.items else Size(0, 0)
        for each, _ in node.items:
            cost = _add(cost, self.cost(each))
            item |= self._size_or_unknown(each)
        self._entries[id(node)] = _Entries("list", _ONE, item)
        return cost

    def _map(self, node: syntax.MapLiteral) -> int:
        cost = _NEW_MAP
        key = value = Size(UNLIMITED, 0) if node.entries else Size(0, 0)
        for key_node, value_node, _ in node.entries:
            cost = _add(cost, self.cost(key_node), self.cost(value_node))
            key |= self._size_or_unknown(key_node)
            value |= self._size_or_unknown(value_node)
        self._entries[id(node)] = _Entries("map", key, value)
        return cost

    def _call(self, node: syntax.Call) -> int:
        name = self._checked.named.get(id(node), node.function)
        target = None if id(node) in self._checked.named else node.target
        if name == "dyn" and target is None:
            (arg,) = node.args
            cost = self.cost(arg)
            self._copy_sizes(node, arg)
            return _add(cost, 1)
        args, total = [], 0
        costs = []
        for each in node.args:
            costs.append(self.cost(each))
            args.append(self._value(each))
        if target is not None:
            total = self.cost(target)
            args.insert(0, self._value(target))
        if name in {"_&&_", "_||_"}:
            return _add(total, *costs)
        if name == "_?_:_":
            self._sizes[id(node)] = (args[1].size or _UNKNOWN) | (args[2].size or _UNKNOWN)
            self._join_entries(node, args[1].node, args[2].node)
            return _add(total, costs[0], max(costs[1:]))
        most, size = 0, None
        for overload in self._checked.overloads[id(node)]:
            cost, result = self._overload(node, name, overload, args)
            most = max(most, cost)
            if result is not None:
                size = result if size is None else size | result
            if size is None:
                size = self._size(node)
        if size is not None:
            self._sizes[id(node)] = size
        return _add(total, *costs, most)

    def _copy_sizes(self, target: syntax.Expr, source: syntax.Expr) -> None:
        if (size := self._size(source)) is not None:
            self._sizes[id(target)] = size
        if (entries := self._entries_of(source)) is not None:
            self._entries[id(target)] = entries

    def _join_entries(self, node: syntax.Expr, one: syntax.Expr, other: syntax.Expr) -> None:
        first, second = self._entries_of(one), self._entries_of(other)
        if first is not None and second is not None:
            self._entries[id(node)] = first | second

    def _overload(
        self, node: syntax.Call, name: str, overload: Overload, args: list[_Value]
    ) -> tuple[int, Size | None]:
        """Return the cost of the call without its arguments, and the size of the result (None if unknown)."""
        estimate = _ESTIMATES.get(name)
        if estimate is not None and (found := estimate(_Arguments(self, overload, args))) is not None:
            return found
        if name in _ONE_UNIT:
            return 1, None
        first = overload.params[0] if overload.params else None
        sizes = [each.size or _UNKNOWN for each in args]
        if name == "_+_" and first is not None and (first in {STRING, BYTES} or first.name == "list"):
            size = _sum(*sizes)
            self._join_entries(node, args[0].node, args[1].node)
            return 1 if first.name == "list" else _times(size.most, _TEXT), size
        if name in {"_==_", "_!=_"} or (name in _ORDER and first in {STRING, BYTES}):
            return _times(min(each.most for each in sizes), _TEXT), None
        if name == "@in":
            return (sizes[1].most if overload.params[1].name == "list" else 1), None
        if name == "bytes" and first == STRING:
            return _times(sizes[0].most, _TEXT), Size(sizes[0].least, (sizes[0].most * 4) % 2**64)
        if name == "string" and first == BYTES:
            return _times(sizes[0].most, _TEXT), Size(sizes[0].least // 4, sizes[0].most)
        return 1, None

    def items_of(self, value: _Value) -> tuple[Type, Size] | None:
        """Return the type and the size of a list's items, or None if the value is not a list."""
        if not value.type.params:
            return None
        path = None if value.path is None else [*value.path, "@items"]
        return value.type.params[0], self._declared(path) or _UNKNOWN

    # -- macros

    def _macro(self, node: syntax.Call) -> int:
        if node.function == "has":
            (field,) = node.args
            assert isinstance(field, syntax.Select)
            return self.cost(field.operand)
        assert node.target is not None
        if node.function in {"optMap", "optFlatMap"}:
            return self._optional_map(node, node.target)
        if node.function == "sortBy":
            return self._sort_by(node, node.target)
        return self._comprehension(node, node.target)

    def _bind(self, name: str, variable: _Variable) -> None:
        self._variables.setdefault(name, []).append(variable)

    def _optional_map(self, node: syntax.Call, target: syntax.Expr) -> int:
        # The server checks that the value exists, and evaluates the target again for the body.
        asked = _add(self.cost(target), 1)
        value = _add(self.cost(target), 1)
        name, body = node.args
        assert isinstance(name, syntax.Ident)
        inner = self._type(target).params
        self._bind(name.name, _Variable(None, _ONE if inner and _is_scalar(inner[0]) else None))
        inside = _add(_NEW_LIST, value, self.cost(body))
        self._variables[name.name].pop()
        flat = node.function == "optFlatMap"
        self._sizes[id(node)] = _ONE if _is_scalar(self._type(node)) else _UNKNOWN
        return _add(asked, max(inside if flat else _add(inside, 1), 1))

    def _sort_by(self, node: syntax.Call, target: syntax.Expr) -> int:
        # The server binds the list to a name, maps it to the keys, and sorts by them.
        cost = _add(_NEW_LIST, self.cost(target))
        entries, size, path = self._entries_of(target), self._size(target), self._path(target)
        name, body = node.args
        assert isinstance(name, syntax.Ident)
        item = _Variable(_extended(path, "@items"), entries.value if entries is not None else None)
        self._bind(name.name, item)
        turn = _add(self.cost(body), 12)
        key = self._type(body)
        self._variables[name.name].pop()
        count = self._declared(path) or size or _UNKNOWN
        keys = _add(1, _NEW_LIST, 1, _multiply(count.most, turn))
        squared = _product(count, count)
        self._sizes[id(node)] = squared
        factor = 2.0 + _TEXT if key in {STRING, BYTES, DYN} else 2.0
        return _add(cost, 1, keys, _times(squared.most, factor), 1, _NEW_LIST)

    def _comprehension(self, node: syntax.Call, target: syntax.Expr) -> int:
        macro = _MACROS[node.function]
        count = 2 if macro.two or len(node.args) > macro.most_of_one else 1
        cost = self.cost(target)
        entries = self._entries_of(target)
        kind = entries.kind if entries is not None else self._type(target).name
        names = [each.name for each in node.args[:count] if isinstance(each, syntax.Ident)]
        listed = kind == "list"
        key = "@indices" if listed else "@keys", entries and entries.key
        value = "@items" if listed else "@values", entries and entries.value
        bound = [key, value] if count == 2 else [value if listed else key]  # noqa: PLR2004 -- of one or two
        for name, (step, size) in zip(names, bound, strict=True):
            self._bind(name, _Variable(_extended(self._path(target), step), size))
        bodies = node.args[count:]
        costs = [self.cost(each) for each in bodies]
        last = self._size_or_unknown(bodies[-1])
        if node.function == "filter":
            # The result has the list's items.
            last = self._filtered(names[0], self._type(target))
        for name in names:
            self._variables[name].pop()
        turns = self._size_or_unknown(target)
        once, beside = macro.cost(costs)
        if macro.result == "number":
            self._sizes[id(node)] = _ONE
        else:
            self._sizes[id(node)] = turns
            if macro.result == "list":
                self._entries[id(node)] = _Entries("list", _ONE, Size(0, last.most))
        return _add(cost, beside, _multiply(turns.most, once))

    def _filtered(self, name: str, target: Type) -> Size:
        variable = self._variable(name)
        assert variable is not None
        if (declared := self._declared(variable.path)) is not None:
            return declared
        item = target.params[0] if target.params else None
        if item is not None and _is_scalar(item):
            return _ONE
        return variable.size or _UNKNOWN


def _child(kind: Type, step: str) -> Type | None:
    if step in {"@items", "@values"}:
        return kind.params[-1] if kind.name in {"list", "map"} else None
    if step == "@keys":
        return kind.params[0] if kind.name == "map" else None
    found = kind.fields.get(step)
    return found.type if found is not None else None


def _literal_size(node: syntax.Expr) -> Size | None:
    if isinstance(node, syntax.Literal):
        length = len(node.value) if isinstance(node.value, str | bytes) else 1
        return Size(length, length)
    if isinstance(node, syntax.ListLiteral):
        return Size(len(node.items), len(node.items))
    if isinstance(node, syntax.MapLiteral):
        return Size(len(node.entries), len(node.entries))
    return None


def _is_scalar(kind: Type) -> bool:
    if kind.name == "optional_type":
        return _is_scalar(kind.params[0])
    return kind.name in _SCALARS


class _Macro(NamedTuple):
    """Macro with a loop: the type of its result, the cost of an iteration, and the remaining cost."""

    result: str
    cost: Callable[[list[int]], tuple[int, int]]
    two: bool = False
    """Whether the macro always has two variables."""
    most_of_one: int = 2
    """The number of arguments above which the macro has two variables."""


def _collect(costs: list[int], put: int) -> int:
    """Return the cost of an iteration: a condition (if any), an expression, and `put` to add its value."""
    *condition, last = costs
    return _add(*condition, last, put)


_MACROS: Mapping[str, _Macro] = {
    "all": _Macro("number", lambda costs: (_add(3, *costs), 1)),
    "exists": _Macro("number", lambda costs: (_add(4, *costs), 1)),
    "exists_one": _Macro("number", lambda costs: (_add(2, *costs), 2)),
    "existsOne": _Macro("number", lambda costs: (_add(2, *costs), 2)),
    "map": _Macro("list", lambda costs: (_collect(costs, 12), _NEW_LIST + 1), most_of_one=3),
    "filter": _Macro("list", lambda costs: (_collect(costs, 13), _NEW_LIST + 1)),
    "transformList": _Macro("list", lambda costs: (_collect(costs, 12), _NEW_LIST + 1), two=True),
    "transformMap": _Macro("map", lambda costs: (_collect(costs, 3), _NEW_MAP + 1), two=True),
    "transformMapEntry": _Macro("map", lambda costs: (_collect(costs, 2), _NEW_MAP + 1), two=True),
}

_Cost = tuple[int, Size | None]
"""The cost of a call, and the size of its result where it is known."""


class _Arguments:
    """Arguments of the call whose cost is estimated."""

    def __init__(self, coster: _Coster, overload: Overload, values: Sequence[_Value]) -> None:
        self._coster = coster
        self.overload = overload
        self.values = values
        self.sizes = [each.size or _UNKNOWN for each in values]

    def text(self, index: int, factor: float = 1) -> int:
        """Return the cost of reading the characters of an argument."""
        return _times(self.sizes[index].most, factor * _TEXT)

    def items(self) -> tuple[Type, Size] | None:
        """Return the type and the size of the items in the first argument, or None if it is not a list."""
        return self._coster.items_of(self.values[0])

    def number(self, index: int) -> int | None:
        """Return the value of an argument that is a constant integer, else None."""
        node = self.values[index].node if index < len(self.values) else None
        return node.value if isinstance(node, syntax.Literal) and type(node.value) is int else None


def _pass(call: _Arguments) -> _Cost:
    items = call.items()
    if items is None:
        return call.text(0), None
    kind, item = items
    turn = _add(1, _times(item.most, _TEXT)) if kind in {STRING, BYTES} else 1
    return _multiply(call.sizes[0].most, turn), None


def _replace(call: _Arguments) -> _Cost:
    size, old, new = call.sizes[:3]
    return call.text(0, 2), Size(
        _replaced(size.least, old.most, new.least, shorter=old.most > new.least),
        _replaced(size.most, old.least, new.most, shorter=new.most > old.least),
    )


def _replaced(size: int, old: int, new: int, *, shorter: bool) -> int:
    """Return a bound for a text's length after `new` characters replace each match of `old` characters."""
    if old == 0:  # between all characters
        return _add(_multiply(min(size + 1, UNLIMITED), new), size)
    return _multiply(math.ceil(float(size) / float(old)), new) if shorter else size


def _split(call: _Arguments) -> _Cost:
    limit = call.number(2)
    return call.text(0, 2), Size(0, call.sizes[0].most if limit is None else limit % 2**64)


def _join(call: _Arguments) -> _Cost:
    count, items = call.sizes[0], call.items()
    size = Size(0, 0) if items is None else _product(count, items[1])
    if len(call.sizes) > 1:
        between = Size(max(count.least - 1, 0), max(count.most - 1, 0))
        size = _sum(size, _product(call.sizes[1], between))
    return _times(size.most, _TEXT), size


def _search(call: _Arguments) -> int:
    text = _times(_add(call.sizes[0].most, 1), _TEXT)
    return _multiply(text, _times(call.sizes[1].most, _REGEX))


def _holds_address(call: _Arguments) -> int:
    cost = _times(2 * _ADDRESS, _TEXT)
    return _add(cost, call.text(1)) if call.overload.params[1] == STRING else cost


def _equal(call: _Arguments) -> _Cost | None:
    kind, other = call.values[0].type, call.values[1]
    if kind != other.type:
        return None
    if kind in _CONSTANT_EQUALITY:
        return 1, None
    if kind == FORMAT:
        return _times(_FORMAT_TEXT, _TEXT), None
    if kind == URL:
        return _times(1 if other.size is None else other.size.most, _TEXT), None
    return None


def _sets(factor: float) -> Callable[[_Arguments], _Cost]:
    return lambda call: (_add(_times(_product(*call.sizes[:2]).most, factor), 1), None)


def _listed(factor: float, size: Size) -> tuple[int, Size]:
    return _add(_times(size.most, factor), 1, _NEW_LIST), size


def _slice(call: _Arguments) -> _Cost:
    start, end = call.number(1), call.number(2)
    last = call.sizes[0].most if end is None else max(end, 0)
    size = (last - max(start or 0, 0)) % 2**64
    return _listed(1, Size(size, size))


def _range(call: _Arguments) -> _Cost:
    given = call.number(0)
    count = UNLIMITED if given is None else max(given, 0)
    return _listed(1, Size(count, count))


def _flatten(call: _Arguments) -> _Cost:
    depth = 1 if len(call.values) == 1 else call.number(1)
    return _listed(float(UNLIMITED if depth is None else max(depth, 0)), call.sizes[0])


def _sort(call: _Arguments) -> _Cost:
    text = call.overload.params[0].params[0] in {STRING, BYTES}
    return _listed(2 + _TEXT if text else 2, _product(call.sizes[0], call.sizes[0]))


_ESTIMATES: Mapping[str, Callable[[_Arguments], _Cost | None]] = {
    **dict.fromkeys(_ONE_PASS, _pass),
    # The method `ip` returns the address of a network.
    **dict.fromkeys(_PARSED, lambda call: (1 if call.overload.member else call.text(0), None)),
    **dict.fromkeys(
        ("url", "lowerAscii", "upperAscii", "substring", "trim"), lambda call: (call.text(0), call.sizes[0])
    ),
    **dict.fromkeys(("find", "findAll"), lambda call: (_search(call), Size(0, call.sizes[0].most))),
    **dict.fromkeys(("startsWith", "endsWith"), lambda call: (call.text(1), None)),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _sets(1)),
    "sets.equivalent": _sets(2),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "matches": lambda call: (_search(call), None) if call.overload.member else None,
    "contains": lambda call: (_multiply(call.text(0), call.text(1)), None),
    "format": lambda call: (call.text(0), None),
    "strings.quote": lambda call: (
        call.text(0),
        Size(call.sizes[0].least + 2, (call.sizes[0].most * 2 + 2) % 2**64),
    ),
    "ip.isCanonical": lambda call: (call.text(0, 2), None),
    "containsIP": lambda call: (_holds_address(call), None),
    "containsCIDR": lambda call: (_add(_holds_address(call), _times(_ADDRESS, _TEXT), 1), None),
    "validate": lambda call: (_times(call.text(1), _FORMAT_REGEX * _REGEX), None),
    "_==_": _equal,
    "slice": _slice,
    "lists.range": _range,
    "reverse": lambda call: _listed(1, call.sizes[0]),
    "flatten": _flatten,
    "distinct": lambda call: _listed(2, _product(call.sizes[0], call.sizes[0])),
    "sort": _sort,
}
