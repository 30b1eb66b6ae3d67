from __future__ import annotations

import pytest

from tests.unit.devcluster.controllers.conftest import Cluster

pytestmark = pytest.mark.virtual_time


async def test_default_service_account_and_root_ca_are_restored_after_deletion_or_change(cluster: Cluster):
    for _ in range(2):
        assert cluster.get("serviceaccounts", "default") is not None
        assert cluster.get("configmaps", "kube-root-ca.crt")["data"] == {"ca.crt": ""}
        await cluster.client.delete("serviceaccounts", "x", "default")
        await cluster.patch("configmaps", "kube-root-ca.crt", {"data": {"ca.crt": "no"}})
