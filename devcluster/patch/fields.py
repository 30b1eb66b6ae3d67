"""Sets of fields in the format of `fieldsV1`, and operations on them.

A set is a tree of dicts. A key is a step of a path: `f:name` is a field, `k:{"name":"x"}` an item of a list
with these key fields, `v:"x"` an item of a set by its value. A node without children is a member; a node with
children is a member if it has the key `.`. The root is never a member. Trees are immutable, so they may share
branches and be stored as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from devcluster.patch.go_format import go_json
from devcluster.quantity import quoted

Fields = dict[str, Any]

EMPTY: Final[Fields] = {}
"""The set of no fields."""
LEAF: Final[Fields] = {}
"""The node of a field that is a member and has no members below."""
MEMBER: Final = "."
"""The key that makes a node with children a member of the set."""

_INTEGERS = 1 << 63
"""Floats beyond this limit are not written as integers."""


def is_member(node: Fields) -> bool:
    """Return whether the field of this node is a member of the set."""
    return not node or MEMBER in node


def union(one: Fields, other: Fields) -> Fields:
    """Return the fields that are in at least one of the sets."""
    if not one:
        return other
    if not other:
        return one
    together = dict(one)
    for key, node in other.items():
        mine = together.get(key)
        if mine is None or mine is node:
            together[key] = node
        elif not mine or not node:  # one of both nodes has no children
            whole = mine or node
            together[key] = whole if not whole or MEMBER in whole else {MEMBER: LEAF, **whole}
        else:
            together[key] = union(mine, node)
    return together


def difference(one: Fields, other: Fields) -> Fields:
    """Return the fields of `one` that are not in `other`; fields below a field of `other` stay."""
    if not other or not one:
        return one
    rest: Fields = {}
    for key, node in one.items():
        if key == MEMBER:
            if MEMBER not in other:
                rest[key] = node
            continue
        theirs = other.get(key)
        if theirs is None:
            rest[key] = node
        elif not node:  # a member without children
            if theirs and MEMBER not in theirs:
                rest[key] = node
        elif not theirs:  # removes the member, not its children
            _keep(rest, key, {step: child for step, child in node.items() if step != MEMBER})
        else:
            _keep(rest, key, difference(node, theirs))
    return rest


def exclude(one: Fields, other: Fields) -> Fields:
    """Return the fields in `one` that are neither in `other` nor below a member of `other`."""
    if not other or not one:
        return one
    rest: Fields = {}
    for key, node in one.items():
        theirs = other.get(key)
        if theirs is None:
            rest[key] = node
        elif not theirs or MEMBER in theirs:
            continue
        elif not node:
            rest[key] = node
        else:
            _keep(rest, key, exclude(node, theirs))
    return rest


def intersection(one: Fields, other: Fields) -> Fields:
    """Return the fields that are in both sets."""
    both: Fields = {}
    for key, node in one.items():
        theirs = other.get(key)
        if theirs is None:
            continue
        if key == MEMBER:
            both[key] = node
        elif not node:
            if is_member(theirs):
                both[key] = LEAF
        elif not theirs:
            if MEMBER in node:
                both[key] = LEAF
        else:
            shared = intersection(node, theirs)
            if shared:
                both[key] = _tidy(shared)
    return both


def contains(fields: Fields, path: Sequence[str]) -> bool:
    """Return whether the field at `path`, a sequence of tree keys, is a member."""
    node: Fields | None = fields
    for step in path:
        node = node.get(step) if node is not None else None
        if node is None:
            return False
    return bool(path) and node is not None and is_member(node)


def of_paths(names: Iterable[str | Sequence[str]]) -> Fields:
    """Return the set of some fields, given as names or paths: `("status", ("metadata", "labels"))`."""
    fields: Fields = {}
    for path in names:
        steps = (path,) if isinstance(path, str) else tuple(path)
        node: Fields = LEAF
        for step in reversed(steps):
            node = {f"f:{step}": node}
        fields = union(fields, node)
    return fields


def paths(fields: Fields, prefix: str = "") -> Iterator[str]:
    """Yield the members as in messages (`.spec.ports[port=80].name`), a node's own before deeper ones."""
    steps = [key for key in _sorted(fields) if key != MEMBER]
    for key in steps:
        if is_member(fields[key]):
            yield prefix + shown(key)
    for key in steps:
        yield from paths(fields[key], prefix + shown(key))


def shown(key: str) -> str:
    """Return one step of a path in the form for messages."""
    kind, rest = key[0], key[2:]
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        pairs = sorted(orjson.loads(rest).items())
        return f"[{','.join(f'{name}={_scalar(value)}' for name, value in pairs)}]"
    if kind == "v":
        return f"[={_scalar(orjson.loads(rest))}]"
    return f"[{rest}]"


def ordered(fields: Fields, *, by_text: bool = False) -> Fields:
    """Return the set with sorted keys: in the real server's order, or as plain text with `by_text`."""
    if not fields:
        return fields
    if len(fields) == 1:
        ((key, node),) = fields.items()
        return {key: ordered(node, by_text=by_text)} if node else fields
    keys = sorted(fields) if by_text else _sorted(fields)
    return {key: ordered(fields[key], by_text=by_text) for key in keys}


def decode(raw: Any) -> Fields:
    """Parse a client's set, and drop keys that name no field; raise ValueError if it is not a set."""
    if not isinstance(raw, Mapping):
        raise ValueError("fieldsV1 must be an object")  # noqa: TRY004 -- bad input, not a bad call
    fields: Fields = {}
    for key, value in raw.items():
        if key == MEMBER:
            fields[MEMBER] = LEAF
            continue
        if len(key) < 2:  # noqa: PLR2004 -- a letter and a colon
            raise ValueError("key must be 2 characters long:")
        if key[1] != ":":
            raise ValueError(f"missing colon: {key}")
        if key[0] not in "fkvi":
            continue
        if key[0] in "kv" and not isinstance(orjson.loads(key[2:]), dict) and key[0] == "k":
            raise ValueError(f"expect {{ or n, but found {key[2:3]}")
        if key[0] == "i":
            int(key[2:])
        fields[key] = _tidy(decode(value))
    return fields


def item_key(keys: Mapping[str, Any]) -> str:
    """Return the path step of a list item that has these key fields."""
    return "k:" + _json({name: _number(keys[name]) for name in sorted(keys)})


def value_key(value: Any) -> str:
    """Return the path step of an item of a set by its value."""
    return "v:" + _json(_number(value))


def _keep(fields: Fields, key: str, node: Fields) -> None:
    """Store `node` in `fields` under `key`; do nothing if `node` is empty."""
    if node:
        fields[key] = _tidy(node)


def _tidy(node: Fields) -> Fields:
    return LEAF if len(node) == 1 and MEMBER in node else node


def _sorted(fields: Fields) -> list[str]:
    keys = sorted(fields)
    if len(keys) > 1 and keys[-1][0] in "kvi":  # values are compared, not their text
        keys.sort(key=_rank)
    return keys


def _rank(key: str) -> tuple[int, Any]:
    if key == MEMBER:
        return (0, ())
    kind, rest = key[0], key[2:]
    if kind == "f":
        return (1, rest)
    if kind == "k":
        return (2, [(name, _value_rank(value)) for name, value in sorted(orjson.loads(rest).items())])
    if kind == "v":
        return (3, _value_rank(orjson.loads(rest)))
    return (4, int(rest))


def _value_rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    return (1, value) if isinstance(value, str) else (3, str(value))


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else str(value)


def _number(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < _INTEGERS:
        return int(value)
    return value


def _json(value: Any) -> str:
    return go_json(orjson.dumps(value).decode())
