"""Discovery and OpenAPI documents, made of the registry when first asked for."""

from __future__ import annotations

from devcluster.api.discovery import Discovery
from devcluster.api.discovery_answers import answer_discovery
from devcluster.http_call import ApiRequest, ApiResponse
from devcluster.kinds.registry import Registry

__all__ = ["Documents"]


class Documents:
    """The discovery and OpenAPI documents."""

    def __init__(self, registry: Registry) -> None:
        self._discovery = Discovery(registry)
        self._registry = registry
        self._openapi: object = None

    def answer(self, request: ApiRequest) -> ApiResponse | None:
        """Return the discovery or OpenAPI document at the request's path, or None."""
        if not request.path.startswith("/openapi/"):
            return answer_discovery(self._discovery, request)
        from devcluster.api.openapi import OpenApi  # noqa: PLC0415 -- loads the table of types
        from devcluster.api.openapi_answers import answer_openapi  # noqa: PLC0415

        if not isinstance(self._openapi, OpenApi):
            self._openapi = OpenApi(self._registry)
        return answer_openapi(self._openapi, request)
