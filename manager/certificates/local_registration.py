"""Local registrations: webhooks that point to a manager on a developer's machine, and their removal.

An annotation of each registration contains the replaced configuration, which is restored when the manager
stops or the next one starts. Otherwise the API server would refuse every write that matches the unreachable
webhooks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from manager.certificates.targets import Target, urls_in
from manager.kube.decoding import json_object
from manager.kube.errors import KubeError, NotFound
from manager.kube.transport import Transport
from manager.telemetry.logs import get_logger
from manager.util.address import is_loopback

_PATIENCE = 5.0
"""Seconds for the removal of each registration, and for a connection to a URL."""

_HTTPS = 443
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

_log = get_logger("webhook.certificates")


async def take_away(targets: Iterable[Target], url: str) -> None:
    """Restore the earlier configuration of each target that still points to `url`; log any failure."""
    for target in targets:
        try:
            async with asyncio.timeout(_PATIENCE):
                found = await target.read()
                is_ours = any(each.startswith(f"{url.rstrip('/')}/") for each in urls_in(found))
                if is_ours and target.is_marked(found):
                    await target.restore(found)
                    _log_stored_version(found)
        except NotFound:
            continue
        except (KubeError, TimeoutError) as error:
            _log.warning(
                "cannot remove this manager's webhook URL from an object; the next start tries again",
                url=url,
                object=target.name,
                error=str(error) or "no answer in time",
            )


async def remove_left_over(transport: Transport, targets: Iterable[Target]) -> None:
    """Restore configurations that a killed manager has replaced, if nothing listens at its URL.

    The API server has to run on this machine: another machine's loopback address is not ours.
    """
    for target in targets:
        with contextlib.suppress(KubeError):  # for example, the object does not exist
            if not await may(transport, "get", target.path):
                continue  # a refused request would look as if a role lacked a rule
            found = await target.read()
            for base in {f"{parts.scheme}://{parts.netloc}" for parts in map(urlsplit, urls_in(found))}:
                here = is_loopback(urlsplit(base).hostname or "")
                if here and target.is_marked(found) and not await _listens(base):
                    await target.restore(found)
                    _log.warning(
                        "removed the webhooks of a killed manager: nothing listens at their URL",
                        object=target.name,
                        url=base,
                    )


def _log_stored_version(found: Mapping[str, Any]) -> None:
    """Log the version in which a CRD's objects stay usable while no manager converts them."""
    spec = found.get("spec") or {}
    for each in spec.get("versions") or ():
        if each.get("storage"):
            kind = f"{spec['names']['plural']}.{each['name']}.{spec['group']}"
            _log.info("removed a webhook: clients can use objects only in the storage version", kind=kind)


async def may(transport: Transport, verb: str, path: str) -> bool:
    """Return whether this client may do `verb` on a cluster-scoped object; collections' paths end in `/`."""
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
