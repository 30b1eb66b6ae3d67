"""Permissions of a migration, and a check for missing ones before it starts.

`config/rbac/` has a ClusterRole of these rules for the operators' kinds, without a binding. A user who
upgrades is usually an administrator, and a Job gets the role for its run.
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
    """Return the rules for `kinds`, which may include several versions of one kind.

    CRDs: read them, keep the position of a migration in an annotation, and trim the stored versions, which
    are in their status. Objects: list them, and patch the written part, which is the status where that is a
    subresource.
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
    """Return the missing permissions in words, such as "patch pets.petstore.example.com".

    The check keeps a migration of hours from failing at its last step. If the server cannot answer it, the
    migration starts, and a forbidden request fails later.
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
