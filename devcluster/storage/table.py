"""The objects of one resource, in the order in which lists show them."""

from __future__ import annotations

import bisect

from devcluster.storage.records import Key, Stored

__all__ = ["Table", "path_of"]


def path_of(key: Key) -> str:
    """Return the sort key of an object, `namespace/name`, which sorts as etcd does on the real server."""
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


class Table:
    """Objects by the `path_of` of their key."""

    __slots__ = ("objects", "paths")

    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self.paths: list[str] = []

    def put(self, path: str, stored: Stored) -> None:
        """Add or replace."""
        if path not in self.objects:
            bisect.insort(self.paths, path)
        self.objects[path] = stored

    def remove(self, path: str) -> None:
        """Take out one that is there."""
        del self.objects[path]
        del self.paths[bisect.bisect_left(self.paths, path)]

    def select(self, namespace: str = "") -> list[Stored]:
        """Return the objects of a namespace, or all."""
        paths = self.paths
        if namespace:
            # '0' is the character after '/'.
            first = bisect.bisect_left(paths, f"{namespace}/")
            paths = paths[first : bisect.bisect_left(paths, f"{namespace}0", first)]
        objects = self.objects
        return [objects[path] for path in paths]
