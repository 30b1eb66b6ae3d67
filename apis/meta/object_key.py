"""What names an object among those of its kind."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ObjectKey"]


class ObjectKey(NamedTuple):
    """Namespace and name; the namespace of a cluster-scoped object is the empty string."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
