"""Requests for OpenAPI documents: in JSON, kept by clients under their hash."""

from __future__ import annotations

from devcluster.api.exchange import ApiRequest, ApiResponse
from devcluster.api.openapi import OpenApi, OpenApiDocument

__all__ = ["answer_openapi"]

_PREFIX = "/openapi/v3/"
_JSON = "application/json"
_ACCEPTED = frozenset({"", "*/*", "application/*", _JSON})


def answer_openapi(openapi: OpenApi, request: ApiRequest) -> ApiResponse | None:
    """The answer to `/openapi/v2`, `/openapi/v3` and what is below it; None elsewhere.

    Clients that ask for these documents in protobuf alone get 406: kubectl reads version 3, in JSON, and
    takes version 2 only where there is no version 3.
    """
    if request.path == "/openapi/v3":
        return ApiResponse(content_type="text/plain; charset=utf-8", body=openapi.index())
    if request.path == "/openapi/v2":
        return _answer(request, openapi.version_2()) if _accepts_json(request) else _not_acceptable()
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


def _accepts_json(request: ApiRequest) -> bool:
    clauses = request.headers.get("accept", "").split(",")
    return any(clause.partition(";")[0].strip().lower() in _ACCEPTED for clause in clauses)


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
