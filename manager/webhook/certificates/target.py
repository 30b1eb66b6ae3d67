"""What tells the API server whom to trust: the webhook configurations, and the CRDs that are converted."""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

import orjson

from manager.kube.decoding import json_object
from manager.kube.transport import Transport

__all__ = [
    "Absent",
    "Found",
    "Target",
    "bundle_of",
    "contains",
    "get",
    "hosts_of",
    "send_patch",
]

_DEADLINE = 10.0


class Absent(Exception):
    """There is nothing to write a bundle into; one line that says why, and what would change that."""


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
    """One object of the API server's that has CA bundles."""

    def __str__(self) -> str:
        """Kind and name, for messages."""

    async def look(self) -> Found:
        """As it is now. Raises `Absent`, and `KubeError` when it cannot be told."""

    async def inject(self, found: Found, bundle: bytes) -> None:
        """Put the bundle everywhere in it, if it is still as it was found.

        Raises `KubeError`: `Invalid` or `Conflict`, with nothing written, when it has changed meanwhile.
        """


def bundle_of(client_config: Mapping[str, Any]) -> bytes:
    """The CA bundle in a clientConfig; empty when there is none, or nothing that can be one."""
    try:
        return base64.b64decode(client_config.get("caBundle") or "", validate=True)
    except (binascii.Error, ValueError, TypeError):
        return b""


def hosts_of(client_config: Mapping[str, Any]) -> tuple[str, ...]:
    """The names that a server's certificate must have for a clientConfig.

    API servers ask for the first of a Service's two; the other one is for people in the cluster.
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
    """An address in the one way in which certificates show it."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def contains(found: object, wanted: object) -> bool:
    """Whether all that is wanted is there; what the server has added is not looked at."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return all(name in found and contains(found[name], value) for name, value in wanted.items())
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(contains, found, wanted))
    return found == wanted


async def get(transport: Transport, path: str) -> dict[str, Any]:
    """The object at `path`. Raises `KubeError`, `NotFound` among them."""
    return json_object(await transport.request("GET", path, deadline=_DEADLINE), "an object")


async def send_patch(
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
