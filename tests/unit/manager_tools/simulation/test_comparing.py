"""Choice of the user objects that a simulation creates in a fresh install to compare the results."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from devcluster import DevCluster
from examples.dask.kinds import DaskCluster
from examples.dask.operators import ClusterOperator, JobOperator
from examples.database.operator import DatabaseOperator
from manager.operator import AnyOperator
from manager_tools.simulation.comparing import Asked, asked_for

LABELS = {"controller-uid": "1", "batch.kubernetes.io/controller-uid": "1", "job-name": "a", "app": "a"}


def asked_of(operator: AnyOperator, *others: AnyOperator, **there: dict[str, Any]) -> list[Asked]:
    """Return the objects to copy from a cluster to a fresh one; `there` has the former by plural."""

    def objects(resource: str) -> list[dict[str, Any]]:
        found = there.get(resource.partition(".")[0])
        return [] if found is None else [found]

    cluster = SimpleNamespace(client=SimpleNamespace(list=objects))
    return asked_for(cast("DevCluster", cluster), (operator, *others), (), (), {})


def test_job_copied_to_a_fresh_cluster_omits_fields_that_the_control_plane_sets() -> None:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": []}}
    spec = {"selector": {"matchLabels": {"controller-uid": "1"}}, "template": template, "backoffLimit": 1}
    [job] = asked_of(
        DatabaseOperator, jobs={"kind": "Job", "metadata": {"name": "a", "labels": LABELS}, "spec": spec}
    )
    assert job.object["metadata"]["labels"] == {"app": "a"}
    assert job.object["spec"]["template"]["metadata"]["labels"] == {"app": "a"}
    assert job.object["spec"]["selector"] is None
    assert job.object["spec"]["backoffLimit"] == 1


def test_pod_copied_to_a_fresh_cluster_keeps_its_name_and_generate_name() -> None:
    metadata = {"name": "a-x7k2p", "generateName": "a-", "namespace": "default"}
    [pod] = asked_of(JobOperator, pods={"kind": "Pod", "metadata": metadata, "spec": {}})
    assert pod.object["metadata"] == metadata


@pytest.mark.parametrize("owned", [True, False])
def test_objects_copied_to_a_fresh_cluster_exclude_objects_that_another_operator_owns(owned: bool) -> None:
    metadata: dict[str, Any] = {"name": "a", "uid": "1"}
    if owned:
        owner = {"apiVersion": DaskCluster.gvk.api_version, "kind": "DaskJob", "name": "a", "uid": "2"}
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    found = asked_of(ClusterOperator, JobOperator, daskclusters={"kind": "DaskCluster", "metadata": metadata})
    assert bool(found) is not owned
