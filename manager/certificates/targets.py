"""Objects that tell the API server which CAs to trust: webhook configurations and CRDs with conversion."""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson

from manager.kube.decoding import json_object
from manager.kube.errors import KubeError, NotFound
from manager.kube.transport import Transport
from manager.util.program import Program
from manager.webhook.configurations import (
    MUTATING,
    VALIDATING,
    ClientConfig,
    conversion_by,
    field_manager_of,
    webhook_configurations,
)
from manager.webhook.registration import Webhooks
from manager.webhook.request import JsonObject

DEFINITION = "CustomResourceDefinition"

_API_VERSIONS = {DEFINITION: "apiextensions.k8s.io/v1"}
_ADMISSION = "admissionregistration.k8s.io/v1"

_DEADLINE = 10.0

_NARROWING = ("matchConditions", "namespaceSelector", "objectSelector")
"""Fields of a webhook that exclude objects: the server adds empty ones if we do not set them."""

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl stores the last applied configuration as JSON."""


class Absent(Exception):
    """A place for a CA bundle is missing; the one-line message gives the reason."""


@dataclass(frozen=True, slots=True)
class Found:
    """The current state of a target."""

    bundles: tuple[bytes, ...]
    """The CA bundle of each of its webhooks; an empty text without a bundle."""

    hosts: tuple[str, ...]
    """The host names that the server's certificate must contain, each once."""

    intact: bool
    """Whether everything except the bundles is as we want it."""

    body: Mapping[str, Any] = field(repr=False)
    """The object; empty if it has to be created."""


