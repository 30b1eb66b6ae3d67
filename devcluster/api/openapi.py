"""OpenAPI documents: their paths, and the answers to requests for them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any

import orjson

from devcluster.api.discovery import VERSION
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
_SCALE = ("autoscaling", "v1", "Scale", "io.k8s.api.autoscaling.v1.Scale")
_EVICTION = ("policy", "v1", "Eviction", "io.k8s.api.policy.v1.Eviction")
_TOKEN = ("authentication.k8s.io", "v1", "TokenRequest", "io.k8s.api.authentication.v1.TokenRequest")
_BINDING = ("", "v1", "Binding", "io.k8s.api.core.v1.Binding")

_CHANGED = ("get", "put", "patch")
_SUBRESOURCES = {
    "approval": _CHANGED,
    "binding": ("post",),
    "ephemeralcontainers": _CHANGED,
    "eviction": ("post",),
    "finalize": ("put",),
    "log": ("get",),
    "resize": _CHANGED,
    "scale": _CHANGED,
    "status": _CHANGED,
    "token": ("post",),
}
"""The methods of the subresources that are described; connections (exec, proxy) are not."""
_FOREIGN = {"binding": _BINDING, "eviction": _EVICTION, "scale": _SCALE, "token": _TOKEN}

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


def paths_of(resource: Resource) -> Iterator[tuple[str, Operation]]:
    """Yield every path of the resource, with its operations by method."""
    verbs = resource.verbs
    *all_namespaces, collection = resource.paths
    about = _Describe(resource)
    if all_namespaces and "list" in verbs:
        operations: Operation = {"get": about.listing(everywhere=True)}
        operations["parameters"] = _in_query((*_LIST_PARAMETERS, ("pretty", "string")))
        yield all_namespaces[0], operations
    operations = {}
    if "list" in verbs:
        operations["get"] = about.listing()
    if "create" in verbs:
        operations["post"] = about.creation()
    if "deletecollection" in verbs:
        operations["delete"] = about.collection_deletion()
    if operations:
        yield collection, operations | {"parameters": about.path_parameters()}
    operations = {}
    if "get" in verbs:
        operations["get"] = about.reading()
    if "update" in verbs:
        operations["put"] = about.replacement()
    if "delete" in verbs:
        operations["delete"] = about.deletion()
    if "patch" in verbs:
        operations["patch"] = about.patching()
    if operations:
        yield f"{collection}/{{name}}", operations | {"parameters": about.path_parameters(name=True)}
    for subresource in sorted(set(resource.subresources) & _SUBRESOURCES.keys()):
        part = _Describe(resource, subresource)
        make = {"get": part.reading, "put": part.replacement, "patch": part.patching, "post": part.creation}
        operations = {method: make[method]() for method in _SUBRESOURCES[subresource]}
        yield (
            f"{collection}/{{name}}/{subresource}",
            operations | {"parameters": part.path_parameters(name=True)},
        )


class _Describe:
    """The operations of a resource, or of one of its subresources."""

    def __init__(self, resource: Resource, subresource: str = "") -> None:
        self._resource = resource
        self._part = subresource[:1].upper() + subresource[1:]
        group, version, kind, component = _FOREIGN.get(
            subresource, (resource.group, resource.version, resource.kind, component_of(resource))
        )
        self._gvk = {"group": group, "version": version, "kind": kind}
        self._component = component
        head = "core" if not resource.group else resource.group.removesuffix(".k8s.io")
        words = [word for label in head.split(".") for word in label.split("-")]
        self._tag = words[0] + "".join(word.title() for word in words[1:]) + f"_{resource.version}"
        self._id = "".join(word[:1].upper() + word[1:] for word in (*words, resource.version))
        self._scope = "Namespaced" if resource.namespaced else ""
        self._of = f"{subresource} of the specified {resource.kind}" if subresource else resource.kind

    def listing(self, *, everywhere: bool = False) -> Operation:
        kind = self._resource.kind
        name = f"{kind}ForAllNamespaces" if everywhere else self._scope + kind
        operation = self._operation("list", "list", name, f"list objects of kind {kind}")
        if not everywhere:
            operation["parameters"] = _in_query(_LIST_PARAMETERS)
        operation["responses"] = _responses(list_component_of(self._resource), "200")
        return operation

    def creation(self) -> Operation:
        operation = self._operation("post", "create", self._named(), f"create {self._of}")
        operation["parameters"] = _in_query(_WRITE_PARAMETERS)
        operation["requestBody"] = _body(self._component)
        operation["responses"] = _responses(self._component, "200", "201", "202")
        return operation

    def reading(self) -> Operation:
        operation = self._operation("get", "read", self._named(), f"read {self._of}")
        operation["responses"] = _responses(self._component, "200")
        return operation

    def replacement(self) -> Operation:
        operation = self._operation("put", "replace", self._named(), f"replace {self._of}")
        operation["parameters"] = _in_query(_WRITE_PARAMETERS)
        operation["requestBody"] = _body(self._component)
        operation["responses"] = _responses(self._component, "200", "201")
        return operation

    def patching(self) -> Operation:
        """Build the patch operation; its parameters tell clients whether the server validates fields."""
        operation = self._operation("patch", "patch", self._named(), f"partially update {self._of}")
        operation["parameters"] = _in_query(_PATCH_PARAMETERS)
        types = _PATCH_TYPES if self._resource.custom else (*_PATCH_TYPES, _STRATEGIC)
        content = {media_type: {"schema": {"$ref": REF + _PATCH}} for media_type in types}
        operation["requestBody"] = {"content": content, "required": True}
        codes = ("200",) if self._resource.custom else ("200", "201")
        operation["responses"] = _responses(self._component, *codes)
        return operation

    def deletion(self) -> Operation:
        operation = self._operation("delete", "delete", self._named(), f"delete {self._of}")
        operation["parameters"] = _in_query(_DELETE_PARAMETERS)
        operation["requestBody"] = {"content": {"*/*": {"schema": {"$ref": REF + _DELETE_OPTIONS}}}}
        operation["responses"] = _responses(_STATUS, "200", "202")
        return operation

    def collection_deletion(self) -> Operation:
        name = "Collection" + self._named()
        operation = self._operation("deletecollection", "delete", name, f"delete collection of {self._of}")
        operation["parameters"] = _in_query((*_DELETE_PARAMETERS, *_LIST_PARAMETERS))
        operation["requestBody"] = {"content": {"*/*": {"schema": {"$ref": REF + _DELETE_OPTIONS}}}}
        operation["responses"] = _responses(_STATUS, "200")
        return operation

    def path_parameters(self, *, name: bool = False) -> list[Operation]:
        """Return the path parameters, and the query parameters that every operation has."""
        places = (["name"] if name else []) + (["namespace"] if self._resource.namespaced else [])
        return [
            {"name": place, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}
            for place in places
        ] + _in_query((("pretty", "string"),))

    def _named(self) -> str:
        return self._scope + self._resource.kind + self._part

    def _operation(self, action: str, verb: str, name: str, description: str) -> Operation:
        return {
            "tags": [self._tag],
            "description": description,
            "operationId": f"{verb}{self._operation_scope(name)}",
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self._gvk,
        }

    def _operation_scope(self, name: str) -> str:
        return self._id + name


def _in_query(parameters: tuple[tuple[str, str], ...]) -> list[Operation]:
    return [
        {"name": name, "in": "query", "schema": {"type": type_, "uniqueItems": True}}
        for name, type_ in parameters
    ]


def _body(component: str) -> Operation:
    return {"content": {"*/*": {"schema": {"$ref": REF + component}}}, "required": True}


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


def answer_openapi(openapi: OpenApi, request: ApiRequest) -> ApiResponse | None:
    """Answer `/openapi/v2`, `/openapi/v3` and the paths below; None for other paths.

    Version 3 is served as JSON only; clients that do not accept JSON get 406.
    """
    if request.path == "/openapi/v3":
        return ApiResponse(content_type="text/plain; charset=utf-8", body=openapi.index())
    if request.path == "/openapi/v2":
        return _answer_version_2(openapi, request)
    if not request.path.startswith(_PREFIX):
        return None
    path = request.path.removeprefix(_PREFIX)
    current = openapi.hash_of(path)
    if current is None:
        return ApiResponse(status=404, content_type="")
    if not _accepts_json(request):
        return _not_acceptable()
    asked = request.option("hash")
    if asked and asked != current:
        headers = {"Location": f"{_PREFIX}{path}?hash={current}", "ETag": f'"{current}"', "Vary": "Accept"}
        return ApiResponse(status=301, headers=headers)
    document = openapi.document(path)
    assert document is not None
    return _answer(request, document, immutable=bool(asked))


def _answer_version_2(openapi: OpenApi, request: ApiRequest) -> ApiResponse:
    for accepted in _accepted(request):
        if accepted in _ACCEPTED:
            return _answer(request, openapi.version_2())
        if accepted in _PROTOBUF:
            answer = _answer(request, openapi.version_2(protobuf=True))
            answer.content_type = MEDIA_TYPE
            return answer
    return _not_acceptable()


def _accepts_json(request: ApiRequest) -> bool:
    return any(accepted in _ACCEPTED for accepted in _accepted(request))


def _accepted(request: ApiRequest) -> list[str]:
    """Return the media types of the Accept header, in its order."""
    clauses = request.headers.get("accept", "").split(",")
    return [clause.partition(";")[0].strip().lower() for clause in clauses]


def _answer(request: ApiRequest, document: OpenApiDocument, *, immutable: bool = False) -> ApiResponse:
    tag = f'"{document.hash}"'
    headers = {"ETag": tag, "Vary": "Accept"}
    if immutable:  # the address changes with the document
        headers["Cache-Control"] = "public, immutable"
    if request.headers.get("if-none-match") == tag:
        return ApiResponse(status=304, headers=headers)
    return ApiResponse(headers=headers, body=document.body)


def _not_acceptable() -> ApiResponse:
    return ApiResponse(status=406, content_type="", headers={"Vary": "Accept"})


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
        documented = (each for each in self._registry.all() if each.custom or each.schema.openapi_name)
        for resource in sorted(documented, key=lambda each: each.plural):
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
