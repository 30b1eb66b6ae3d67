"""JSON patches and merge patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from devcluster.errors import StatusError, request_entity_too_large


def merge_patch(document: Any, patch: Any) -> Any:
    """Return the patched document; neither argument is changed, and unchanged parts are shared."""
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
    """Copy a value without fields that are null; nulls in lists stay."""
    if isinstance(value, dict):
        return {name: without_nulls(below) for name, below in value.items() if below is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


MAX_OPERATIONS: Final = 10_000


def json_patch(document: Any, operations: list[dict[str, Any]]) -> Any:
    """Return the document after the operations; the argument is unchanged.

    Raises:
        StatusError: 422 for an impossible operation or a failed test; 413 for too many operations.
    """
    if len(operations) > MAX_OPERATIONS:
        raise request_entity_too_large(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        )
    patched = _copied(document)
    for operation in operations:
        run = _OPERATIONS.get(operation.get("op") or "", _unknown)
        try:
            patched = run(patched, operation)
        except _Refused:
            # The real server does not reveal the error.
            message = "the server rejected our request due to an error in our request"
            raise StatusError(422, "Invalid", message, details={}) from None
    return patched


class _Refused(Exception):
    """The operation cannot be done."""


def _unknown(_document: Any, _operation: dict[str, Any]) -> Any:
    raise _Refused


def _add(document: Any, operation: dict[str, Any]) -> Any:
    _insert(document, _path(operation), _copied(operation.get("value")))
    return document


def _remove(document: Any, operation: dict[str, Any]) -> Any:
    _take(document, _path(operation))
    return document


def _replace(document: Any, operation: dict[str, Any]) -> Any:
    path, value = _path(operation), _copied(operation.get("value"))
    if not path:
        if not isinstance(value, dict | list):
            raise _Refused
        return value
    container, key = _find(document, path)
    if isinstance(container, dict):
        container[key] = value  # the real server's library does not check whether the key exists
    else:
        container[_index(container, key)] = value
    return document


def _move(document: Any, operation: dict[str, Any]) -> Any:
    value = _take(document, _path(operation, "from"))
    _insert(document, _path(operation), value)
    return document


def _copy(document: Any, operation: dict[str, Any]) -> Any:
    value = _get(document, _path(operation, "from"))
    _insert(document, _path(operation), _copied(value))
    return document


def _test(document: Any, operation: dict[str, Any]) -> Any:
    path = _path(operation)
    found = _get(document, path) if path else document
    if not _equal(found, operation.get("value")):
        raise _Refused
    return document


_OPERATIONS: Final[dict[str, Callable[[Any, dict[str, Any]], Any]]] = {
    "add": _add,
    "copy": _copy,
    "move": _move,
    "remove": _remove,
    "replace": _replace,
    "test": _test,
}


def _path(operation: dict[str, Any], name: str = "path") -> str:
    path = operation.get(name)
    if not isinstance(path, str):
        raise _Refused
    return path


def _find(document: Any, path: str) -> tuple[Any, str]:
    """Return the map or list that holds the last step of a path, and that step."""
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
    """Return a step's index, from the end if negative; `end` allows indexes beyond the items."""
    try:
        index = int(step)
    except ValueError:
        raise _Refused from None
    size = len(items) + end
    if not -size <= index < size:
        raise _Refused
    return index + size if index < 0 else index


def _get(document: Any, path: str) -> Any:
    return _child(*_find(document, path))


def _child(container: Any, step: str) -> Any:
    """Return the value at a step; None for a missing field."""
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
    """Copy a JSON value deeply."""
    if isinstance(value, dict):
        return {name: _copied(below) for name, below in value.items()}
    return [_copied(below) for below in value] if isinstance(value, list) else value


def _equal(one: Any, other: Any) -> bool:
    """Compare JSON values, where True is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