class Target:
    """An object with CA bundles: a webhook configuration or a CustomResourceDefinition.

    In an installed object, only the CA bundles of our webhooks are changed. With `whole`, this program
    replaces all webhooks or the whole conversion in it. An apply would keep other managers' fields, such as
    the Service of an installation, beside our URL, and the API server accepts only one of the two. A later
    installation replaces our fields again (see `_noted`).
    """

    def __init__(
        self,
        transport: Transport,
        program: Program,
        kind: str,
        name: str,
        wanted: Any,
        *,
        whole: bool = False,
        until_stopped: bool = False,
    ) -> None:
        """Create a target for the object of this `kind` and `name`.

        `wanted` is our `webhooks` or `spec.conversion`, without bundles. With `until_stopped`, an annotation
        of the object contains the replaced configuration, for `restore`.
        """
        self._transport = transport
        self._kind, self.name = kind, name
        self._field_manager = field_manager_of(program)
        self._wanted = wanted
        self._ours = {each["name"] for each in wanted} if isinstance(wanted, list) else set()
        self._whole = whole
        self._until_stopped = until_stopped
        self._label, self._before = f"{program.name}/until-stopped", f"{program.name}/before"
        self._collection = f"/apis/{_API_VERSIONS.get(kind, _ADMISSION)}/{kind.lower()}s"
        self.path = f"{self._collection}/{name}"

    def __str__(self) -> str:
        return f"{self._kind} {self.name}"

    @property
    def is_used(self) -> bool:
        """Return whether this program has a webhook in the object."""
        return bool(self._wanted)

    async def read(self) -> JsonObject:
        """Return the object. Raises `KubeError`."""
        return json_object(await self._transport.request("GET", self.path, deadline=_DEADLINE), "an object")

    async def look(self) -> Found:
        """Read the object's current state. Raises `Absent`, and `KubeError` if it cannot be read."""
        is_definition = self._kind == DEFINITION
        try:
            body = await self.read()
        except NotFound:
            body = {}
            if is_definition or not self._whole:
                lack = (
                    ": there is nothing to convert" if is_definition else ", so its webhooks are not called"
                )
                raise Absent(f"{self} is not installed{lack}") from None
        _, part = part_of(body)
        webhooks = called = self._our_webhooks(part)
        if self._whole:
            called = webhooks_in(self._wanted)
        elif is_definition and (part or {}).get("strategy") != "Webhook":
            raise Absent(f"{self} has no conversion by webhook: install the one that belongs to this manager")
        elif not webhooks:
            raise Absent(f"{self} has none of our webhooks, so they are not called")
        return Found(
            tuple(map(bundle_of, _configs(webhooks))),
            tuple(dict.fromkeys(host for each in _configs(called) for host in hosts_of(each))),
            intact=not self._whole or _is_intact(part, self._wanted),
            body=body,
        )

    async def inject(self, found: Found, bundle: bytes) -> None:
        """Write the bundle to all our webhooks in the object, if they are unchanged since `found`.

        Raises `KubeError`. After a change, the error is `Invalid`, `Conflict`, `NotFound` or `AlreadyExists`,
        and nothing is written.
        """
        text = base64.b64encode(bundle).decode()
        if self._whole:
            await self._write(found.body, _with_bundle(self._wanted, text))
            return
        pointer, part = part_of(found.body)
        operations: list[JsonObject] = []
        for place, webhook in self._our_webhooks(part).items():
            operations += (
                {"op": "test", "path": f"{pointer}{place}/{name}", "value": webhook[name]}
                for name in ("name", "clientConfig")
                if name in webhook
            )
            path = f"{pointer}{place}/clientConfig/caBundle"
            operations.append({"op": "add", "path": path, "value": text})
        await self._send("PATCH", self.path, operations)

    async def restore(self, body: Mapping[str, Any]) -> None:
        """Restore the configuration in an annotation of `body`, unless the object has changed since.

        An object that did not exist before is deleted. Raises `KubeError`.
        """
        annotations, metadata = annotations_of(body), body["metadata"]
        try:
            part = orjson.loads(annotations.pop(self._before))
        except orjson.JSONDecodeError:
            raise KubeError(f"the annotation {self._before} is not JSON") from None
        if part is None and self._kind != DEFINITION:
            version = {name: metadata[name] for name in ("uid", "resourceVersion")}
            options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": version}
            await self._send("DELETE", self.path, options)
            return
        labels = dict(metadata.get("labels") or {})
        labels.pop(self._label, None)
        await self._replace(body, part, annotations, labels)

    def is_marked(self, body: Mapping[str, Any]) -> bool:
        """Return whether `body` has the annotation with the configuration that `restore` brings back."""
        return self._before in annotations_of(body)

    async def _write(self, body: Mapping[str, Any], part: Any) -> None:
        """Create the object with `part` (`webhooks` or `spec.conversion`), or replace this part in `body`."""
        is_definition = self._kind == DEFINITION
        written: JsonObject = {
            "apiVersion": _API_VERSIONS.get(self._kind, _ADMISSION),
            "kind": self._kind,
            "metadata": {"name": self.name},
            **({"spec": {"conversion": part}} if is_definition else {"webhooks": part}),
        }
        labels = None
        if self._until_stopped and not is_definition:
            # By this label, `make uninstall` finds the configurations.
            ours = written["metadata"]["labels"] = {self._label: "true"}
            labels = {**((body.get("metadata") or {}).get("labels") or {}), **ours}
        annotations = _noted(body, written)
        if self._until_stopped:
            # Our own URLs, or those of a manager that was killed.
            if any(self.is_marked(body) or each in urls_in(written) for each in urls_in(body)):
                annotations.setdefault(self._before, "null")
            else:
                annotations[self._before] = orjson.dumps(part_of(body)[1]).decode()
        if body:
            await self._replace(body, part, annotations, labels)
            return
        written["metadata"]["annotations"] = annotations
        await self._send("POST", self._collection, written)

    async def _replace(
        self,
        body: Mapping[str, Any],
        part: Any,
        annotations: Mapping[str, str],
        labels: Mapping[str, str] | None,
    ) -> None:
        version = body["metadata"]["resourceVersion"]
        tested = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
        values = {part_of(body)[0]: part, "/metadata/annotations": annotations, "/metadata/labels": labels}
        added = [{"op": "add", "path": path, "value": new} for path, new in values.items() if new is not None]
        await self._send("PATCH", self.path, [tested, *added])

    async def _send(self, method: str, path: str, body: object) -> None:
        """Send a request; raises `KubeError`, which is `Invalid` if a `test` of a JSON Patch fails."""
        await self._transport.request(
            method,
            path,
            query={} if method == "DELETE" else {"fieldManager": self._field_manager},
            body=orjson.dumps(body),
            content_type="application/json-patch+json" if method == "PATCH" else "application/json",
            deadline=_DEADLINE,
        )

    def _our_webhooks(self, part: Any) -> dict[str, Mapping[str, Any]]:
        found = webhooks_in(part)
        if self._whole or not isinstance(part, list):
            return found
        return {place: each for place, each in found.items() if each.get("name") in self._ours}


