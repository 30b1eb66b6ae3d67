"""Parser of request paths, and kinds that exist only for subresources."""

from __future__ import annotations

import functools

from devcluster.access.rbac import Attributes
from devcluster.api.options import boolean_of
from devcluster.http_call import ApiRequest
from devcluster.kinds.resource import Resource
from devcluster.kinds.strategy import Strategy
from devcluster.types import schema_for


@functools.cache
def internal_resource(group: str, version: str, kind: str) -> Resource:
    """Return a kind that exists only for subresources, in the form of a resource for the decoder."""
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        list_kind="",
        schema=schema_for(group, version, kind),
        strategy=Strategy(),
        storage_version=version,
    )


_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_OF_NAMESPACES = frozenset({"status", "finalize"})


def target_of(request: ApiRequest) -> Attributes:
    """Return the verb and the resource of a request; without a resource, the HTTP method and the path."""
    path = request.path
    parts = [part for part in path.split("/") if part]
    group = ""
    if len(parts) > 2 and parts[0] == "api":  # noqa: PLR2004 -- a version and a resource
        version, below = parts[1], parts[2:]
    elif len(parts) > 3 and parts[0] == "apis":  # noqa: PLR2004 -- the group too
        group, version, below = parts[1], parts[2], parts[3:]
    else:
        return Attributes(verb=request.method.lower(), path=path)
    verb = _VERBS.get(request.method, "")
    watched = below[0] == "watch" and len(below) > 1
    if watched:
        below = below[1:]
    namespace = ""
    if below[0] == "namespaces" and len(below) > 1:
        namespace = below[1]
        if len(below) > 2 and below[2] not in _OF_NAMESPACES:  # noqa: PLR2004 -- something in the namespace
            below = below[2:]
    plural, name, subresource = (*below[:3], "", "")[:3]
    if watched and verb == "get":
        verb = "watch"
    elif not name and verb in {"get", "delete"}:
        watches = boolean_of(request.query, "watch")
        verb = "deletecollection" if verb == "delete" else "watch" if watches else "list"
    return Attributes(
        verb=verb,
        group=group,
        version=version,
        namespace=namespace,
        resource=plural,
        name=name,
        subresource=subresource,
    )
