"""OpenAPI documents: their paths, and responses to requests for them."""

from __future__ import annotations

import asyncio
import hashlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from devcluster.api.discovery import CHANGE, FOREIGN, VERBS, VERSION
from devcluster.api.openapi_protobuf import MEDIA_TYPE, encode_document
from devcluster.api.openapi_schemas import (
    REF,
    component_of,
    components,
    list_component_of,
    own_components,
    to_v2,
)
from devcluster.http_call import ApiRequest, ApiResponse
from devcluster.kinds.registry import Registry
from devcluster.kinds.resource import Resource
from devcluster.types import table

Operation = dict[str, Any]

_DELETE_OPTIONS = table.META + "DeleteOptions"
_PATCH = table.META + "Patch"
_STATUS = table.META + "Status"
_CONNECTIONS = frozenset({"attach", "exec", "portforward", "proxy"})
"""Subresources that the documents leave out."""

_LIST_PARAMETERS = (
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
)
_WRITE_PARAMETERS = (("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"))
_PATCH_PARAMETERS = (*_WRITE_PARAMETERS, ("force", "boolean"))
_DELETE_PARAMETERS = (
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
)
_PATCH_TYPES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"


_OPERATIONS = {
    "list": ("list", "list", "list objects of kind", _LIST_PARAMETERS),
    "create": ("post", "create", "create", _WRITE_PARAMETERS),
    "get": ("get", "read", "read", ()),
    "update": ("put", "replace", "replace", _WRITE_PARAMETERS),
    "patch": ("patch", "patch", "partially update", _PATCH_PARAMETERS),
    "delete": ("delete", "delete", "delete", _DELETE_PARAMETERS),
    "deletecollection": (
        "deletecollection",
        "delete",
        "delete collection of",
        (*_DELETE_PARAMETERS, *_LIST_PARAMETERS),
    ),
}
"""For each verb: the operation's action, the word in its name, its description and query parameters.

By the parameters of a patch, clients find out whether the server validates fields.
"""
_CODES = {"create": ("200", "201", "202"), "update": ("200", "201"), "delete": ("200", "202")}
"""The success codes of an operation; all other operations have only 200."""
_METHODS = {"get": "get", "update": "put", "delete": "delete", "patch": "patch", "create": "post"}
_OF_COLLECTION = {"list": "get", "create": "post", "deletecollection": "delete"}


def paths_of(resource: Resource) -> Iterator[tuple[str, Operation]]:
    """Yield every path of the resource, with its operations by method."""
    *all_namespaces, collection = resource.paths
    about = _Describe(resource)
    if all_namespaces and "list" in resource.verbs:
        operations: Operation = {"get": about.operation("list", everywhere=True)}
        operations["parameters"] = _in_query((*_LIST_PARAMETERS, ("pretty", "string")))
        yield all_namespaces[0], operations
    of_object = {verb: method for verb, method in _METHODS.items() if verb != "create"}
    for path, methods in ((collection, _OF_COLLECTION), (f"{collection}/{{name}}", of_object)):
        operations = {
            method: about.operation(verb) for verb, method in methods.items() if verb in resource.verbs
        }
        if operations:
            yield path, operations | {"parameters": about.path_parameters(name=path != collection)}
    for subresource in sorted(set(resource.subresources) - _CONNECTIONS):
        part = _Describe(resource, subresource)
        verbs = VERBS.get(subresource, CHANGE)
        operations = {method: part.operation(verb) for verb, method in _METHODS.items() if verb in verbs}
        operations["parameters"] = part.path_parameters(name=True)
        yield f"{collection}/{{name}}/{subresource}", operations


