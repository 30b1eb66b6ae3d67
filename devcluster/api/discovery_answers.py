"""Responses to discovery requests: choice of the document and of its representation."""

from __future__ import annotations

import orjson

from devcluster.api.discovery import AGGREGATED, VERSION, Discovery, Document
from devcluster.api.negotiation import encode, negotiate
from devcluster.errors import StatusError
from devcluster.http_call import ApiRequest, ApiResponse

__all__ = ["answer_discovery"]

_NOT_FOUND = "the server could not find the requested resource"
_NOT_ALLOWED = "the server does not allow this method on the requested resource"
_GROUP_PATH = 2
_RESOURCES_PATH = 3


def answer_discovery(
    discovery: Discovery, request: ApiRequest, *, server_address: str = ""
) -> ApiResponse | None:
    """Answer `/`, `/version`, `/api`, `/apis` and the paths below; None for other paths.

    `server_address` is the host and port at which clients reach this server; the `Host` header by default.

    Raises:
        StatusError: 404 for an unknown path, 405 for other methods, 406 if no offered media type is
            accepted.
    """
    parts = [part for part in request.path.split("/") if part]
    if not parts:
        return _plain(discovery.root().body, request)
    if parts == ["version"]:
        _check_read(request)
        return _plain(orjson.dumps(VERSION, option=orjson.OPT_INDENT_2), request)
    if parts in (["api"], ["apis"]):
        core = parts == ["api"]
        if _wants_aggregated(request):
            return _tagged(discovery.aggregated(core=core), request)
        address = server_address or request.headers.get("host", "")
        return _plain((discovery.core_versions(address) if core else discovery.groups()).body, request)
    if parts[0] == "api" and len(parts) == _GROUP_PATH:
        return _found(discovery.resources("", parts[1]), request)
    if parts[0] == "apis" and len(parts) <= _RESOURCES_PATH:
        group = discovery.group(parts[1])
        if group is None:
            return _page_not_found()
        return _found(group if len(parts) == _GROUP_PATH else discovery.resources(*parts[1:]), request)
    return None


def _wants_aggregated(request: ApiRequest) -> bool:
    """Return whether a clause of the Accept header asks for aggregated discovery."""
    wanted = set(AGGREGATED.split(";"))
    accept = request.headers.get("accept", "")
    return any(wanted <= {part.strip() for part in clause.split(";")} for clause in accept.split(","))


def _tagged(document: Document, request: ApiRequest) -> ApiResponse:
    headers = {"ETag": document.etag, "Vary": "Accept", "Cache-Control": "public"}
    if request.headers.get("if-none-match") == document.etag:
        return ApiResponse(status=304, content_type=AGGREGATED, headers=headers)
    return ApiResponse(content_type=AGGREGATED, headers=headers, body=document.body)


def _found(document: Document | None, request: ApiRequest) -> ApiResponse:
    _check_read(request)
    if document is None:
        raise StatusError(404, "NotFound", _NOT_FOUND, details={})
    return _plain(document.body, request)


def _plain(body: bytes, request: ApiRequest) -> ApiResponse:
    return encode(body.removesuffix(b"\n"), negotiate(request.headers.get("accept", "")))


def _check_read(request: ApiRequest) -> None:
    if request.method not in {"GET", "HEAD"}:
        raise StatusError(405, "MethodNotAllowed", _NOT_ALLOWED, details={})


def _page_not_found() -> ApiResponse:
    """Return the 404 page of Go's HTTP server."""
    return ApiResponse(
        status=404,
        content_type="text/plain; charset=utf-8",
        headers={"X-Content-Type-Options": "nosniff"},
        body=b"404 page not found\n",
    )
