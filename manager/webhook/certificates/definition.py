"""A CRD whose objects are converted by a webhook, as a target."""

from __future__ import annotations

import base64
from typing import Any

from manager.kube.errors import NotFound
from manager.kube.transport import Transport
from manager.webhook.certificates.last_applied import noted
from manager.webhook.certificates.target import (
    Absent,
    Found,
    bundle_of,
    contains,
    get,
    hosts_of,
    send_patch,
)
from manager.webhook.json_object import JsonObject

__all__ = ["Definition"]


class Definition:
    """Implements `Target` with the conversion of a CustomResourceDefinition. The rest of it is not ours.

    Where nothing else is wanted, conversion is as who installed the CRD has it, but for the bundle.
    """

    def __init__(
        self, transport: Transport, name: str, *, field_manager: str, wanted: JsonObject | None = None
    ) -> None:
        """Args:
        transport: for the requests.
        name: of the CRD, such as "pets.petstore.example.com".
        field_manager: under which writes are booked.
        wanted: what its `spec.conversion` is to be but for the bundle, until somebody applies another one
            (see `last_applied`); None is what somebody has installed.
        """
        self._transport = transport
        self._name = name
        self._field_manager = field_manager
        self._wanted = wanted
        self._path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"

    def __str__(self) -> str:
        return f"CustomResourceDefinition {self._name}"

    async def look(self) -> Found:
        """See `Target`."""
        try:
            body = await get(self._transport, self._path)
        except NotFound:
            raise Absent(f"{self} is not installed: there is nothing to convert") from None
        conversion = _conversion(body)
        config = _client_config(conversion)
        if self._wanted is not None:
            wanted = _client_config(self._wanted)
            intact = contains(conversion, self._wanted)
            return Found((bundle_of(config),), hosts_of(wanted), intact=intact, body=body)
        if conversion.get("strategy") != "Webhook":
            raise Absent(f"{self} has no conversion by webhook: install the one that belongs to this manager")
        return Found((bundle_of(config),), hosts_of(config), intact=True, body=body)

    async def inject(self, found: Found, bundle: bytes) -> None:
        """See `Target`. What it tests is all of the conversion; where that is ours, the version too."""
        conversion = _conversion(found.body)
        wanted = self._wanted or conversion
        config = {**_client_config(wanted), "caBundle": base64.b64encode(bundle).decode()}
        value = {**wanted, "webhook": {**wanted["webhook"], "clientConfig": config}}
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": "/spec/conversion", "value": conversion},
            {"op": "replace", "path": "/spec/conversion", "value": value},
        ]
        if self._wanted is not None:
            written = {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": self._name},
                "spec": {"conversion": value},
            }
            version = found.body["metadata"]["resourceVersion"]
            operations += [
                {"op": "test", "path": "/metadata/resourceVersion", "value": version},
                {"op": "add", "path": "/metadata/annotations", "value": noted(found.body, written)},
            ]
        await send_patch(self._transport, self._path, operations, field_manager=self._field_manager)


def _conversion(definition: Any) -> dict[str, Any]:
    """What `spec.conversion` is; the server fills it in where it was left out."""
    return (definition.get("spec") or {}).get("conversion") or {}


def _client_config(conversion: dict[str, Any]) -> dict[str, Any]:
    return (conversion.get("webhook") or {}).get("clientConfig") or {}