class _Describe:
    """Builder of the OpenAPI operations of a resource, or of one of its subresources."""

    def __init__(self, resource: Resource, subresource: str = "") -> None:
        self._resource = resource
        self._part = subresource[:1].upper() + subresource[1:]
        group, version, kind = resource.group, resource.version, resource.kind
        self._component = component_of(resource)
        if subresource in FOREIGN:
            group, version, kind = FOREIGN[subresource]
            self._component = table.name_of(group, version or "v1", kind) or ""
        self._gvk = {"group": group, "version": version or "v1", "kind": kind}
        head = "core" if not resource.group else resource.group.removesuffix(".k8s.io")
        words = [word for label in head.split(".") for word in label.split("-")]
        self._tag = words[0] + "".join(word.title() for word in words[1:]) + f"_{resource.version}"
        self._id = "".join(word[:1].upper() + word[1:] for word in (*words, resource.version))
        self._of = f"{subresource} of the specified {resource.kind}" if subresource else resource.kind

    def operation(self, verb: str, *, everywhere: bool = False) -> Operation:
        """Return the operation of a verb or, with `everywhere`, the operation for all namespaces."""
        action, word, description, parameters = _OPERATIONS[verb]
        resource = self._resource
        name = ("" if everywhere or not resource.namespaced else "Namespaced") + resource.kind
        if verb == "list":
            name += "ForAllNamespaces" if everywhere else ""
        else:
            name = ("Collection" if verb == "deletecollection" else "") + name + self._part
        operation: Operation = {
            "tags": [self._tag],
            "description": f"{description} {self._of}",
            "operationId": f"{word}{self._id}{name}",
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self._gvk,
        }
        if parameters and not everywhere:
            operation["parameters"] = _in_query(parameters)
        answered, codes = self._component, _CODES.get(verb, ("200",))
        if verb in {"create", "update"}:
            content = {"*/*": {"schema": {"$ref": REF + self._component}}}
            operation["requestBody"] = {"content": content, "required": True}
        elif verb == "patch":
            types = _PATCH_TYPES if resource.custom else (*_PATCH_TYPES, _STRATEGIC)
            content = {media_type: {"schema": {"$ref": REF + _PATCH}} for media_type in types}
            operation["requestBody"] = {"content": content, "required": True}
            codes = ("200",) if resource.custom else ("200", "201")
        elif verb in {"delete", "deletecollection"}:
            operation["requestBody"] = {"content": {"*/*": {"schema": {"$ref": REF + _DELETE_OPTIONS}}}}
            answered = _STATUS
        elif verb == "list":
            answered = list_component_of(resource)
        return operation | {"responses": _responses(answered, *codes)}

    def path_parameters(self, *, name: bool = False) -> list[Operation]:
        """Return the parameters of a path; `name` means that the path names a single object."""
        places = (["name"] if name else []) + (["namespace"] if self._resource.namespaced else [])
        return [
            {"name": place, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}
            for place in places
        ] + _in_query((("pretty", "string"),))


def _in_query(parameters: tuple[tuple[str, str], ...]) -> list[Operation]:
    return [
        {"name": name, "in": "query", "schema": {"type": type_, "uniqueItems": True}}
        for name, type_ in parameters
    ]


def _responses(component: str, *codes: str) -> Operation:
    schema = {"schema": {"$ref": REF + component}}
    content = {"application/json": schema, "application/yaml": schema}
    described = {"200": "OK", "201": "Created", "202": "Accepted"}
    answers: Operation = {code: {"description": described[code], "content": content} for code in codes}
    return answers | {"401": {"description": "Unauthorized"}}


_PREFIX = "/openapi/v3/"
_JSON = "application/json"
_ACCEPTED = frozenset({"", "*/*", "application/*", _JSON})
_PROTOBUF = frozenset({MEDIA_TYPE, MEDIA_TYPE.replace("v2.v1", "v2@v1")})


_INFO = {"title": "Kubernetes", "version": f"{VERSION['major']}.{VERSION['minor']}"}
_BEARER = {
    "BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    }
}


