"""Discovery: groups, versions and resources."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from devcluster.api.negotiation import encode, negotiate
from devcluster.errors import StatusError
from devcluster.http_call import ApiRequest, ApiResponse
from devcluster.kinds.registry import Registry
from devcluster.kinds.resource import Resource
from devcluster.version import KUBERNETES

_NOT_FOUND = "the server could not find the requested resource"
_NOT_ALLOWED = "the server does not allow this method on the requested resource"


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The media type of aggregated documents, in Accept headers and in responses."""

_MAJOR, _MINOR, _ = KUBERNETES.removeprefix("v").split(".")
VERSION = {
    "major": _MAJOR,
    "minor": _MINOR,
    "emulationMajor": _MAJOR,
    "emulationMinor": _MINOR,
    "minCompatibilityMajor": _MAJOR,
    "minCompatibilityMinor": str(int(_MINOR) - 1),
    "gitVersion": f"{KUBERNETES}+devcluster",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
"""The response to `/version`."""

CHANGE = ("get", "patch", "update")
_CONNECT = ("create", "get")
_PROXY = ("create", "delete", "get", "patch", "update")
_SCALE = ("autoscaling", "v1", "Scale")
FOREIGN = {
    "scale": _SCALE,
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "attach": ("", "", "PodAttachOptions"),
    "binding": ("", "", "Binding"),
    "exec": ("", "", "PodExecOptions"),
    "portforward": ("", "", "PodPortForwardOptions"),
}
"""Subresources whose objects have another kind than their resource: (group, version, kind)."""
VERBS = {
    "attach": _CONNECT,
    "binding": ("create",),
    "eviction": ("create",),
    "exec": _CONNECT,
    "finalize": ("update",),
    "log": ("get",),
    "portforward": _CONNECT,
    "proxy": _PROXY,
    "token": ("create",),
}
"""Verbs of subresources that have other verbs than get, update and patch."""
_CHANGES = ("create", "patch", "update")
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_PATHS = ("/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version")


class Discovery:
    """The discovery documents, which are built at a request and cached until the registry changes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: dict[tuple[str, ...], bytes | None] = {}
        self._generation = registry.generation

    async def answer(self, request: ApiRequest) -> ApiResponse | None:
        """Answer `/`, `/version`, `/api`, `/apis` and the paths below; return None for other paths.

        Raises:
            StatusError: 404 for an unknown path, 405 for a method other than GET and HEAD (on some paths,
                like the real server), 406 if no offered media type is accepted.
        """
        match [part for part in request.path.split("/") if part]:
            case []:
                document = self._document(self._root)
            case ["version"]:
                _check_read(request)
                document = orjson.dumps(VERSION, option=orjson.OPT_INDENT_2)
            case ["api" | "apis" as first] if _wants_aggregated(request):
                return _tagged(self._document(self._aggregated, first) or b"", request)
            case ["api"]:
                _check_read(request)
                document = orjson.dumps(self._core_versions(request.headers.get("host", "")))
            case ["apis"]:
                document = self._document(self._groups)
            case ["api", version]:
                _check_read(request)
                document = self._document(self._resources, "", version)
            case ["apis", group, *rest] if len(rest) <= 1:
                document = self._document(self._group, group)
                if document is None:
                    return page_not_found()
                if rest:
                    _check_read(request)
                    document = self._document(self._resources, group, *rest)
                    if document is None and self._is_custom(group):
                        return page_not_found()
            case _:
                return None
        if document is None:
            raise StatusError(404, "NotFound", _NOT_FOUND, details={})
        return await encode(document, negotiate(request.headers.get("accept", "")))

    def _is_custom(self, group: str) -> bool:
        return all(each.custom for each in self._registry.all() if each.group == group)

    def _document(self, make: Callable[..., Any], *arguments: str) -> bytes | None:
        """Return a document as JSON; None if it would be empty."""
        if self._generation != self._registry.generation:
            self._made.clear()
            self._generation = self._registry.generation
        key = (make.__name__, *arguments)
        if key not in self._made:
            value = make(*arguments)
            self._made[key] = None if value is None else orjson.dumps(value)
        return self._made[key]

    def _core_versions(self, server_address: str) -> dict[str, Any]:
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}]
        versions = self._registry.groups().get("", [])
        return {"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": addresses}

    def _groups(self) -> dict[str, Any]:
        listed = [_group(name, versions) for name, versions in self._registry.groups().items() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}

    def _group(self, group: str) -> dict[str, Any] | None:
        versions = self._registry.groups().get(group)
        if not group or not versions:
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}

    def _resources(self, group: str, version: str) -> dict[str, Any] | None:
        served = self._served(group, version)
        if not served:
            return None
        entries = [entry for resource in served for entry in self._entries(resource)]
        group_version = f"{group}/{version}" if group else version
        head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version}
        if not group:  # only the core group's document has no apiVersion
            del head["apiVersion"]
        return {**head, "resources": entries}

    def _aggregated(self, first: str) -> dict[str, Any]:
        items = []
        for group, versions in self._registry.groups().items():
            if bool(group) == (first == "api"):
                continue
            described = [
                {
                    "version": version,
                    "resources": [_aggregated(resource) for resource in self._served(group, version)],
                    "freshness": "Current",
                }
                for version in versions
            ]
            items.append({"metadata": {"name": group} if group else {}, "versions": described})
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }

    def _root(self) -> dict[str, list[str]]:
        paths = ["/api", "/apis", *_PATHS]
        for group, versions in self._registry.groups().items():
            base = f"/apis/{group}" if group else "/api"
            paths += [base, *(f"{base}/{version}" for version in versions)]
        return {"paths": sorted(set(paths))}

    def _served(self, group: str, version: str) -> list[Resource]:
        found = [each for each in self._registry.all() if (each.group, each.version) == (group, version)]
        return sorted(found, key=lambda each: each.plural)

    def _entries(self, resource: Resource) -> Iterable[dict[str, Any]]:
        entry: dict[str, Any] = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": _verbs(resource),
        }
        _add_names(entry, resource)
        if "get" in resource.verbs:
            entry["storageVersionHash"] = self._storage_version_hash(resource)
        yield entry
        for subresource in _subresources(resource):
            group, version, kind = _kind_of(resource, subresource)
            part: dict[str, Any] = {
                "name": f"{resource.plural}/{subresource}",
                "singularName": "",
                "namespaced": resource.namespaced,
            }
            if group:
                part |= {"group": group, "version": version}
            yield {**part, "kind": kind, "verbs": VERBS.get(subresource, CHANGE)}

    def _storage_version_hash(self, resource: Resource) -> str:
        group, plural = resource.stored
        stored = self._registry.find(group, resource.storage_version, plural) or resource
        text = f"{stored.group}/{stored.storage_version}/{stored.kind}"
        return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def page_not_found() -> ApiResponse:
    """Return the 404 page of Go's HTTP server."""
    return ApiResponse(
        status=404,
        content_type="text/plain; charset=utf-8",
        headers={"X-Content-Type-Options": "nosniff"},
        body=b"404 page not found\n",
    )


def _wants_aggregated(request: ApiRequest) -> bool:
    """Return whether a clause of the Accept header asks for aggregated discovery."""
    wanted = set(AGGREGATED.split(";"))
    accept = request.headers.get("accept", "")
    return any(wanted <= {part.strip() for part in clause.split(";")} for clause in accept.split(","))


def _tagged(document: bytes, request: ApiRequest) -> ApiResponse:
    etag = f'"{hashlib.sha512(document).hexdigest().upper()}"'
    headers = {"ETag": etag, "Vary": "Accept", "Cache-Control": "public"}
    if request.headers.get("if-none-match") == etag:
        return ApiResponse(status=304, content_type=AGGREGATED, headers=headers)
    return ApiResponse(content_type=AGGREGATED, headers=headers, body=document + b"\n")


def _check_read(request: ApiRequest) -> None:
    if request.method not in {"GET", "HEAD"}:
        raise StatusError(405, "MethodNotAllowed", _NOT_ALLOWED, details={})


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _aggregated(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": _verbs(resource),
    }
    _add_names(entry, resource)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": _response_kind(resource, name),
                "verbs": VERBS.get(name, CHANGE),
            }
            for name in _subresources(resource)
        ]
    return entry


