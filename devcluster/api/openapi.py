"""OpenAPI documents of the served API: version 3 for each group and version, version 2 for all in one.

A document is built on request, and cached until its content changes. Clients cache documents by hash. A hash
is computed from a document's inputs, so the index needs no documents.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import orjson

from devcluster.api.discovery import VERSION
from devcluster.api.openapi_paths import paths_of
from devcluster.api.openapi_protobuf import encode_document
from devcluster.api.openapi_schemas import component_of, components, list_component_of, own_components
from devcluster.api.openapi_v2 import to_v2
from devcluster.kinds.registry import Registry
from devcluster.kinds.resource import Resource

__all__ = ["OpenApi", "OpenApiDocument"]

_INFO = {"title": "Kubernetes", "version": f"{VERSION['major']}.{VERSION['minor']}"}
_BEARER = {
    "BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    }
}


@dataclasses.dataclass(frozen=True, slots=True)
class OpenApiDocument:
    """A document as sent; `hash` is its hash in the index and, in quotes, its entity tag."""

    body: bytes
    hash: str


class OpenApi:
    """The documents of one registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = -1
        self._groups: dict[str, list[Resource]] = {}
        self._hashes: dict[str, str] = {}
        self._made: dict[str, OpenApiDocument] = {}

    def index(self) -> bytes:
        """Return `/openapi/v3`, the index with the documents' addresses, which contain the hashes."""
        self._refresh()
        paths = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._hashes[path]}"}
            for path in sorted(self._groups)
        }
        return orjson.dumps({"paths": paths})

    def hash_of(self, path: str) -> str | None:
        """Return the hash of the document of `api/v1`, `apis/apps/v1` and so on; None for an unknown path."""
        self._refresh()
        return self._hashes.get(path)

    def document(self, path: str) -> OpenApiDocument | None:
        """Return `/openapi/v3/{path}`, with `path` as for `hash_of`; None for an unknown path."""
        wanted = self.hash_of(path)
        if wanted is None:
            return None
        made = self._made.get(path)
        if made is None or made.hash != wanted:
            made = OpenApiDocument(orjson.dumps(_make(self._groups[path])), wanted)
            self._made[path] = made
        return made

    def version_2(self, *, protobuf: bool = False) -> OpenApiDocument:
        """Return `/openapi/v2`, in JSON or in protobuf."""
        self._refresh()
        wanted = _digest("".join(self._hashes.values()).encode())
        name = "v2 protobuf" if protobuf else "v2"
        made = self._made.get(name)
        if made is None or made.hash != wanted:
            everything = [resource for path in sorted(self._groups) for resource in self._groups[path]]
            document = to_v2(_make(everything))
            body = encode_document(document) if protobuf else orjson.dumps(document)
            made = self._made[name] = OpenApiDocument(body, wanted)
        return made

    def _refresh(self) -> None:
        if self._generation == self._registry.generation:
            return
        self._generation = self._registry.generation
        self._groups = {}
        for resource in sorted(self._registry.all(), key=lambda each: each.plural):
            base = f"apis/{resource.group}" if resource.group else "api"
            self._groups.setdefault(f"{base}/{resource.version}", []).append(resource)
        self._hashes = {path: _fingerprint(resources) for path, resources in self._groups.items()}
        self._made = {path: made for path, made in self._made.items() if self._hashes.get(path) == made.hash}


def _make(resources: list[Resource]) -> dict[str, Any]:
    paths = {}
    custom = {}
    roots = set()
    for resource in resources:
        for path, operations in paths_of(resource):
            paths[path] = operations
            roots |= _mentioned(operations)
        roots |= {component_of(resource), list_component_of(resource)}
        if resource.custom:
            custom.update(own_components(resource))
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": components(sorted(roots), custom), "securitySchemes": _BEARER},
    }


def _mentioned(value: Any) -> set[str]:
    """Collect the names of the components that operations refer to."""
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            return {reference.rpartition("/")[2]}
        return set().union(*(_mentioned(item) for item in value.values())) if value else set()
    if isinstance(value, list):
        return set().union(*(_mentioned(item) for item in value)) if value else set()
    return set()


def _fingerprint(resources: list[Resource]) -> str:
    """Return a hash that changes with anything that the document shows."""
    shown = [
        (
            each.group,
            each.version,
            each.kind,
            each.list_kind,
            each.plural,
            each.namespaced,
            each.verbs,
            each.subresources,
            dict(each.schema.source) if each.custom else each.schema.openapi_name,
        )
        for each in resources
    ]
    return _digest(orjson.dumps(shown))


def _digest(data: bytes) -> str:
    return hashlib.sha512(data).hexdigest().upper()
