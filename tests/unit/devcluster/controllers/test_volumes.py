from __future__ import annotations

import pytest

from devcluster.errors import StatusError
from tests.unit.devcluster.controllers.conftest import Cluster, pod

pytestmark = pytest.mark.virtual_time


def claim(name: str = "data", storage_class: str = "standard", size: str = "1Gi") -> dict:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": storage_class,
            "volumeMode": "Filesystem",
        },
    }


async def test_claim_of_a_class_gets_a_new_volume(cluster: Cluster):
    await cluster.settled("persistentvolumeclaims", claim())
    bound = cluster.get("persistentvolumeclaims", "data")
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


async def test_claim_takes_the_smallest_volume_that_fits(cluster: Cluster):
    for name, size in (("small", "500Mi"), ("fits", "2Gi"), ("large", "5Gi")):
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "manual",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/tmp"},
        }
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
        await cluster.client.create("persistentvolumes", "", volume)
    await cluster.settle()
    assert cluster.get("persistentvolumes", "fits", "")["status"]["phase"] == "Available"
    await cluster.settled("persistentvolumeclaims", claim(storage_class="manual"))
    assert cluster.get("persistentvolumeclaims", "data")["spec"]["volumeName"] == "fits"
    await cluster.delete("persistentvolumeclaims", "data")
    assert cluster.get("persistentvolumes", "fits", "")["status"]["phase"] == "Released"


@pytest.mark.parametrize(
    ("storage_class", "event"),
    [
        ("", "FailedBinding: no persistent volumes available for this claim and no storage class is set"),
        ("nope", 'ProvisioningFailed: storageclass.storage.k8s.io "nope" not found'),
    ],
)
async def test_claim_that_cannot_be_bound_says_why(cluster: Cluster, storage_class: str, event: str):
    await cluster.settled("persistentvolumeclaims", claim(storage_class=storage_class))
    assert cluster.get("persistentvolumeclaims", "data")["status"]["phase"] == "Pending"
    assert list(map(": ".join, cluster.events())) == [event]


async def test_claim_in_use_stays_until_its_pod_is_gone(cluster: Cluster):
    await cluster.apply("persistentvolumeclaims", claim())
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    await cluster.settled("pods", pod(volumes=volumes))
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"
    await cluster.delete("persistentvolumeclaims", "data")
    assert cluster.get("persistentvolumeclaims", "data") is not None
    await cluster.delete("pods", "p")
    assert cluster.get("persistentvolumeclaims", "data") is None
    assert cluster.list("persistentvolumes", "") == []


async def test_claim_that_asks_for_more_gets_it(cluster: Cluster):
    await cluster.settled("persistentvolumeclaims", claim())
    await cluster.patch(
        "persistentvolumeclaims", "data", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    )
    assert cluster.get("persistentvolumeclaims", "data")["status"]["capacity"] == {"storage": "2Gi"}


async def test_claim_of_a_class_that_does_not_allow_it_cannot_grow(cluster: Cluster):
    fixed = {"metadata": {"name": "fixed"}, "provisioner": "p", "volumeBindingMode": "Immediate"}
    await cluster.client.create("storageclasses.storage.k8s.io", "", fixed)
    await cluster.settled("persistentvolumeclaims", claim(storage_class="fixed"))
    grown = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    with pytest.raises(StatusError, match="only dynamically provisioned pvc can be resized"):
        await cluster.client.patch("persistentvolumeclaims", "x", "data", grown)
    unmoved = {"metadata": {"labels": {"a": "b"}}, "spec": {"resources": {"requests": {"storage": "1024Mi"}}}}
    await cluster.client.patch("persistentvolumeclaims", "x", "data", unmoved)
