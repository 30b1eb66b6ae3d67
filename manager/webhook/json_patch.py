"""JSON patches (RFC 6902) from one document to another, for admission answers.

The jsonpatch library needs most of a millisecond for one changed field of an object with the managedFields of
a few managers, ten times as long as this module.

Equal parts are compared as one piece of JSON, which also distinguishes 1, 1.0 and true, as Python does not.
Only the path to a difference is walked, so a large object costs little more than its encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from manager.webhook.endpoint import encoded

Operation = dict[str, Any]

_MOST = 1000
"""Operations of a patch that looks into what has changed; with more of them, members are replaced whole."""


class _TooMany(Exception):
    """More than `_MOST` differences."""


def json_patch(before: dict[str, Any], after: dict[str, Any]) -> list[Operation]:
    """Return the operations that turn `before` into `after`; none when the two are the same JSON.

    They are as deep as possible, but replace a whole list or object where that is shorter. Values are not
    copied.
    """
    operations: list[Operation] = []
    try:
        _compare_members(before, after, "", operations)
    except _TooMany:
        operations = [*_removed(before, after, ""), *_added(before, after, "")]
        operations += (
            {"op": "replace", "path": f"/{_escaped(name)}", "value": new}
            for name, new in after.items()
            if name in before and not _same(before[name], new)
        )
    return operations


def _compare(before: Any, after: Any, path: str, operations: list[Operation]) -> None:
    start = len(operations)
    if isinstance(before, dict) and isinstance(after, dict):
        _compare_members(before, after, path, operations)
    elif isinstance(before, list) and isinstance(after, list):
        _compare_items(before, after, path, operations)
    elif not _same(before, after):
        operations.append({"op": "replace", "path": path, "value": after})
    if len(operations) > _MOST:
        raise _TooMany
    if len(operations) > start + 1:
        whole = {"op": "replace", "path": path, "value": after}
        if len(encoded(whole)) < len(encoded(operations[start:])):
            operations[start:] = [whole]


def _compare_members(
    before: dict[str, Any], after: dict[str, Any], path: str, operations: list[Operation]
) -> None:
    both = list(after)
    if before.keys() != after.keys():
        operations += _removed(before, after, path)
        operations += _added(before, after, path)
        both = [name for name in after if name in before]
    old, new = ([each[name] for name in both] for each in (before, after))
    for index in _differing(old, new):
        _compare(old[index], new[index], f"{path}/{_escaped(both[index])}", operations)


def _compare_items(before: list[Any], after: list[Any], path: str, operations: list[Operation]) -> None:
    shorter = min(len(before), len(after))
    head = next(_differing(before[:shorter], after[:shorter]), shorter)
    rest = shorter - head
    tail = next(_differing(before[::-1][:rest], after[::-1][:rest]), rest)
    both = shorter - tail
    for index in _differing(before[head:both], after[head:both]):
        _compare(before[head + index], after[head + index], f"{path}/{head + index}", operations)
    # From the last to the first, so that the numbers of those before it stay right.
    operations.extend(
        {"op": "remove", "path": f"{path}/{index}"} for index in reversed(range(both, len(before) - tail))
    )
    operations.extend(
        {"op": "add", "path": f"{path}/{index}", "value": after[index]}
        for index in range(both, len(after) - tail)
    )


def _removed(before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Operation]:
    return ({"op": "remove", "path": f"{path}/{_escaped(name)}"} for name in before if name not in after)


def _added(before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Operation]:
    return (
        {"op": "add", "path": f"{path}/{_escaped(name)}", "value": new}
        for name, new in after.items()
        if name not in before
    )


def _differing(one: Sequence[Any], other: Sequence[Any]) -> Iterator[int]:
    """Yield the places, in order, where two lists of one length do not have the same JSON."""
    left = [(0, len(one))]
    while left:
        start, end = left.pop()
        if start == end or _same(one[start:end], other[start:end]):
            continue
        if end - start == 1:
            yield start
        else:
            middle = (start + end) // 2
            left += (middle, end), (start, middle)


def _same(one: Any, other: Any) -> bool:
    """Return whether they are the same JSON, with the members of objects in the same order."""
    return bool(one == other) and encoded(one) == encoded(other)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1") if "~" in name or "/" in name else name
