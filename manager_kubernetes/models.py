"""Models of kubernetes-asyncio as objects of the library."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kubernetes_asyncio.client import ApiClient

from manager.api import GroupVersionKind, Resource, Unstructured
from manager.client.write import KubernetesModel
from manager_kinds.factory import kind_of, kinds_named

_serializer = ApiClient.__new__(ApiClient)  # its constructor opens a session

_named = re.compile(r"(V[0-9]+(?:(?:alpha|beta)[0-9]+)?)([A-Z]\w*)").fullmatch


def to_resource(model: KubernetesModel, kinds: Iterable[type[Resource]]) -> Resource:
    """Return the object that a model stands for, as the package itself serialises it.

    Its class is the one of `kinds` with that apiVersion and kind, else the library's, else `Unstructured`.
    A model without them is taken for the library's kind of its name: `V1Deployment`, `V1ConfigMap`.

    Raises ValueError if no kind has the model's name, so it has to name `api_version` and `kind` itself.
    """
    wire = _serializer.sanitize_for_serialization(model)
    name, gvk = type(model).__name__, None
    if "apiVersion" in wire and "kind" in wire:
        gvk = GroupVersionKind.from_api_version(wire["apiVersion"], wire["kind"])
    elif (found := _named(name)) is not None:
        gvk = next(iter(kinds_named(found[1].lower(), found[2])), None)
    if gvk is None:
        raise ValueError(f"{name} has to name its kind: {name}(api_version=..., kind=..., ...)")
    kind = next((each for each in kinds if each.gvk == gvk), None) or kind_of(gvk)
    if kind is None:
        namespaced = bool(wire.get("metadata", {}).get("namespace"))
        kind = Unstructured.of(gvk.api_version, gvk.kind, namespaced=namespaced)
    return kind.model_validate({**wire, "apiVersion": gvk.api_version, "kind": gvk.kind})
