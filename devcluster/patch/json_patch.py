"""JSON Patch (RFC 6902) and JSON merge patch (RFC 7386)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from devcluster.equality import equal
from devcluster.errors import StatusError, request_entity_too_large
from devcluster.patch.go_format import go_json


def merge_patch(document: Any, patch: Any) -> Any:
    """Return the patched document. The arguments stay unchanged, and the result shares unchanged parts."""
    if not isinstance(patch, dict) or not isinstance(document, dict):
        return without_nulls(patch)
    merged = dict(document)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif merged.get(name) is None:
            merged[name] = without_nulls(value)
        else:
            merged[name] = merge_patch(merged[name], value)
    return merged


def without_nulls(value: Any) -> Any:
    """Copy a value without the fields that are null; null items of lists stay."""
    if isinstance(value, dict):
        return {name: without_nulls(below) for name, below in value.items() if below is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


MAX_OPERATIONS: Final = 10_000
MAX_COPIED: Final = 3 * 1024 * 1024
"""The maximum number of bytes that all copies of a patch may add."""

_is_integer: Final = re.compile(r"[-+]?[0-9]{1,18}").fullmatch
"""Matches the list indexes that Go parses; Python's `int` also takes `1_0` and digits of other scripts."""


def json_patch(document: Any, operations: list[dict[str, Any]]) -> Any:
    """Return the document after the operations of a JSON Patch; `document` stays unchanged.

    Raises:
        StatusError: 422 for an impossible operation, a failed test or more than `MAX_COPIED` bytes of copies,
            413 for too many operations.
    """
    if len(operations) > MAX_OPERATIONS:
        raise request_entity_too_large(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        )
    return apply_operations(document, operations, lambda *_: not_applied())


def apply_operations(
    document: Any,
    operations: list[dict[str, Any]],
    refusal: Callable[[dict[str, Any], Any, str], StatusError],
) -> Any:
    """Return the document after the operations, which stays unchanged.

    Raises:
        StatusError: an operation is impossible; `refusal` builds the error from the operation, the document
            before it, and the reason if the operation exceeds `MAX_COPIED`, else "".
    """
    patched = _copied(document)
    copied = 0
    for operation in operations:
        try:
            if operation.get("op") == "copy":
                copied += _size(_get(patched, _path(operation, "from")))
                if copied > MAX_COPIED:
                    raise _Refused(  # noqa: TRY301 -- like an operation that cannot be applied
                        f"Unable to complete the copy, the accumulated size increase of copy is {copied}, "
                        f"exceeding the limit {MAX_COPIED}"
                    )
            patched = _apply(patched, operation)
        except _Refused as error:
            raise refusal(operation, patched, str(error)) from None
    return patched


def _size(value: Any) -> int:
    """Return the number of bytes in the JSON of a value, as Go encodes it."""
    return len(go_json(orjson.dumps(value).decode()).encode())


def not_applied() -> StatusError:
    """Build the error for a patch that cannot be applied; like the real server's, it gives no reason."""
    message = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", message, details={})


class _Refused(Exception):
    """Error for a JSON Patch operation that cannot be applied."""


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    """Return the document after one operation, which may change `document` in place."""
    value = _copied(operation.get("value"))
    match operation.get("op"):
        case "add":
            _insert(document, _path(operation), value)
        case "remove":
            _take(document, _path(operation))
        case "replace" if path := _path(operation):
            container, key = _find(document, path)
            # The real server's library does not check whether the key of a map exists.
            container[key if isinstance(container, dict) else _index(container, key)] = value
        case "replace" if isinstance(value, dict | list):
            return value
        case "move":
            _insert(document, _path(operation), _take(document, _path(operation, "from")))
        case "copy":
            _insert(document, _path(operation), _copied(_get(document, _path(operation, "from"))))
        case "test":
            path = _path(operation)
            if not equal(_get(document, path) if path else document, value):
                raise _Refused
        case _:
            raise _Refused
    return document


def _path(operation: dict[str, Any], name: str = "path") -> str:
    path = operation.get(name)
    if not isinstance(path, str):
        raise _Refused
    return path


def _find(document: Any, path: str) -> tuple[Any, str]:
    """Return the map or list that contains the last step of a JSON pointer, and that step."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")]
    if len(steps) == 1:
        raise _Refused
    container = document
    for step in steps[1:-1]:
        container = _child(container, step)
        if not isinstance(container, dict | list):
            raise _Refused
    return container, steps[-1]


def _index(items: list[Any], step: str, *, end: int = 0) -> int:
    """Return the list index of a step; a negative step counts from the end.

    `end` is the number of additional valid indexes after the last item.
    """
    if not _is_integer(step):
        raise _Refused
    index = int(step)
    size = len(items) + end
    if not -size <= index < size:
        raise _Refused
    return index + size if index < 0 else index


def _get(document: Any, path: str) -> Any:
    return _child(*_find(document, path))


def _child(container: Any, step: str) -> Any:
    """Return the value at a step, or None if a map has no such field."""
    if isinstance(container, dict):
        return container.get(step)
    return container[_index(container, step)]


def _take(document: Any, path: str) -> Any:
    container, key = _find(document, path)
    if isinstance(container, dict):
        if key not in container:
            raise _Refused
        return container.pop(key)
    return container.pop(_index(container, key))


def _insert(document: Any, path: str, value: Any) -> None:
    container, key = _find(document, path)
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(container, key, end=1), value)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(below) for name, below in value.items()}
    return [_copied(below) for below in value] if isinstance(value, list) else value
