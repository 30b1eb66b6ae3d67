"""Local registrations: webhooks that point to a manager on its developer's machine, and their removal.

Each is marked with the configuration that it replaces, which is restored when the manager stops or the next
one starts. Otherwise the API server would refuse every write that the unreachable webhooks match.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson

from manager.kube.decoding import json_object
from manager.kube.errors import KubeError, NotFound
from manager.kube.transport import Transport
from manager.telemetry.logs import get_logger
from manager.util.address import is_loopback
from manager.util.program import Program
from manager.webhook.configurations import MUTATING, VALIDATING, field_manager_of
from manager.webhook.registration import Webhooks
from manager.webhook.request import JsonObject

_CONFIGURATIONS = (
    ("mutatingwebhookconfigurations", MUTATING),
    ("validatingwebhookconfigurations", VALIDATING),
)
_PATIENCE = 5.0
"""Seconds for the removal of each object, and for a connection to a URL."""

_HTTPS = 443
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

_log = get_logger("webhook.certificates")


class LocalRegistration:
    """Marks on webhook configurations and conversions that exist only while a program runs."""

    def __init__(self, transport: Transport, webhooks: Webhooks, program: Program, prefix: str) -> None:
        """`prefix` begins the names of the configurations."""
        self._transport = transport
        self._field_manager = field_manager_of(program)
        self._label = f"{program.name}/until-stopped"
        self._before = f"{program.name}/before"
        names = [f"{each.hub.plural}.{each.hub.gvk.group}" for each in webhooks.conversions]
        self._paths = [
            *(
                f"/apis/admissionregistration.k8s.io/v1/{kind}/{prefix}{name}"
                for kind, name in _CONFIGURATIONS
            ),
            *(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}" for name in names),
        ]

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels by which `make uninstall` finds the configurations."""
        return {self._label: "true"}

    def mark(self, found: Mapping[str, Any]) -> dict[str, str]:
        """Return the annotation for the object that replaces `found`, which is empty if there is none."""
        if any(_urls(found)):
            return {self._before: _annotations(found).get(self._before, "null")}
        return {self._before: orjson.dumps(part_of(found)[1]).decode()}

    async def take_away(self, url: str) -> None:
        """Put back what was there before, wherever the API server still asks at `url`. Raises nothing."""
        for path in self._paths:
            try:
                async with asyncio.timeout(_PATIENCE):
                    found = await self._get(path)
                    if any(each.startswith(f"{url.rstrip('/')}/") for each in _urls(found)):
                        await self._put_back(path, found)
                        _log_stored_version(found)
            except NotFound:
                continue
            except (KubeError, TimeoutError) as error:
                _log.warning(
                    "the API server still calls webhooks here; the next start removes them",
                    url=url,
                    object=path.rpartition("/")[2],
                    error=str(error) or "no answer in time",
                )

    async def look_for_left_over(self, *, same_machine: bool) -> None:
        """Warn once about registered URLs without a listener, and remove what a killed manager left behind.

        Removal happens only if the API server runs on this machine: else its 127.0.0.1 is not ours.
        """
        answered: dict[str, bool] = {}
        for path in self._paths:
            name = path.rpartition("/")[2]
            with contextlib.suppress(KubeError):  # not there
                if not await may(self._transport, "get", path):
                    continue  # a refused request would look as if a role lacked something
                found = await self._get(path)
                for base in {f"{parts.scheme}://{parts.netloc}" for parts in map(urlsplit, _urls(found))}:
                    here = is_loopback(urlsplit(base).hostname or "")
                    if base not in answered:
                        # A loopback address can only be tested on its own machine.
                        answered[base] = (here and not same_machine) or await _listens(base)
                    if answered[base]:
                        continue
                    if same_machine and here and self._before in _annotations(found):
                        await self._put_back(path, found)
                        event = "removed what a killed manager had left: nobody answers there"
                    else:
                        event = (
                            "the API server calls webhooks that nobody answers; start a manager there, "
                            "install what belongs to this one, or delete the configuration"
                        )
                    _log.warning(event, object=name, url=base)

    async def _put_back(self, path: str, found: Mapping[str, Any]) -> None:
        """Restore the object as it was before the mark, if it has one."""
        annotations = _annotations(found)
        if (noted := annotations.pop(self._before, None)) is None:
            return
        metadata = found["metadata"]
        where, _ = part_of(found)
        before = orjson.loads(noted)
        if before is None and where == "/webhooks":
            version = {name: metadata[name] for name in ("uid", "resourceVersion")}
            body = orjson.dumps({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": version})
            await self._transport.request("DELETE", path, body=body)
            return
        labels = dict(metadata.get("labels") or {})
        labels.pop(self._label, None)
        operations: list[JsonObject] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
            {"op": "add", "path": "/metadata/annotations", "value": annotations},
            {"op": "add", "path": "/metadata/labels", "value": labels},
        ]
        if before is not None:
            operations.append({"op": "replace", "path": where, "value": before})
        await self._transport.request(
            "PATCH",
            path,
            query={"fieldManager": self._field_manager},
            body=orjson.dumps(operations),
            content_type="application/json-patch+json",
        )

    async def _get(self, path: str) -> JsonObject:
        return json_object(await self._transport.request("GET", path), "an object")


def _log_stored_version(found: Mapping[str, Any]) -> None:
    """Log in which version a CRD's objects remain usable while no manager converts them."""
    spec = found.get("spec") or {}
    for each in spec.get("versions") or ():
        if each.get("storage"):
            kind = f"{spec['names']['plural']}.{each['name']}.{spec['group']}"
            _log.info("until a manager runs, objects can be used only in the stored version", kind=kind)


def _annotations(found: Mapping[str, Any]) -> dict[str, str]:
    return dict((found.get("metadata") or {}).get("annotations") or {})


def part_of(found: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the JSON pointer and the value of `webhooks` or `spec.conversion`, whichever the object has."""
    if (spec := found.get("spec")) is not None:
        return "/spec/conversion", spec.get("conversion")
    return "/webhooks", found.get("webhooks")


def _urls(found: Mapping[str, Any]) -> Iterator[str]:
    _, part = part_of(found)
    asked: Sequence[Any] = part if isinstance(part, list) else [(part or {}).get("webhook") or {}]
    for each in asked:
        if url := (each.get("clientConfig") or {}).get("url"):
            yield str(url)


async def may(transport: Transport, verb: str, path: str) -> bool:
    """Return whether this client has the right to a cluster-scoped object or, without a name, to all."""
    _, _, group, version, resource, name = path.split("/")
    asked = {"group": group, "version": version, "resource": resource, "name": name, "verb": verb}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = json_object(await transport.request("POST", _REVIEWS, body=orjson.dumps(review)), "a review")
    return bool((answer.get("status") or {}).get("allowed"))


async def _listens(base: str) -> bool:
    parts = urlsplit(base)
    try:
        async with asyncio.timeout(_PATIENCE):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or _HTTPS)
    except (OSError, ValueError):
        return False
    writer.close()
    return True
