"""Which fields of an object have changed, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manager.api import Resource

_SHOWN = 8

_METADATA = ("labels", "annotations", "ownerReferences", "finalizers")
"""What of it is not the server's own."""


def changed_fields(before: Resource, after: Resource, wanted: Resource) -> list[str]:
    """The paths of what differs, as the server names them: `.spec.replicas`; values may be secret.

    The status is left out, and so is what others have set meanwhile and is not `wanted`. Of very many the
    first are named, and the last entry counts the others.
    """
    ours = _content(wanted)
    # `apply` adds the owner to what is wanted.
    ours["metadata"].setdefault("ownerReferences", [])
    found = list(_differences("", _content(before), _content(after), ours))
    if len(found) > _SHOWN:
        found[_SHOWN:] = [f"{len(found) - _SHOWN} more"]
    return found


def _content(obj: Resource) -> dict[str, Any]:
    wire = obj.to_wire()
    wire.pop("status", None)
    metadata = wire.get("metadata", {})
    wire["metadata"] = {name: metadata[name] for name in _METADATA if name in metadata}
    return wire


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
