"""Whether we may do all of it, before anything is done."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import orjson

from manager.kube.decoding import Decoder
from manager.kube.errors import ApiError, ProtocolError, ServerError
from manager.kube.transport import Transport
from manager.migration.definition import Definition
from manager.migration.patience import Patience
from manager.migration.rights import DEFINITIONS, GROUP

__all__ = ["missing_rights"]

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status


_decode = Decoder(_Review, "a review")


async def missing_rights(
    transport: Transport, patience: Patience, definition: Definition, *, dry_run: bool
) -> list[str]:
    """What we are not allowed, each as a person would say it ("patch pets.petstore.example.com").

    A migration of hours should not fail at its last step. A server that does not tell is no obstacle: what
    is not allowed is refused later on.
    """
    missing = []
    for attributes in _needed(definition, dry_run=dry_run):
        try:
            allowed = await _allowed(transport, patience, attributes)
        except ServerError:
            raise
        except (ApiError, ProtocolError):
            return []
        if not allowed:
            resource = "/".join(filter(None, (attributes["resource"], attributes["subresource"])))
            missing.append(f"{attributes['verb']} {resource}.{attributes['group']}")
    return missing


async def _allowed(transport: Transport, patience: Patience, attributes: dict[str, str]) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    body = orjson.dumps(review)
    answer = await patience.insist(lambda: transport.request("POST", _REVIEWS, body=body))
    return _decode(answer).status.allowed


def _needed(definition: Definition, *, dry_run: bool) -> Iterator[dict[str, str]]:
    kind = {"group": definition.group, "version": definition.version, "resource": definition.plural}
    yield {**kind, "verb": "list", "subresource": ""}
    yield {**kind, "verb": "patch", "subresource": definition.subresource}
    if not dry_run:
        named = {"group": GROUP, "version": "v1", "resource": DEFINITIONS, "name": definition.name}
        yield {**named, "verb": "patch", "subresource": ""}
        yield {**named, "verb": "patch", "subresource": "status"}
