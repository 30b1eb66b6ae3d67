from __future__ import annotations

import pytest

from tests.unit.devcluster.controllers.conftest import Cluster

pytestmark = pytest.mark.virtual_time


async def test_new_namespace_gets_its_account_and_certificate(cluster: Cluster):
    assert cluster.get("serviceaccounts", "default") is not None
    assert cluster.get("configmaps", "kube-root-ca.crt")["data"] == {"ca.crt": ""}


async def test_account_and_certificate_come_back(cluster: Cluster):
    await cluster.client.delete("serviceaccounts", "x", "default")
    await cluster.patch("configmaps", "kube-root-ca.crt", {"data": {"ca.crt": "no"}})
    assert cluster.get("serviceaccounts", "default") is not None
    assert cluster.get("configmaps", "kube-root-ca.crt")["data"] == {"ca.crt": ""}
