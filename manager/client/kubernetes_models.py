"""Models of kubernetes-asyncio, such as `V1Deployment`, as objects of the library.

The package is not imported here, as the caller of `resource_of` has imported its model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from manager.api import GroupVersionKind, Resource, Unstructured
from manager_kinds.factory import kind_of, kinds_named

__all__ = ["KubernetesModel", "resource_of"]

_named = re.compile(r"(V[0-9]+(?:(?:alpha|beta)[0-9]+)?)([A-Z]\w*)").fullmatch


class KubernetesModel(Protocol):
    """A model of kubernetes-asyncio, as far as its types tell."""

    def to_dict(self, serialize: bool = False) -> dict[str, Any]:
        """Return its fields by their Python names."""
        ...

    def to_str(self) -> str:
        """Return these as text."""
        ...


def resource_of(obj: Resource | KubernetesModel, kinds: Iterable[type[Resource]] = ()) -> Resource:
    """Return the object that a model stands for, as the package itself serialises it; an object as it is.

    Its class is the one of `kinds` with that apiVersion and kind, else the library's, else `Unstructured`.
    A model without them is taken for the library's kind of its name: `V1Deployment`, `V1ConfigMap`.

    Raises:
        TypeError: it is no model.
        ValueError: no kind has the model's name, so it has to name `api_version` and `kind` itself.
    """
    if isinstance(obj, Resource):
        return obj
    if not hasattr(obj, "openapi_types"):
        raise TypeError(
            f"{type(obj).__name__} is neither an object of manager.api nor a kubernetes-asyncio model"
        )
    wire = _serializer().sanitize_for_serialization(obj)
    name = type(obj).__name__
    gvk: GroupVersionKind | None
    if "apiVersion" in wire and "kind" in wire:
        gvk = GroupVersionKind.from_api_version(wire["apiVersion"], wire["kind"])
    else:
        found = _named(name)
        gvk = None if found is None else next(iter(kinds_named(found[1].lower(), found[2])), None)
    if gvk is None:
        raise ValueError(f"{name} has to name its kind: {name}(api_version=..., kind=..., ...)")
    namespaced = bool(wire.get("metadata", {}).get("namespace"))
    kind = next((each for each in kinds if each.gvk == gvk), None) or kind_of(gvk)
    if kind is None:
        kind = Unstructured.of(gvk.api_version, gvk.kind, namespaced=namespaced)
    return kind.model_validate({**wire, "apiVersion": gvk.api_version, "kind": gvk.kind})


@cache
def _serializer() -> Any:
    client = import_module("kubernetes_asyncio.client").ApiClient
    return client.__new__(client)  # its constructor opens a session
