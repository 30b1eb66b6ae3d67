"""Streams to and from pods, and the API of kubernetes-asyncio, over a manager's transport."""

from __future__ import annotations

from manager_kubernetes_asyncio.pod_streams import (
    ContainerStreams,
    ExecResult,
    Output,
    PodStreams,
    PortConnection,
)

__all__ = ["ContainerStreams", "ExecResult", "Output", "PodStreams", "PortConnection"]
