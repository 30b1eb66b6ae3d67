"""A Kubernetes control plane within a Python process, for tests, demos and the inner loop.

    async with DevCluster() as cluster:
        ...  # cluster.kubeconfig_path is for any client, cluster.client for this process

On the command line: `devcluster up`. In pytest: the fixture `devcluster`, of `devcluster.pytest_plugin`.
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
