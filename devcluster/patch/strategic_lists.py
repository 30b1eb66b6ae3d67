"""Lists in a strategic merge patch: items by key, directives, and order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from devcluster.patch.go_format import format_v, type_name

Items = list[Any]


class BadPatch(Exception):
    """Error for an invalid patch; message and status code are the real server's."""

    def __init__(self, message: str, code: int = 500) -> None:
        super().__init__(message)
        self.code = code


def expect_list(value: Any) -> None:
    """Raise BadPatch for a value that is not a list."""
    if not isinstance(value, list):
        raise BadPatch(f"expected a []interface {{}}, but received a {type_name(value)}")


def expect_key(item: Any, key: str) -> None:
    """Raise BadPatch for an item that has no merge key."""
    if not isinstance(item, dict):
        raise BadPatch(f"expected a map[string]interface {{}}, but received a {type_name(item)}")
    if key not in item:
        raise BadPatch(f"map: {format_v(item)} does not contain declared merge key: {key}")


def element_type(*several: Items) -> str:
    """Return the Go name of the items' common type; raise BadPatch if their types differ."""
    found = ""
    for items in several:
        for item in items:
            current = type_name(item)
            if not found:
                found = current
                if isinstance(item, list):
                    raise BadPatch("lists of lists are not supported", 422)
            elif current != found:
                shown = format_v([list(each) for each in several])
                raise BadPatch(f"list element types are not identical: {shown}")
    if not found:
        raise BadPatch("no elements in any of the given slices")
    return found


def position(items: Items, key: str, value: Any) -> int | None:
    """Return the index of the first item in which the field `key` has this value, or None."""
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise BadPatch(f"value for key {index} is not a map")
        if key in item and item[key] == value:
            return index
    return None


def apply_item_directives(original: Items, patch: Items, key: str) -> tuple[Items, Items]:
    """Apply the `$patch` directives in the items of `patch`; return both without directives."""
    plain: Items = []
    original = list(original)
    replace = False
    for item in patch:
        directive = item.get("$patch")
        if "$patch" not in item:
            plain.append(item)
        elif directive == "delete":
            expect_key(item, key)
            while (at := position(original, key, item[key])) is not None:
                del original[at]
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise BadPatch("merging lists cannot yet be specified in the patch")
        else:
            raise BadPatch(f"unknown patch type: {format_v(directive)} in map: {format_v(item)}")
    return (plain, []) if replace else (original, plain)


def check_order(patch: Items, order: Items, key: str) -> None:
    """Raise BadPatch unless `order` contains the patch's items in the same order."""
    if not patch or not order:
        return
    wanted = [item for item in patch if not (isinstance(item, dict) and item.get("$patch") == "delete")]
    if key:
        for item in patch:
            if not isinstance(item, dict):
                expect_key(item, key)
    done = at = 0
    while done < len(wanted) and at < len(order):
        if isinstance(wanted[done], dict) and "$patch" in wanted[done]:
            done += 1
            continue
        if key:
            expect_key(wanted[done], key)
            expect_key(order[at], key)
        if (wanted[done][key] == order[at][key]) if key else (wanted[done] == order[at]):
            done += 1
        at += 1
    if done < len(wanted) and at >= len(order):
        said = f"$setElementOrder list:\n{format_v(order)}\n"
        raise BadPatch(f"The order in patch list:\n{format_v(patch)}\n doesn't match {said}")


def in_order(merged: Items, order: Items, original: Items, patch: Items, key: str) -> Items:
    """Return the merged list in the order of `$setElementOrder`; raise BadPatch for items of mixed types."""
    element_type(original, patch)
    return ordered(merged, order, order, original, key)


def ordered(merged: Items, mentioned: Items, order: Items, original: Items, key: str) -> Items:
    """Sort the `mentioned` items in the given order; all other items keep their places between them."""
    if key:
        for item in (*merged, *order, *original):
            if not isinstance(item, dict) or key not in item:
                raise BadPatch(f"map: {format_v(item)} does not contain declared merge key: {key}")
    in_mentioned, in_given, in_original = (_finder(each, key) for each in (mentioned, order, original))
    known = [in_mentioned(item) >= 0 for item in merged]
    ours = [item for item, is_known in zip(merged, known, strict=True) if is_known]
    theirs = [item for item, is_known in zip(merged, known, strict=True) if not is_known]
    ours.sort(key=in_given)
    theirs.sort(key=in_original)
    result: Items = []
    while ours and theirs:
        left, right = in_original(theirs[0]), in_original(ours[0])
        result.append(theirs.pop(0) if 0 <= left < right else ours.pop(0))
    return [*result, *theirs, *ours]


def _finder(items: Items, key: str) -> Callable[[Any], int]:
    """Return a function that returns the first index of an item, or -1; it is fast for long lists."""
    places: dict[Any, int] = {}
    for index, item in enumerate(items):
        places.setdefault(_hashable(item[key] if key else item), index)
    return lambda item: places.get(_hashable(item[key] if key else item), -1)


def _hashable(value: Any) -> Any:
    if isinstance(value, dict | list):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return value
