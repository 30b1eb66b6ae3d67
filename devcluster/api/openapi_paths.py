"""The paths of OpenAPI documents: each resource's operations with their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from devcluster.api.openapi_schemas import REF, component_of, list_component_of
from devcluster.kinds.resource import Resource
from devcluster.types import table

__all__ = ["paths_of"]

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
