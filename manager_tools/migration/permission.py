"""The rights that a migration needs, and which are missing, before anything is done.

`config/rbac/` has a ClusterRole of these rules for the operators' kinds. It is bound to nobody: a person who
upgrades is an administrator most often, and a Job is given it for as long as it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import orjson

from manager.api import Resource, crd_options
from manager.api.rights import RbacRule
from manager.kube.decoding import Decoder
from manager.kube.errors import ApiError, ProtocolError, ServerError
from manager_tools.migration.definitions import StoredDefinition
from manager_tools.migration.retry import RetryingClient

GROUP = "apiextensions.k8s.io"
DEFINITIONS = "customresourcedefinitions"


def migration_rights(kinds: Iterable[type[Resource]]) -> list[RbacRule]:
    """The rules for `kinds`, of which several may be versions of one.

    Definitions: to read them, to keep the position of a migration at them (an annotation), and to trim the
    stored versions, which are in their status. Objects: to list them, and to patch what is written of
    them, which is the status where that is apart.
    """
    rules: dict[RbacRule, None] = {}
    names: dict[str, None] = {}
    for kind in kinds:
        group, plural = kind.gvk.group, kind.plural
        names[f"{plural}.{group}"] = None
        written = f"{plural}/status" if crd_options(kind).status else plural
        rules[RbacRule((group,), (plural,), ("list",))] = None
        rules[RbacRule((group,), (written,), ("patch",))] = None
    named = tuple(names)
    return [
        RbacRule((GROUP,), (DEFINITIONS,), ("get", "patch"), named),
        RbacRule((GROUP,), (f"{DEFINITIONS}/status",), ("patch",), named),
        *rules,
    ]


_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status


_decode = Decoder(_Review, "a review")


async def missing_rights(client: RetryingClient, definition: StoredDefinition, *, dry_run: bool) -> list[str]:
    """The missing rights, in words such as "patch pets.petstore.example.com".

    A migration of hours should not fail at its last step. A server that does not tell is no obstacle: what
    is not allowed is refused later on.
    """
    missing = []
    for attributes in _needed(definition, dry_run=dry_run):
        try:
            allowed = await _allowed(client, attributes)
        except ServerError:
            raise
        except (ApiError, ProtocolError):
            return []
        if not allowed:
            resource = "/".join(filter(None, (attributes["resource"], attributes["subresource"])))
            missing.append(f"{attributes['verb']} {resource}.{attributes['group']}")
    return missing


async def _allowed(client: RetryingClient, attributes: dict[str, str]) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return _decode(await client.request("POST", _REVIEWS, body=orjson.dumps(review))).status.allowed


def _needed(definition: StoredDefinition, *, dry_run: bool) -> Iterator[dict[str, str]]:
    kind = {"group": definition.group, "version": definition.version, "resource": definition.plural}
    yield {**kind, "verb": "list", "subresource": ""}
    yield {**kind, "verb": "patch", "subresource": definition.subresource}
    if not dry_run:
        named = {"group": GROUP, "version": "v1", "resource": DEFINITIONS, "name": definition.name}
        yield {**named, "verb": "patch", "subresource": ""}
        yield {**named, "verb": "patch", "subresource": "status"}
