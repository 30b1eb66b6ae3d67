"""Parcel: a kind of the tests' own with two versions, which a webhook converts between."""

from __future__ import annotations

import functools
import json
import secrets
from typing import TYPE_CHECKING, Any

from tests.support.api_access import APPLY_PATCH, MERGE_PATCH
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane
    from tests.support.webhook_server import WebhookServer

Object = dict[str, Any]

OLD, NEW = "v1alpha1", "v1beta1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FRAGILE = "parcels.example.com/fragile"
"""The annotation in which v1alpha1 keeps what it has no field for."""


def version(name: str, spec: Object, column: str, stops: str, **more: Any) -> Object:
    """A version of a definition, with a status and a scale of its own."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "default": {}, **spec},
            "status": {"type": "object", "properties": {stops: {"type": "integer"}}},
        },
    }
    return {
        "name": name,
        "served": True,
        "storage": False,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.copies", "statusReplicasPath": f".status.{stops}"},
        },
        "additionalPrinterColumns": [
            {"name": column.title(), "type": "string", "jsonPath": f".spec.{column}"}
        ],
        **more,
    }


def definition(group: str, webhook: WebhookServer, storage: str = OLD) -> Object:
    """The definition, objects stored as `storage`."""
    text = {"type": "string"}
    number = {"type": "integer", "minimum": 1}
    shared = {"note": text, "copies": {"type": "integer"}, "lines": {"type": "array", "items": text}}
    rule = {"rule": "!has(self.width) || self.width <= self.height", "message": "must lie on its long side"}
    versions = [
        version(
            OLD,
            {
                "properties": {
                    "size": {**text, "pattern": "^[0-9]+x[0-9]+$"},
                    "via": {**text, "default": "road"},
                    **shared,
                }
            },
            "size",
            "stops",
            selectableFields=[{"jsonPath": ".spec.size"}],
            deprecated=True,
        ),
        version(
            NEW,
            {
                "properties": {
                    "width": number,
                    "height": number,
                    "fragile": {"type": "boolean", "default": False},
                    "via": text,
                    **shared,
                },
                "x-kubernetes-validations": [rule],
            },
            "width",
            "halts",
            selectableFields=[{"jsonPath": ".spec.width"}],
        ),
    ]
    for each in versions:
        each["storage"] = each["name"] == storage
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"parcels.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": "Parcel", "plural": "parcels"},
            "scope": "Namespaced",
            "conversion": webhook.conversion(),
            "versions": versions,
        },
    }


class Parcels:
    """The kind under a group of its own, in one namespace of a control plane."""

    def __init__(self, plane: ControlPlane, namespace: str, webhook: WebhookServer) -> None:
        self.plane = plane
        self.namespace = namespace
        self.webhook = webhook
        self.group = f"x{secrets.token_hex(4)}.example.com"

    @property
    def definition_path(self) -> str:
        return f"{DEFINITIONS}/parcels.{self.group}"

    def define(self, storage: str = OLD) -> None:
        """Install the definition and wait until both versions are served."""
        self.plane.api.create(DEFINITIONS, definition(self.group, self.webhook, storage))
        for each in (OLD, NEW):
            eventually(functools.partial(self.list, each))
        self.webhook.forget()

    def store_as(self, storage: str) -> None:
        """Make it the storage version, and wait until the server stores so."""
        probe = f"probe-{secrets.token_hex(4)}"
        before = self.create(storage, probe)["metadata"]["resourceVersion"]
        found = self.plane.api.get(self.definition_path)
        for each in found["spec"]["versions"]:
            each["storage"] = each["name"] == storage
        self.plane.api.request("PUT", self.definition_path, body=found)
        # The server goes on for a moment by the definition as it was. Once it does not, even a write that
        # changes nothing stores the object anew.
        eventually(lambda: self.patch(storage, probe, {})["metadata"]["resourceVersion"] != before)
        self.plane.api.delete(self.path(storage, probe))
        for each in (OLD, NEW):
            eventually(functools.partial(self.list, each))
        self.webhook.forget()

    def path(self, version: str, name: str = "", subresource: str = "") -> str:
        parts = [f"/apis/{self.group}/{version}/namespaces/{self.namespace}/parcels", name, subresource]
        return "/".join(each for each in parts if each)

    def parcel(self, version: str, name: str, **spec: Any) -> Object:
        return {
            "apiVersion": f"{self.group}/{version}",
            "kind": "Parcel",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        }

    def create(self, version: str, name: str, **spec: Any) -> Object:
        created: Object = self.plane.api.create(self.path(version), self.parcel(version, name, **spec))
        return created

    def get(self, version: str, name: str, **query: str) -> Object:
        found: Object = self.plane.api.get(self.path(version, name), **query)
        return found

    def list(self, version: str, **query: str) -> list[Object]:
        items: list[Object] = self.plane.api.get(self.path(version), **query)["items"]
        return items

    def patch(self, version: str, name: str, body: Object, **query: str) -> Object:
        return self._sent("PATCH", version, name, body, MERGE_PATCH, query)

    def apply(self, version: str, name: str, manager: str, *, force: bool = False, **spec: Any) -> Object:
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        return self._sent("PATCH", version, name, self.parcel(version, name, **spec), APPLY_PATCH, query)

    def put(self, version: str, name: str, body: Object, **query: str) -> Object:
        return self._sent("PUT", version, name, body, "application/json", query)

    def remove(self) -> None:
        """Take the definition away, and with it its objects, which must not have finalizers.

        Returns when all have gone: it takes the webhook, and a definition that stayed half deleted would keep
        every namespace of the cluster from going.
        """
        self.plane.api.delete(self.definition_path)
        eventually(lambda: self.plane.api.find(self.definition_path) is None)

    def _sent(
        self, method: str, version: str, name: str, body: Object, media: str, query: dict[str, str]
    ) -> Object:
        text = self.plane.api.request(
            method, self.path(version, name), query=query, body=body, content_type=media
        )
        written: Object = json.loads(text)
        return written


def convert(parcel: Object, api_version: str) -> Object:
    """A Parcel in another version: `size: 3x4` of v1alpha1 is `width: 3, height: 4` in v1beta1.

    `fragile`, which v1alpha1 does not have, rides in an annotation there. `stops` in the status is `halts`.
    """
    metadata, spec = dict(parcel["metadata"]), dict(parcel.get("spec") or {})
    annotations = dict(metadata.get("annotations") or {})
    if api_version.endswith("/v1beta1"):
        width, by, height = str(spec.pop("size", "")).partition("x")
        if by:
            spec |= {"width": int(width), "height": int(height)}
        if FRAGILE in annotations:
            spec["fragile"] = annotations.pop(FRAGILE) == "true"
    else:
        width, height = spec.pop("width", None), spec.pop("height", None)
        if width is not None and height is not None:
            spec["size"] = f"{width}x{height}"
        if "fragile" in spec:
            annotations[FRAGILE] = "true" if spec.pop("fragile") else "false"
    metadata["annotations"] = annotations
    converted = {**parcel, "apiVersion": api_version, "metadata": metadata, "spec": spec}
    if "status" in parcel:
        stops, halts = ("stops", "halts") if api_version.endswith("/v1beta1") else ("halts", "stops")
        converted["status"] = {
            halts if name == stops else name: value for name, value in parcel["status"].items()
        }
    return converted
