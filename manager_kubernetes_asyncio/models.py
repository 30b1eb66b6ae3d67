"""Conversion of kubernetes-asyncio's models to objects of the library."""

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
    """Return the object for a model of kubernetes-asyncio.

    Its class is the class in `kinds` with that apiVersion and kind, else the library's, else `Unstructured`.
    A model without apiVersion and kind is converted to the library's kind with the same name: `V1Deployment`
    to Deployment.

    Raises ValueError if no kind has the model's name; the model must then set `api_version` and `kind`.
    """
    wire = _serializer.sanitize_for_serialization(model)
    name, gvk = type(model).__name__, None
    if "apiVersion" in wire and "kind" in wire:
        gvk = GroupVersionKind.from_api_version(wire["apiVersion"], wire["kind"])
    elif (found := _named(name)) is not None:
        gvk = next(iter(kinds_named(found[1].lower(), found[2])), None)
    if gvk is None:
        raise ValueError(f"{name} has to set its kind: {name}(api_version=..., kind=..., ...)")
    kind = next((each for each in kinds if each.gvk == gvk), None) or kind_of(gvk)
    if kind is None:
        namespaced = bool(wire.get("metadata", {}).get("namespace"))
        kind = Unstructured.of(gvk.api_version, gvk.kind, namespaced=namespaced)
    return kind.model_validate({**wire, "apiVersion": gvk.api_version, "kind": gvk.kind})
