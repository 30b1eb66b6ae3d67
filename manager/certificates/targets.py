"""Objects that tell the API server which CAs to trust: webhook configurations and converted CRDs."""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

import orjson

from manager.kube.decoding import json_object
from manager.kube.errors import NotFound
from manager.kube.transport import Transport
from manager.webhook.request import JsonObject
from manager.webhook.until_stopped import UntilStopped

_DEADLINE = 10.0


class Absent(Exception):
    """Missing place for a CA bundle; the one-line message says why, and what would change that."""


@dataclass(frozen=True, slots=True)
class Found:
    """A target as it is now."""

    bundles: tuple[bytes, ...]
    """The CA bundle of each of its webhooks; empty texts where there is none."""

    hosts: tuple[str, ...]
    """The names under which the API server calls them, in the order in which they stand there."""

    intact: bool
    """Whether all else is as we want it."""

    body: Mapping[str, Any] = field(repr=False)
    """The object; empty if it is to be created."""


class Target(Protocol):
    """API server object that holds CA bundles."""

    def __str__(self) -> str:
        """Kind and name, for messages."""

    async def look(self) -> Found:
        """Read the object's current state.

        Raises `Absent`, and `KubeError` when the state cannot be read.
        """

    async def inject(self, found: Found, bundle: bytes) -> None:
        """Put the bundle everywhere in it, if it is still as it was found.

        Raises `KubeError`: `Invalid` or `Conflict`, with nothing written, when it has changed meanwhile.
        """


def bundle_of(client_config: Mapping[str, Any]) -> bytes:
    """Return the CA bundle of a clientConfig; empty when it is missing or not base64."""
    try:
        return base64.b64decode(client_config.get("caBundle") or "", validate=True)
    except (binascii.Error, ValueError, TypeError):
        return b""


