"""Objects of kinds that have no model."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from types import new_class
from typing import Any

from manager.api.meta import GroupVersionKind
from manager.api.resource import Resource


class Unstructured(Resource):
    """An object of a kind without a model; its fields beside the metadata are plain JSON.

        Widget = Unstructured.of("example.com/v1", "Widget")
        widget = await client.get(Widget, key)
        widget.content["spec"]["size"] += 1
        await client.patch(widget)

    `of` returns a kind that works as every other: for sources, caches, reads, writes, owners and children. If
    scope or plural are unknown, `client.discover` asks the API server.
    """

    @staticmethod
    def of(api_version: str, kind: str, *, plural: str = "", namespaced: bool = True) -> type[Unstructured]:
        """Return the kind of that name; the same one each time.

        Requests do not need `plural`, because discovery finds it. Logs and metrics name the kind by it; the
        default is derived from `kind`.
        """
        gvk = GroupVersionKind.from_api_version(api_version, kind)
        if not gvk.version or not gvk.kind:
            raise ValueError(f"a kind has an apiVersion and a name, not {api_version!r} and {kind!r}")
        return _kind(gvk, plural or _plural(kind), namespaced)

    @staticmethod
    def parse(wire: Mapping[str, Any]) -> Unstructured:
        """Make the object of a manifest; an object without a namespace counts as cluster-scoped.

        Raises ValueError if apiVersion or kind are missing, or the metadata is of another shape.
        """
        metadata = wire.get("metadata")
        namespaced = isinstance(metadata, Mapping) and bool(metadata.get("namespace"))
        kind = Unstructured.of(
            str(wire.get("apiVersion", "")), str(wire.get("kind", "")), namespaced=namespaced
        )
        return kind.model_validate(copy.deepcopy(dict(wire)))

    @property
    def content(self) -> dict[str, Any]:
        """All but apiVersion, kind and metadata: `spec`, `status`, `data`; to be changed in place."""
        assert self.model_extra is not None
        return self.model_extra

    def to_wire(self, *, only: set[str] | None = None) -> dict[str, Any]:
        """Return the JSON form, with nulls where the content has them; with `only`, just these fields."""
        wire = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": self.metadata.to_wire(),
            **copy.deepcopy(self.content),
        }
        return wire if only is None else {name: value for name, value in wire.items() if name in only}


@cache
def _kind(gvk: GroupVersionKind, plural: str, namespaced: bool) -> type[Unstructured]:
    named = {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}
    return new_class(gvk.kind, (Unstructured,), {**named, "plural": plural, "namespaced": namespaced})


def _plural(kind: str) -> str:
    """Return the usual plural of a kind in lower case."""
    name = kind.lower()
    if name.endswith(("s", "x", "ch", "sh")):
        return f"{name}es"
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}s"
