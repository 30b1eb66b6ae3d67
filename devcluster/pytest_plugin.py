"""Pytest fixtures, enabled by `pytest_plugins = ["devcluster.pytest_plugin"]` in a conftest.

    def test_mine(devcluster):
        client = make_client(devcluster.cluster.kubeconfig_path)

`devcluster` is one cluster for the whole test session. It runs in its own thread, so that tests with and
without an event loop can use it. `devcluster_namespace` is a namespace in this cluster for one test.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.background import BackgroundCluster


@pytest.fixture(scope="session")
def devcluster_options() -> dict[str, Any]:
    """Return the cluster's arguments; projects may override them. By default, pods are ready immediately."""
    return {"pod_ready_delay": 0.0}


@pytest.fixture(scope="session")
def devcluster(devcluster_options: dict[str, Any]) -> Iterator[BackgroundCluster]:
    """Start the cluster of the test session, and yield it."""
    with BackgroundCluster(**devcluster_options) as cluster:
        yield cluster


@pytest.fixture
def devcluster_namespace(devcluster: BackgroundCluster) -> Iterator[str]:
    """Yield the name of a new namespace, which is deleted after the test."""
    name = f"test-{secrets.token_hex(4)}"
    client = devcluster.cluster.client
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    devcluster.run(client.create("namespaces", "", namespace))
    yield name
    devcluster.run(client.delete("namespaces", "", name))
