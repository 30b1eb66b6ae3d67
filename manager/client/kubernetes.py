"""Access to `manager_kubernetes_asyncio` for operators; each module is imported on first use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from manager.api import Resource
from manager.cache import Cache
from manager.kube.errors import ConfigError
from manager.kube.transport import Transport

if TYPE_CHECKING:
    from manager_kubernetes_asyncio.api_client import TransportApiClient
    from manager_kubernetes_asyncio.pod_streams import (
        ContainerStreams,
        ExecOptions,
        ExecResult,
        LogOptions,
        PodStreams,
        PortConnection,
    )

__all__ = [
    "ContainerStreams",
    "ExecOptions",
    "ExecResult",
    "LogOptions",
    "PodStreams",
    "PortConnection",
    "TransportApiClient",
    "api_client_on",
    "object_of_model",
    "pod_streams_on",
]


def pod_streams_on(transport: Transport) -> PodStreams:
    """Return the API for pods: commands, attached processes, ports and logs."""
    from manager_kubernetes_asyncio.pod_streams import PodStreams  # noqa: PLC0415 - 1 ms, where it is used

    return PodStreams(transport)


def api_client_on(transport: Transport, cache: Cache, *, field_manager: str) -> TransportApiClient:
    """Return an `ApiClient` of kubernetes-asyncio; raises ConfigError if the package is not installed."""
    try:
        from manager_kubernetes_asyncio.api_client import TransportApiClient  # noqa: PLC0415 - 225 ms, 42 MB
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"kubernetes_client needs {error.name}: install operator-manager[kubernetes-asyncio]"
        ) from error
    return TransportApiClient(transport, cache, field_manager=field_manager)


def object_of_model(model: Any, kinds: Iterable[type[Resource]]) -> Resource:
    """Convert a kubernetes-asyncio model to an object of the matching kind among `kinds`."""
    from manager_kubernetes_asyncio.models import to_resource  # noqa: PLC0415 - 220 ms, 42 MB

    return to_resource(model, kinds)
