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
    """An object of a kind without a model; what it holds beside its metadata is plain JSON.

        Widget = Unstructured.of("example.com/v1", "Widget")
        widget = await client.get(Widget, key)
        widget.content["spec"]["size"] += 1
        await client.patch(widget)

    What `of` answers is a kind as every other: for sources, caches, reads, writes, owners and what is owned.
    Where scope or plural are not known either, `client.discover` asks the API server.
    """

    @staticmethod
    def of(api_version: str, kind: str, *, plural: str = "", namespaced: bool = True) -> type[Unstructured]:
        """The kind of that name; the same one each time.

        Requests do not need `plural`, because discovery tells it: it is how logs and metrics call the kind,
        and made from `kind` where it is not given.
        """
        gvk = GroupVersionKind.from_api_version(api_version, kind)
        if not gvk.version or not gvk.kind:
            raise ValueError(f"a kind has an apiVersion and a name, not {api_version!r} and {kind!r}")
        return _kind(gvk, plural or _plural(kind), namespaced)

    @staticmethod
    def parse(wire: Mapping[str, Any]) -> Unstructured:
        """The object that a manifest says; without a namespace, it is taken for a cluster-scoped one.

        Raises ValueError where apiVersion or kind are missing, or the metadata is of another shape.
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
    """How a kind is called where nobody has chosen otherwise."""
    name = kind.lower()
    if name.endswith(("s", "x", "ch", "sh")):
        return f"{name}es"
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}s"
