"""What Prometheus sees of the calls to the pet store, under the names that go-grpc-prometheus gave them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

__all__ = ["StoreMetrics"]

_SERVICE = "petstore.PetStore"


class StoreMetrics:
    """The calls of one client."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Raises ValueError when the registry has them already."""
        self._handled = Counter(
            "grpc_client_handled",
            "Calls ended, by status.",
            ("grpc_type", "grpc_service", "grpc_method", "grpc_code"),
            registry=registry,
        )

    def handled(self, kind: str, method: str, code: str) -> None:
        """Count a call that has ended."""
        self._handled.labels(kind, _SERVICE, method, code).inc()
