"""Objects that tell the API server which CAs to trust: webhook configurations and converted CRDs."""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson

from manager.certificates.local_registration import LocalRegistration, part_of
from manager.kube.decoding import json_object
from manager.kube.errors import NotFound
from manager.kube.transport import Transport
from manager.webhook.request import JsonObject

LOOK_EVERY = 10.0
"""Seconds between two looks while nothing has to be done: a read of the store and of each target.
So long may a bundle stay wrong that `kubectl apply` or an upgrade of a chart has reset."""

DEFINITION = "CustomResourceDefinition"

_API_VERSIONS = {DEFINITION: "apiextensions.k8s.io/v1"}
_ADMISSION = "admissionregistration.k8s.io/v1"

_DEADLINE = 10.0

_NARROWING = ("matchConditions", "namespaceSelector", "objectSelector")
"""Fields of a webhook that leave objects out: the server adds them empty where we do not set them."""

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl keeps what it has applied, as JSON."""


class Absent(Exception):
    """Missing place for a CA bundle; the one-line message says why, and what would change that."""


@dataclass(frozen=True, slots=True)
class Found:
    """A target as it is now."""

    bundles: tuple[bytes, ...]
    """The CA bundle of each of its webhooks; empty texts where there is none."""

    hosts: tuple[str, ...]
    """The names under which the API server calls them, in order."""

    intact: bool
    """Whether all else is as we want it."""

    body: Mapping[str, Any] = field(repr=False)
    """The object; empty if it has to be created."""


class Target:
    """Object of the API server that holds CA bundles: a webhook configuration or a CustomResourceDefinition.

    Without `wanted`, it stays as installed, except for the CA bundles of our webhooks. With `wanted`, this
    program writes its webhooks or its conversion as a whole, instead of applying them: that would keep other
    managers' fields, such as the Service of an installation, beside our URL, and the API server accepts only
    one of the two. A later installation takes the object back (see `_noted`).
    """

    def __init__(
        self,
        transport: Transport,
        kind: str,
        name: str,
        *,
        field_manager: str,
        ours: Collection[str] = (),
        wanted: Any = None,
        registration: LocalRegistration | None = None,
    ) -> None:
        """Select an object by its `kind` and `name`.

        `ours` are the names of our webhooks in an installed configuration. `wanted` is the desired `webhooks`
        or `spec.conversion` without bundles. `registration` marks an object that is restored when the manager
        stops.
        """
        self._transport = transport
        self._kind, self._name = kind, name
        self._field_manager = field_manager
        self._ours = frozenset(ours)
        self._wanted = wanted
        self._registration = registration
        self._collection = f"/apis/{_API_VERSIONS.get(kind, _ADMISSION)}/{kind.lower()}s"

    def __str__(self) -> str:
        return f"{self._kind} {self._name}"

    async def look(self) -> Found:
        """Read the object's current state. Raises `Absent`, and `KubeError` when it cannot be read."""
        is_definition, wanted = self._kind == DEFINITION, self._wanted
        try:
            path = f"{self._collection}/{self._name}"
            body = json_object(await self._transport.request("GET", path, deadline=_DEADLINE), "an object")
        except NotFound:
            if wanted is not None and not is_definition:
                return Found((), self._hosts(wanted), intact=False, body={})
            lack = ": there is nothing to convert" if is_definition else ", so its webhooks are not called"
            raise Absent(f"{self} is not installed{lack}") from None
        _, part = part_of(body)
        bundles = tuple(bundle_of(each.get("clientConfig") or {}) for each in self._webhooks(part).values())
        if wanted is not None:
            return Found(bundles, self._hosts(wanted), intact=_is_intact(part, wanted), body=body)
        if is_definition and (part or {}).get("strategy") != "Webhook":
            raise Absent(f"{self} has no conversion by webhook: install the one that belongs to this manager")
        if not bundles:
            raise Absent(f"{self} has none of our webhooks, so they are not called")
        return Found(bundles, self._hosts(part), intact=True, body=body)

    async def inject(self, found: Found, bundle: bytes) -> None:
        """Put the bundle everywhere in it, if it is still as it was found.

        Raises `KubeError`: `Invalid` or `Conflict`, with nothing written, when it has changed meanwhile.
        """
        text = base64.b64encode(bundle).decode()
        if self._wanted is not None:
            await self._write(found.body, _with_bundle(self._wanted, text))
            return
        pointer, part = part_of(found.body)
        operations: list[JsonObject] = []
        for place, webhook in self._webhooks(part).items():
            operations += (
                {"op": "test", "path": f"{pointer}{place}/{name}", "value": webhook[name]}
                for name in ("name", "clientConfig")
                if name in webhook
            )
            path = f"{pointer}{place}/clientConfig/caBundle"
            operations.append({"op": "add", "path": path, "value": text})
        await self._patch(operations)

    async def _write(self, body: Mapping[str, Any], part: Any) -> None:
        """Create the object with our part, or replace the part in the version that was found."""
        written: JsonObject = {
            "apiVersion": _API_VERSIONS.get(self._kind, _ADMISSION),
            "kind": self._kind,
            "metadata": {"name": self._name},
            **({"spec": {"conversion": part}} if self._kind == DEFINITION else {"webhooks": part}),
        }
        metadata = body.get("metadata") or {}
        labels = None
        if self._registration is not None and self._kind != DEFINITION:
            written["metadata"]["labels"] = self._registration.labels
            labels = {**(metadata.get("labels") or {}), **self._registration.labels}
        annotations = _noted(body, written)
        if self._registration is not None:
            annotations |= self._registration.mark(body)
        if not body:
            written["metadata"]["annotations"] = annotations
            await self._send("POST", self._collection, written)
            return
        pointer, _ = part_of(body)
        operations: list[JsonObject] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
            {"op": "add", "path": pointer, "value": part},
            {"op": "add", "path": "/metadata/annotations", "value": annotations},
        ]
        if labels is not None:
            operations.append({"op": "add", "path": "/metadata/labels", "value": labels})
        await self._patch(operations)

    async def _patch(self, operations: list[JsonObject]) -> None:
        """Send a JSON patch. Raises `KubeError`, `Invalid` when one of its tests fails."""
        path = f"{self._collection}/{self._name}"
        await self._send("PATCH", path, operations, content_type="application/json-patch+json")

    async def _send(self, method: str, path: str, body: object, **options: Any) -> None:
        query = {"fieldManager": self._field_manager}
        data = orjson.dumps(body)
        await self._transport.request(method, path, query=query, body=data, deadline=_DEADLINE, **options)

    def _webhooks(self, part: Any) -> dict[str, Mapping[str, Any]]:
        """Return our webhooks in `webhooks` or `spec.conversion`, by their JSON pointers in there."""
        if isinstance(part, list):
            found = enumerate(part)
            whole = self._wanted is not None
            return {f"/{index}": each for index, each in found if whole or each.get("name") in self._ours}
        webhook = (part or {}).get("webhook")
        return {"/webhook": webhook} if webhook else {}

    def _hosts(self, part: Any) -> tuple[str, ...]:
        configs = (each.get("clientConfig") or {} for each in self._webhooks(part).values())
        return tuple(dict.fromkeys(host for each in configs for host in hosts_of(each)))


