"""Kubernetes control plane that runs inside a Python process, for tests, demos and local development.

    async with DevCluster() as cluster:
        ...  # cluster.kubeconfig_path serves any client, cluster.client serves this process

On the command line, run `devcluster up`. For pytest, `devcluster.pytest_plugin` provides the fixture
`devcluster`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devcluster.cluster import DevCluster

__all__ = ["DevCluster"]


def __getattr__(name: str) -> Any:
    # A program that needs only a part, such as the command line for a wrong flag, imports only that part.
    if name == "DevCluster":
        from devcluster.cluster import DevCluster  # noqa: PLC0415 - 150 ms, 27 MB

        return DevCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