def _kind_of(resource: Resource, subresource: str) -> tuple[str, str, str]:
    """Return a subresource's (group, version, kind); "" means the group or version of the resource."""
    if subresource == "proxy":
        return "", "", f"{resource.kind}ProxyOptions"
    return FOREIGN.get(subresource, ("", "", resource.kind))


def _response_kind(resource: Resource, subresource: str = "") -> dict[str, str]:
    """Return the kind of a response; custom kinds also have the resource's group and version."""
    group, version, kind = _kind_of(resource, subresource)
    if resource.custom and not group:
        group, version = resource.group, resource.version
    return {"group": group, "version": version, "kind": kind}


def _add_names(entry: dict[str, Any], resource: Resource) -> None:
    if resource.short_names:
        entry["shortNames"] = resource.short_names
    if resource.categories:
        entry["categories"] = resource.categories


def _verbs(resource: Resource) -> tuple[str, ...]:
    if not resource.custom:
        return resource.verbs
    hidden = _CHANGES if resource.closing else ()
    return tuple(verb for verb in _CUSTOM_VERBS if verb in resource.verbs and verb not in hidden)


def _subresources(resource: Resource) -> list[str]:
    """Return the subresources in the real server's order: sorted, for custom kinds in reverse."""
    return sorted(resource.subresources, reverse=resource.custom)