def bundle_of(client_config: Mapping[str, Any]) -> bytes:
    """Return the CA bundle of a clientConfig; empty when it is missing or not base64."""
    try:
        return base64.b64decode(client_config.get("caBundle") or "", validate=True)
    except (binascii.Error, ValueError, TypeError):
        return b""


def hosts_of(client_config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the host names that a server's certificate must cover for a clientConfig.

    For a Service, the API server checks the first name; clients in the cluster use the second one.
    """
    if url := client_config.get("url"):
        try:
            host = urlsplit(str(url)).hostname
        except ValueError:
            return ()
        return (_normal(host),) if host else ()
    service = client_config.get("service") or {}
    name, namespace = service.get("name"), service.get("namespace")
    if not name or not namespace:
        return ()
    return f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local"


def _normal(host: str) -> str:
    """Return the host with an IP address in canonical form, as certificates show it."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def _with_bundle(part: Any, text: str) -> Any:
    if isinstance(part, list):
        return [{**each, "clientConfig": {**each["clientConfig"], "caBundle": text}} for each in part]
    [webhook] = _with_bundle([part["webhook"]], text)
    return {**part, "webhook": webhook}


def _is_intact(found: Any, wanted: Any) -> bool:
    """Return whether our part of an object is as wanted, except for the CA bundles."""
    # A clientConfig with a Service and a URL would not have been stored.
    return _contains(found, wanted) and (
        not isinstance(wanted, list)
        or all(
            (one.get(field) or None) == (other.get(field) or None)
            for one, other in zip(found, wanted, strict=True)
            for field in _NARROWING
        )
    )


def _contains(found: object, wanted: object) -> bool:
    """Return whether `found` contains everything in `wanted`; fields that the server added are ignored."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return all(name in found and _contains(found[name], value) for name, value in wanted.items())
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_contains, found, wanted))
    return found == wanted


def _noted(found: Mapping[str, Any], written: JsonObject) -> dict[str, str]:
    """Return an object's annotations with `written` in the last-applied annotation, as `kubectl apply` does.

    `kubectl apply` removes recorded fields that a later apply no longer names, and keeps unrecorded ones.
    Without the record, our URL would remain beside the Service of a later installation. The API server
    accepts only one of the two, and would refuse the apply until an administrator removed the URL.
    """
    annotations: dict[str, str] = dict((found.get("metadata") or {}).get("annotations") or {})
    before: JsonObject = {}
    with suppress(orjson.JSONDecodeError):  # kubectl rejects an unreadable record too
        if isinstance(decoded := orjson.loads(annotations.get(_LAST_APPLIED, "")), dict):
            before = decoded
    note = {**before, **written}
    for name in ("metadata", "spec"):
        if name in written and isinstance(old := before.get(name), dict):
            note[name] = {**old, **written[name]}
    return {**annotations, _LAST_APPLIED: orjson.dumps(note).decode() + "\n"}
