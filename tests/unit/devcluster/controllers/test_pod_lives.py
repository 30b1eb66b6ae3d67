from __future__ import annotations

import asyncio

import pytest

from tests.unit.devcluster.controllers.conftest import Cluster, pod, started

pytestmark = pytest.mark.virtual_time


def condition(obj: dict, kind: str) -> tuple[str, str]:
    found = next(each for each in obj["status"]["conditions"] if each["type"] == kind)
    return found["status"], found.get("reason", "")


def deleted(name: str = "p", stop_time: str = "5", grace: int = 30) -> dict:
    made = pod(name, terminationGracePeriodSeconds=grace)
    made["metadata"]["annotations"] = {"devcluster.local/stop-time": stop_time}
    return made


async def test_deleted_pod_is_terminating_until_its_containers_have_stopped(cluster: Cluster):
    await cluster.settled("pods", deleted())
    await cluster.delete("pods", "p", seconds=4)
    assert cluster.get("pods", "p")["metadata"]["deletionGracePeriodSeconds"] == 30
    assert ("Killing", "Stopping container c") in cluster.events()
    await asyncio.sleep(1.1)
    assert cluster.get("pods", "p") is None


@pytest.mark.parametrize(("grace", "seconds"), [(30, 10), (4, 4)])
async def test_every_deleted_pod_is_terminating_when_the_cluster_says_so(grace: int, seconds: int):
    async with started(0.0, pod_stop_delay=10.0) as cluster:
        await cluster.settled("pods", pod("p", terminationGracePeriodSeconds=grace))
        await cluster.delete("pods", "p", seconds=seconds - 0.5)
        assert cluster.get("pods", "p")["metadata"]["deletionTimestamp"]
        await asyncio.sleep(1)
        assert cluster.get("pods", "p") is None


async def test_deleted_pod_goes_at_the_end_of_its_grace_period(cluster: Cluster):
    await cluster.settled("pods", deleted(stop_time="600", grace=20))
    await cluster.delete("pods", "p", seconds=19)
    assert cluster.get("pods", "p") is not None
    await asyncio.sleep(1.1)
    assert cluster.get("pods", "p") is None


async def test_second_deletion_with_a_shorter_grace_period_ends_a_pod_earlier(cluster: Cluster):
    await cluster.settled("pods", deleted(stop_time="600"))
    await cluster.delete("pods", "p", seconds=1)
    await cluster.delete("pods", "p", seconds=1, grace=1)
    assert cluster.get("pods", "p") is None


async def test_failing_init_container_keeps_the_others_from_starting(cluster: Cluster):
    await cluster.settled("pods", pod(initContainers=[{"name": "i", "image": "migrate:crash-loop"}]), 60)
    found = cluster.get("pods", "p")
    assert found["status"]["phase"] == "Pending"
    assert condition(found, "Initialized") == ("False", "ContainersNotInitialized")
    (init,) = found["status"]["initContainerStatuses"]
    assert init["restartCount"] > 1
    assert init["lastState"]["terminated"]["exitCode"] == 1
    (main,) = found["status"]["containerStatuses"]
    assert main["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert any(reason == "BackOff" for reason, _ in cluster.events())


async def test_failing_init_container_fails_a_pod_that_is_never_restarted(cluster: Cluster):
    init = [{"name": "i", "image": "migrate:crash-loop"}]
    await cluster.settled("pods", pod(initContainers=init, restartPolicy="Never"))
    assert cluster.get("pods", "p")["status"]["phase"] == "Failed"


async def test_init_containers_wait_for_an_image_and_run_one_after_the_other(cluster: Cluster):
    init = [{"name": "i", "image": "a"}, {"name": "j", "image": "no-such-image"}, {"name": "k", "image": "b"}]
    await cluster.settled("pods", pod(initContainers=init))
    states = [each["state"] for each in cluster.get("pods", "p")["status"]["initContainerStatuses"]]
    assert list(states[0]) == ["terminated"]
    assert states[1]["waiting"]["reason"] in {"ErrImagePull", "ImagePullBackOff"}
    assert states[2]["waiting"]["reason"] == "PodInitializing"


async def test_sidecar_runs_beside_the_containers(cluster: Cluster):
    init = [{"name": "i", "image": "a", "restartPolicy": "Always"}, {"name": "j", "image": "b"}]
    await cluster.settled("pods", pod(initContainers=init))
    found = cluster.get("pods", "p")
    assert condition(found, "Ready")[0] == "True"
    assert [list(each["state"]) for each in found["status"]["initContainerStatuses"]] == [
        ["running"],
        ["terminated"],
    ]
