"""managedFields of the scale subresource, in which a field of the parent object has another name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from devcluster.patch.fields import Fields, contains, difference, of_paths
from devcluster.patch.managed_fields import Managed, encode, parse

SCALE_VERSION: Final = "autoscaling/v1"
_REPLICAS: Final = ("f:spec", "f:replicas")

Paths = Mapping[str, Sequence[str]]
"""The path of the replicas (`("spec", "replicas")`) in each served version of the parent (`apps/v1`)."""


def scale_entries(entries: Sequence[Any] | None, paths: Paths) -> list[dict[str, Any]]:
    """Return the managedFields of an object's Scale: the entries of managers that own its replicas."""
    shown = [
        dataclasses.replace(entry, api_version=SCALE_VERSION, fields=_only(("spec", "replicas")))
        for entry in parse(entries).values()
        if entry.api_version in paths and contains(entry.fields, _steps(paths[entry.api_version]))
    ]
    return encode(shown, custom=False)


def parent_entries(
    entries: Sequence[Any] | None,
    scale: Sequence[Any] | None,
    paths: Paths,
    *,
    api_version: str,
    custom: bool,
) -> list[dict[str, Any]]:
    """Return the managedFields of an object after a write to its Scale.

    Args:
        entries: the object's managedFields before the write.
        scale: the managedFields of the Scale after the write.
        paths: the path of the replicas in each version.
        api_version: the object's version in the request.
        custom: whether the object is of a custom kind.
    """
    parents, written = parse(entries), parse(scale)
    result: list[Managed] = []
    for identity, entry in parents.items():
        if entry.api_version not in paths:
            continue
        path = paths[entry.api_version]
        if not contains(entry.fields, _steps(path)):
            result.append(entry)
        elif identity in written:
            result.append(entry)
            del written[identity]
        elif left := difference(entry.fields, _only(path)):
            result.append(dataclasses.replace(entry, fields=left))
    for identity, entry in written.items():
        if contains(entry.fields, _REPLICAS):
            # Like the real server, this looks for the time at the same identity in the parent.
            time = parents[identity].time if identity in parents else ""
            result.append(Managed(identity, api_version, _only(paths[api_version]), time))
    return encode(result, custom=custom)


def _steps(path: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"f:{step}" for step in path)


def _only(path: Sequence[str]) -> Fields:
    return of_paths([path])