class OpenApi:
    """The OpenAPI documents for the kinds of a registry.

    A document's address contains the document's hash. The ETag is the hash in quotes.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = -1
        self._groups: dict[str, list[Resource]] = {}
        self._hashes: dict[str, str] = {}
        self._made: dict[str, tuple[str, asyncio.Task[bytes]]] = {}
        """The hash and body of each document; a cancelled request does not cancel the document's creation."""
        self._making = asyncio.Lock()

    async def answer(self, request: ApiRequest) -> ApiResponse | None:
        """Answer `/openapi/v2`, `/openapi/v3` and the paths below; return None for other paths.

        Version 3 is served as JSON only; clients that do not accept JSON get 406.
        """
        self._refresh()
        clauses = request.headers.get("accept", "").split(",")
        accepted = [clause.partition(";")[0].strip().lower() for clause in clauses]
        if request.path == "/openapi/v3":
            return ApiResponse(content_type="text/plain; charset=utf-8", body=self._index())
        if request.path == "/openapi/v2":
            return await self._version_2(request, accepted)
        if not request.path.startswith(_PREFIX):
            return None
        path = request.path.removeprefix(_PREFIX)
        current = self._hashes.get(path)
        if current is None:
            return ApiResponse(status=404, content_type="")
        if not _ACCEPTED & {*accepted}:
            return _not_acceptable()
        asked = request.option("hash")
        if asked and asked != current:
            headers = {"Location": f"{_PREFIX}{path}?hash={current}", "ETag": f'"{current}"'}
            return ApiResponse(status=301, headers=headers | {"Vary": "Accept"})
        resources = self._groups[path]
        body = await self._body(path, current, lambda: _encode(_make(resources)))
        return _answer(request, current, body, immutable=bool(asked))

    def _index(self) -> bytes:
        """Return the index with the documents' addresses, which contain the hashes."""
        paths = {
            path: {"serverRelativeURL": f"{_PREFIX}{path}?hash={self._hashes[path]}"}
            for path in sorted(self._groups)
        }
        return orjson.dumps({"paths": paths})

    async def _version_2(self, request: ApiRequest, accepted: list[str]) -> ApiResponse:
        wanted = next((each for each in accepted if each in _ACCEPTED | _PROTOBUF), None)
        if wanted is None:
            return _not_acceptable()
        everything = [resource for path in sorted(self._groups) for resource in self._groups[path]]

        def make() -> bytes:
            document = to_v2(_make(everything))
            return encode_document(document) if wanted in _PROTOBUF else _encode(document)

        current = _digest("".join(self._hashes.values()).encode())
        body = await self._body("v2 protobuf" if wanted in _PROTOBUF else "v2", current, make)
        answer = _answer(request, current, body)
        if wanted in _PROTOBUF:
            answer.content_type = MEDIA_TYPE
        return answer

    async def _body(self, name: str, current: str, make: Callable[[], bytes]) -> bytes:
        """Return a cached document; if its hash has changed, build it in a thread, which takes seconds."""
        made = self._made.get(name)
        if made is None or made[0] != current or _has_failed(made[1]):
            made = self._made[name] = current, asyncio.create_task(self._in_thread(make))
        return await asyncio.shield(made[1])

    async def _in_thread(self, make: Callable[[], bytes]) -> bytes:
        async with self._making:
            return await asyncio.to_thread(make)

    def _refresh(self) -> None:
        if self._generation == self._registry.generation:
            return
        self._generation = self._registry.generation
        before, self._groups = self._groups, {}
        documented = (each for each in self._registry.all() if each.custom or each.schema.openapi_name)
        for resource in sorted(documented, key=lambda each: each.plural):
            base = f"apis/{resource.group}" if resource.group else "api"
            self._groups.setdefault(f"{base}/{resource.version}", []).append(resource)
        self._hashes = {
            path: self._hashes[path] if _are_same(resources, before.get(path)) else _fingerprint(resources)
            for path, resources in self._groups.items()
        }
        self._made = {path: made for path, made in self._made.items() if self._hashes.get(path) == made[0]}


def _has_failed(task: asyncio.Task[bytes]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _are_same(resources: list[Resource], before: list[Resource] | None) -> bool:
    return before is not None and len(resources) == len(before) and all(map(operator.is_, resources, before))


def _answer(request: ApiRequest, hashed: str, body: bytes, *, immutable: bool = False) -> ApiResponse:
    tag = f'"{hashed}"'
    headers = {"ETag": tag, "Vary": "Accept"}
    if immutable:  # the address changes with the document
        headers["Cache-Control"] = "public, immutable"
    if request.headers.get("if-none-match") == tag:
        return ApiResponse(status=304, headers=headers)
    return ApiResponse(headers=headers, body=body)


def _not_acceptable() -> ApiResponse:
    return ApiResponse(status=406, content_type="", headers={"Vary": "Accept"})


def _encode(document: dict[str, Any]) -> bytes:
    """Encode a document as JSON, one schema at a time, because orjson does not release the GIL."""
    where, name = (
        (document, "definitions") if "definitions" in document else (document["components"], "schemas")
    )
    where[name] = {key: orjson.Fragment(orjson.dumps(each)) for key, each in where[name].items()}
    return orjson.dumps(document)


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
    """Collect the names of the components to which operations refer."""
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            return {reference.rpartition("/")[2]}
        return set().union(*(_mentioned(item) for item in value.values())) if value else set()
    if isinstance(value, list):
        return set().union(*(_mentioned(item) for item in value)) if value else set()
    return set()


def _fingerprint(resources: list[Resource]) -> str:
    """Return a hash of those properties of the resources that occur in the document."""
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
            each.selectable_fields,
            dict(each.schema.source) if each.custom else each.schema.openapi_name,
        )
        for each in resources
    ]
    return _digest(orjson.dumps(shown))


def _digest(data: bytes) -> str:
    return hashlib.sha512(data).hexdigest().upper()
