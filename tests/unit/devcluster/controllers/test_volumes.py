from __future__ import annotations

import pytest

from devcluster.errors import StatusError
from tests.unit.devcluster.controllers.conftest import Cluster

pytestmark = pytest.mark.virtual_time


CLAIM = ("persistentvolumeclaims", "data")


def claim(storage_class: str = "standard") -> dict:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": storage_class,
        "volumeMode": "Filesystem",
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}


def asking(storage: str) -> dict:
    return {"spec": {"resources": {"requests": {"storage": storage}}}}


async def test_volume_claim_with_a_storage_class_gets_a_volume_and_can_be_expanded(cluster: Cluster):
    await cluster.settled("persistentvolumeclaims", claim())
    bound = cluster.get(*CLAIM)
    assert bound["spec"]["volumeName"] == f"pvc-{bound['metadata']['uid']}"
    assert bound["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
    }
    assert bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    volume = cluster.get("persistentvolumes", bound["spec"]["volumeName"], "")
    assert volume["status"]["phase"] == "Bound"
    assert volume["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]
    await cluster.patch(*CLAIM, asking("2Gi"))
    assert cluster.get(*CLAIM)["status"]["capacity"] == {"storage": "2Gi"}


@pytest.mark.parametrize(
    ("storage_class", "event"),
    [
        ("", "FailedBinding: no persistent volumes available for this claim and no storage class is set"),
        ("nope", 'ProvisioningFailed: storageclass.storage.k8s.io "nope" not found'),
    ],
)
async def test_volume_claim_event_gives_the_reason_when_no_volume_is_bound(
    cluster: Cluster, storage_class: str, event: str
):
    await cluster.settled("persistentvolumeclaims", claim(storage_class))
    assert cluster.get(*CLAIM)["status"]["phase"] == "Pending"
    assert list(map(": ".join, cluster.events())) == [event]


async def test_volume_claim_cannot_be_expanded_when_its_storage_class_forbids_it(cluster: Cluster):
    fixed = {"metadata": {"name": "fixed"}, "provisioner": "p", "volumeBindingMode": "Immediate"}
    await cluster.client.create("storageclasses.storage.k8s.io", "", fixed)
    await cluster.settled("persistentvolumeclaims", claim("fixed"))
    with pytest.raises(StatusError, match="only dynamically provisioned pvc can be resized"):
        await cluster.patch(*CLAIM, asking("2Gi"))
    await cluster.patch(*CLAIM, {"metadata": {"labels": {"a": "b"}}, **asking("1024Mi")})
