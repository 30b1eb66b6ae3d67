"""Which fields of an object have changed, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manager.api import Resource
from manager.api.core_v1 import Secret, fold_string_data

_SHOWN = 8


def changed_fields(before: Resource, after: Resource, wanted: Resource) -> list[str]:
    """The paths of what differs, as the server names them: `.spec.replicas`; values may be secret.

    The status is left out, and so is what others have set meanwhile and is not `wanted`. Of very many the
    first are named, and the last entry counts the others.
    """
    extra = {**(before.model_extra or {}), **(after.model_extra or {})}
    fields = {*type(after).model_fields, *extra} - {"metadata", "status"}
    # To write a whole object out costs more than all the rest.
    differing = {name for name in fields if getattr(before, name, None) != getattr(after, name, None)}
    plain = {name for name in differing if _is_plain(type(after), name)}
    ours = _content(wanted, differing | {"string_data", "stringData"}, set())
    if wanted.gvk == Secret.gvk:
        fold_string_data(ours)
    # `apply` adds the owner to what is wanted.
    ours["metadata"].setdefault("ownerReferences", [])
    found = list(
        _differences("", _content(before, differing, plain), _content(after, differing, plain), ours)
    )
    if len(found) > _SHOWN:
        found[_SHOWN:] = [f"{len(found) - _SHOWN} more"]
    return found


def _is_plain(kind: type[Resource], name: str) -> bool:
    """Whether a field is in JSON what it is in an object that was read."""
    field = kind.model_fields.get(name)
    return field is not None and field.annotation == dict[str, Any] and not field.metadata


def _content(obj: Resource, fields: set[str], plain: set[str]) -> dict[str, Any]:
    metadata = obj.metadata
    kept = {
        "labels": metadata.labels,
        "annotations": metadata.annotations,
        "ownerReferences": [each.to_wire() for each in metadata.owner_references],
        "finalizers": metadata.finalizers,
    }
    # What else there is of it is the server's own.
    content = {"metadata": {name: value for name, value in kept.items() if value}}
    kind = type(obj)
    content |= {kind.model_fields[name].alias or name: getattr(obj, name) for name in plain}
    return content | obj.to_wire(only=fields - plain)


def _differences(path: str, before: Any, after: Any, wanted: Any) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        ours = wanted if isinstance(wanted, Mapping) else {}
        for name in dict.fromkeys((*before, *after)):
            if name in ours or name not in after:
                yield from _differences(f"{path}.{name}", before.get(name), after.get(name), ours.get(name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        # Others' items may stand between ours.
        each = wanted if isinstance(wanted, list) and len(wanted) == len(after) else after
        for number, (one, other, ours) in enumerate(zip(before, after, each, strict=True)):
            yield from _differences(f"{path}[{number}]", one, other, ours)
    else:
        yield path
