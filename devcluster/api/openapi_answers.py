"""Responses to OpenAPI requests, in JSON and, for version 2, protobuf; clients cache them by hash."""

from __future__ import annotations

from devcluster.api.openapi import OpenApi, OpenApiDocument
from devcluster.api.openapi_protobuf import MEDIA_TYPE
from devcluster.http_call import ApiRequest, ApiResponse

__all__ = ["answer_openapi"]

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