def targets_of(
    transport: Transport, webhooks: Webhooks, program: Program, at: ClientConfig, prefix: str, **how: bool
) -> list[Target]:
    """Return a program's two webhook configurations, and its CustomResourceDefinitions with conversion.

    `at` tells the API server where the webhooks are. The names of the configurations begin with `prefix`;
    `how` has options of `Target`.
    """
    made = webhook_configurations(webhooks, at, program, prefix=prefix)
    wanted = {each["kind"]: each["webhooks"] for each in made}
    targets = [
        Target(transport, program, kind, f"{prefix}{name}", wanted.get(kind), **how)
        for kind, name in (
            ("MutatingWebhookConfiguration", MUTATING),
            ("ValidatingWebhookConfiguration", VALIDATING),
        )
    ]
    for each in webhooks.conversions:
        name = f"{each.hub.plural}.{each.hub.gvk.group}"
        targets.append(Target(transport, program, DEFINITION, name, conversion_by(at), **how))
    return targets


def part_of(body: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the JSON pointer and the value of the object's `webhooks` or `spec.conversion`."""
    if (spec := body.get("spec")) is not None:
        return "/spec/conversion", spec.get("conversion")
    return "/webhooks", body.get("webhooks")


def annotations_of(body: Mapping[str, Any]) -> dict[str, str]:
    """Return a copy of an object's annotations."""
    return dict((body.get("metadata") or {}).get("annotations") or {})


def webhooks_in(part: Any) -> dict[str, Mapping[str, Any]]:
    """Return the webhooks in `webhooks` or `spec.conversion`, by JSON pointers relative to that part."""
    if isinstance(part, list):
        return {f"/{index}": each for index, each in enumerate(part)}
    webhook = (part or {}).get("webhook")
    return {"/webhook": webhook} if webhook else {}


def urls_in(body: Mapping[str, Any]) -> list[str]:
    """Return the URLs that an API server calls for an object."""
    return [str(url) for each in _configs(webhooks_in(part_of(body)[1])) if (url := each.get("url"))]


def _configs(webhooks: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [each.get("clientConfig") or {} for each in webhooks.values()]


def bundle_of(client_config: Mapping[str, Any]) -> bytes:
    """Return the CA bundle of a clientConfig; empty if it is missing or not base64."""
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
    """Return the host; an IP address in the canonical form of certificates."""
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
    """Return whether our part of an object has the wanted content, ignoring the CA bundles."""
    # The API server does not store a clientConfig with both a Service and a URL.
    return _contains(found, wanted) and (
        not isinstance(wanted, list)
        or all(
            (one.get(field) or None) == (other.get(field) or None)
            for one, other in zip(found, wanted, strict=True)
            for field in _NARROWING
        )
    )


def _contains(found: object, wanted: object) -> bool:
    """Return whether `found` contains everything in `wanted`; fields added by the server are ignored."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return all(name in found and _contains(found[name], value) for name, value in wanted.items())
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_contains, found, wanted))
    return found == wanted


def _noted(found: Mapping[str, Any], written: JsonObject) -> dict[str, str]:
    """Return an object's annotations with `written` in the last-applied annotation, like `kubectl apply`.

    `kubectl apply` removes recorded fields that a later apply lacks, and keeps unrecorded ones. Without the
    record, our URL would remain beside the Service of a later installation. The API server accepts only one
    of the two, and would refuse the apply until an administrator removed the URL.
    """
    annotations = annotations_of(found)
    before: JsonObject = {}
    with suppress(orjson.JSONDecodeError):  # kubectl rejects an unreadable record, too
        if isinstance(decoded := orjson.loads(annotations.get(_LAST_APPLIED, "")), dict):
            before = decoded
    note = {**before, **written}
    for name in ("metadata", "spec"):
        if name in written and isinstance(old := before.get(name), dict):
            note[name] = {**old, **written[name]}
    return {**annotations, _LAST_APPLIED: orjson.dumps(note).decode() + "\n"}