def hosts_of(client_config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the host names that a server's certificate must cover for a clientConfig.

    For a Service, the API server checks the first of the two names; clients in the cluster use the
    second one.
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


def _contains(found: object, wanted: object) -> bool:
    """Return whether `found` contains everything in `wanted`; fields that the server added are ignored."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return all(name in found and _contains(found[name], value) for name, value in wanted.items())
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_contains, found, wanted))
    return found == wanted


async def _get(transport: Transport, path: str) -> dict[str, Any]:
    """Return the object at `path`. Raises `KubeError`, including `NotFound`."""
    return json_object(await transport.request("GET", path, deadline=_DEADLINE), "an object")


async def _send_patch(
    transport: Transport, path: str, operations: list[dict[str, Any]], *, field_manager: str
) -> None:
    """Send a JSON patch. Raises `KubeError`, `Invalid` when one of its tests fails."""
    await transport.request(
        "PATCH",
        path,
        query={"fieldManager": field_manager},
        body=orjson.dumps(operations),
        content_type="application/json-patch+json",
        deadline=_DEADLINE,
    )


_NARROWING = ("matchConditions", "namespaceSelector", "objectSelector")
"""What of a webhook leaves objects out: the server has them wherever they are not wanted, and empty."""

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl keeps what it has applied, as JSON."""


def _noted(found: Mapping[str, Any], written: JsonObject) -> dict[str, str]:
    """Return an object's annotations with `written` in the last-applied annotation, as `kubectl apply` does.

    `kubectl apply` removes recorded fields that a later apply no longer names, and keeps unrecorded ones.
    Without the record, our URL would remain beside the Service of a later installation. The API server
    accepts only one of the two, and would refuse the apply until an administrator removed the URL.

    Args:
        found: the current object; empty if there is none.
        written: our part of the object, with apiVersion, kind and name. It replaces what was recorded of the
            same fields; records of other fields stay.
    """
    annotations: dict[str, str] = dict((found.get("metadata") or {}).get("annotations") or {})
    before = _decoded(annotations.get(_LAST_APPLIED, ""))
    note = {**before, **written}
    for part in ("metadata", "spec"):
        if part in written and isinstance(old := before.get(part), dict):
            note[part] = {**old, **written[part]}
    return {**annotations, _LAST_APPLIED: orjson.dumps(note).decode() + "\n"}


def _decoded(note: str) -> JsonObject:
    """Parse a last-applied annotation; an unreadable one counts as empty, as kubectl rejects it too."""
    try:
        decoded = orjson.loads(note)
    except orjson.JSONDecodeError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


class InstalledConfiguration:
    """`Target` for an installed webhook configuration, where only the CA bundles of our webhooks are ours.

    Other programs' webhooks in the configuration stay unchanged, as they have their own CAs.
    """

    def __init__(
        self, transport: Transport, kind: str, name: str, webhooks: Iterable[str], *, field_manager: str
    ) -> None:
        """Select our webhooks in one configuration.

        Args:
            transport: for the requests.
            kind: MutatingWebhookConfiguration or ValidatingWebhookConfiguration.
            name: of the configuration.
            webhooks: the names of ours in it.
            field_manager: under which writes are booked.
        """
        self._transport = transport
        self._kind, self._name = kind, name
        self._webhooks = frozenset(webhooks)
        self._field_manager = field_manager
        self._path = f"{_collection(kind)}/{name}"

    def __str__(self) -> str:
        return f"{self._kind} {self._name}"

    async def look(self) -> Found:
        """See `Target`."""
        try:
            body = await _get(self._transport, self._path)
        except NotFound:
            raise Absent(f"{self} is not installed, so its webhooks are not called") from None
        configs = [each.get("clientConfig") or {} for _, each in self._ours(body)]
        if not configs:
            raise Absent(f"{self} has none of our webhooks, so they are not called")
        hosts = dict.fromkeys(host for each in configs for host in hosts_of(each))
        return Found(tuple(map(bundle_of, configs)), tuple(hosts), intact=True, body=body)

    async def inject(self, found: Found, bundle: bytes) -> None:
        """Write `bundle` as `Target` describes; the patch tests names, addresses and old bundles."""
        text = base64.b64encode(bundle).decode()
        operations: list[dict[str, Any]] = []
        for index, webhook in self._ours(found.body):
            path = f"/webhooks/{index}"
            operations += [
                {"op": "test", "path": f"{path}/name", "value": webhook["name"]},
                {"op": "test", "path": f"{path}/clientConfig", "value": webhook["clientConfig"]},
                {"op": "add", "path": f"{path}/clientConfig/caBundle", "value": text},
            ]
        await _send_patch(self._transport, self._path, operations, field_manager=self._field_manager)

    def _ours(self, body: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
        """Our webhooks, and at which place they stand."""
        found = enumerate(body.get("webhooks") or ())
        return [(index, each) for index, each in found if each.get("name") in self._webhooks]


class WrittenConfiguration:
    """`Target` for a webhook configuration that this program writes as a whole, with webhooks behind a URL.

    The configuration is replaced rather than applied. Applying would keep other managers' fields, such as the
    Service of an installation, beside our URL, and the API server accepts only one of the two. A later
    installation takes the configuration back (see `_noted`).
    """

    def __init__(
        self,
        transport: Transport,
        wanted: JsonObject,
        *,
        field_manager: str,
        until_stopped: UntilStopped | None = None,
    ) -> None:
        """Take the configuration to write.

        Args:
            transport: for the requests.
            wanted: all of it but the CA bundles.
            field_manager: under which writes are booked.
            until_stopped: marks it as one that goes when the manager stops.
        """
        self._until_stopped = until_stopped
        self._transport = transport
        self._query = {"fieldManager": field_manager}
        self._wanted = wanted
        self._name: str = wanted["metadata"]["name"]
        self._collection = _collection(wanted["kind"])
        hosts = (host for each in wanted["webhooks"] for host in hosts_of(each["clientConfig"]))
        self._hosts = tuple(dict.fromkeys(hosts))

    def __str__(self) -> str:
        return f"{self._wanted['kind']} {self._name}"

    async def look(self) -> Found:
        """See `Target`."""
        try:
            body = await _get(self._transport, f"{self._collection}/{self._name}")
        except NotFound:
            return Found((), self._hosts, intact=False, body={})
        webhooks = body.get("webhooks") or []
        configs = [each.get("clientConfig") or {} for each in webhooks]
        # With a Service and a URL, a clientConfig would not have been stored.
        intact = _contains(webhooks, self._wanted["webhooks"]) and all(
            (found.get(field) or None) == (wanted.get(field) or None)
            for found, wanted in zip(webhooks, self._wanted["webhooks"], strict=True)
            for field in _NARROWING
        )
        return Found(tuple(map(bundle_of, configs)), self._hosts, intact=intact, body=body)

    async def inject(self, found: Found, bundle: bytes) -> None:
        """See `Target`. It replaces the version that was found, or creates it if there was none."""
        text = base64.b64encode(bundle).decode()
        webhooks = [
            {**each, "clientConfig": {**each["clientConfig"], "caBundle": text}}
            for each in self._wanted["webhooks"]
        ]
        written = {**self._wanted, "webhooks": webhooks}
        # Other metadata stays, including the resource version, which makes the write conditional.
        metadata = found.body.get("metadata") or self._wanted["metadata"]
        if (mark := self._until_stopped) is not None:
            metadata = {**metadata, "labels": {**(metadata.get("labels") or {}), **mark.labels}}
            written["metadata"] = {**written["metadata"], "labels": mark.labels}
        annotations = _noted(found.body, written)
        if mark is not None:
            annotations |= mark.mark(found.body)
        metadata = {**metadata, "annotations": annotations}
        body = orjson.dumps({**written, "metadata": metadata})
        method, path = (
            ("PUT", f"{self._collection}/{self._name}") if found.body else ("POST", self._collection)
        )
        await self._transport.request(method, path, query=self._query, body=body)


def _collection(kind: str) -> str:
    return f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"


class ConvertedDefinition:
    """`Target` for the conversion of a CustomResourceDefinition; the rest of the CRD is not ours.

    Without `wanted`, the installed conversion stays as it is, except for the CA bundle.
    """

    def __init__(
        self,
        transport: Transport,
        name: str,
        *,
        field_manager: str,
        wanted: JsonObject | None = None,
        until_stopped: UntilStopped | None = None,
    ) -> None:
        """Select the CRD and, optionally, the conversion to write.

        Args:
            transport: for the requests.
            name: of the CRD, such as "pets.petstore.example.com".
            field_manager: the field manager of the writes.
            wanted: the desired `spec.conversion` without the bundle, until a later apply replaces it (see
                `_noted`); None keeps the installed conversion.
            until_stopped: marks the written conversion for removal when the manager stops.
        """
        self._until_stopped = until_stopped
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
            body = await _get(self._transport, self._path)
        except NotFound:
            raise Absent(f"{self} is not installed: there is nothing to convert") from None
        conversion = _conversion(body)
        config = _client_config(conversion)
        if self._wanted is not None:
            wanted = _client_config(self._wanted)
            intact = _contains(conversion, self._wanted)
            return Found((bundle_of(config),), hosts_of(wanted), intact=intact, body=body)
        if conversion.get("strategy") != "Webhook":
            raise Absent(f"{self} has no conversion by webhook: install the one that belongs to this manager")
        return Found((bundle_of(config),), hosts_of(config), intact=True, body=body)

    async def inject(self, found: Found, bundle: bytes) -> None:
        """Write `bundle` as `Target` describes; the patch tests the conversion, and a version of ours."""
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
            annotations = _noted(found.body, written)
            if self._until_stopped is not None:
                annotations |= self._until_stopped.mark(found.body)
            operations += [
                {"op": "test", "path": "/metadata/resourceVersion", "value": version},
                {"op": "add", "path": "/metadata/annotations", "value": annotations},
            ]
        await _send_patch(self._transport, self._path, operations, field_manager=self._field_manager)


def _conversion(definition: Any) -> dict[str, Any]:
    """Return `spec.conversion`; the API server fills in a default where it was omitted."""
    return (definition.get("spec") or {}).get("conversion") or {}


def _client_config(conversion: dict[str, Any]) -> dict[str, Any]:
    return (conversion.get("webhook") or {}).get("clientConfig") or {}
