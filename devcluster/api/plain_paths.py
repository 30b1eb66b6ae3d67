"""Paths without a resource: health, metrics, documents; and the answers for unknown paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devcluster.api.documents import Documents
from devcluster.api.metrics import Metrics
from devcluster.api.routing import Target
from devcluster.errors import StatusError
from devcluster.http_call import ApiRequest, ApiResponse
from devcluster.kinds.registry import Registry
from devcluster.storage.store import Store

if TYPE_CHECKING:
    from devcluster.api.metrics_page import MetricsPage

__all__ = ["PlainPaths"]

_HEALTH = frozenset({"healthz", "livez", "readyz"})
_CHECKS = ("ping", "log", "etcd")


class PlainPaths:
    """The answers to requests without a resource."""

    def __init__(self, registry: Registry, store: Store, metrics: Metrics) -> None:
        self._registry = registry
        self._store = store
        self._metrics = metrics
        self._metrics_page: MetricsPage | None = None
        self._documents = Documents(registry)

    def answer(self, request: ApiRequest) -> ApiResponse:
        """Return the document at a path, or a 404."""
        path = request.path.rstrip("/") or "/"
        first, _, rest = path.lstrip("/").partition("/")
        if first in _HEALTH:
            return _health(first, rest, verbose="verbose" in request.query)
        if path == "/metrics":
            return self._show_metrics()
        found = self._documents.answer(request)
        return _page_not_found() if found is None else found

    def _show_metrics(self) -> ApiResponse:
        from devcluster.api.metrics_page import CONTENT_TYPE, MetricsPage  # noqa: PLC0415 -- slow to load

        if self._metrics_page is None:
            self._metrics_page = MetricsPage(self._metrics, self._store, self._registry)
        return ApiResponse(content_type=CONTENT_TYPE, body=self._metrics_page.write())

    @staticmethod
    def unknown_page() -> ApiResponse:
        """Return the 404 that is a text page and no Status."""
        return _page_not_found()

    def unknown(self, target: Target) -> ApiResponse:
        """Return the 404 for an unknown resource."""
        known = any(each.group == target.group and not each.custom for each in self._registry.all())
        served = self._registry.find(target.group, target.version, target.plural)
        if not known and served is None:
            return _page_not_found()
        error = StatusError(404, "NotFound", "the server could not find the requested resource")
        error.empty_details = True
        return ApiResponse.failure(error)


def _health(check: str, rest: str, *, verbose: bool) -> ApiResponse:
    if rest and rest not in _CHECKS:
        return _page_not_found()
    if not verbose:
        return _text("ok")
    lines = [f"[+]{each} ok\n" for each in ([rest] if rest else _CHECKS)]
    return _text("".join(lines) + f"{check} check passed\n")


def _text(text: str, status: int = 200) -> ApiResponse:
    return ApiResponse(status=status, content_type="text/plain; charset=utf-8", body=text.encode())


def _page_not_found() -> ApiResponse:
    return _text("404 page not found\n", 404)
