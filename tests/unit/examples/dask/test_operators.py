"""examples/dask: clusters, workers, jobs and scaling, with fake schedulers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from examples.dask.kinds import DaskAutoscaler, DaskCluster, DaskJob, DaskWorkerGroup
from examples.dask.operators import OPERATORS
from examples.dask.scheduler import SchedulerAway, SchedulerClient
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Pod
from manager_tools.simulation import assert_holds
from manager_tools.testing import VirtualClock, World, operated

POD = {"containers": [{"name": "dask", "image": "dask:2026"}]}
CLUSTER: dict[str, Any] = {"scheduler": POD, "worker": {"replicas": 2, "spec": POD}}


class FakeScheduler(SchedulerClient):
    wanted: ClassVar[int | None]
    idle: ClassVar[datetime | None]
    retired: ClassVar[list[str]]

    async def wanted_workers(self, address: str) -> int:
        if self.wanted is None:
            raise SchedulerAway(address, "it is made up")
        return self.wanted

    async def idle_since(self, address: str) -> datetime | None:
        return self.idle

    async def retire(self, address: str, names: Sequence[str]) -> None:
        if self.wanted is None:
            raise SchedulerAway(address, "it is made up")
        self.retired.extend(names)


@pytest.fixture(autouse=True)
def no_schedulers(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeScheduler.wanted, FakeScheduler.idle, FakeScheduler.retired = 2, None, []
    for each in OPERATORS:
        monkeypatch.setattr(each, "client_of_schedulers", FakeScheduler, raising=False)


def made(kind: Any, **spec: Any) -> Any:
    return kind.model_validate({"metadata": {"name": "a"}, "spec": spec})


async def workers(world: World) -> list[str]:
    found = await world.client.uncached.list(Deployment, namespace="default")
    return [each.metadata.name for each in found if "worker" in each.metadata.name]


async def test_dask_cluster_runs_its_workers_and_is_deleted_after_the_idle_timeout() -> None:
    async with operated(*OPERATORS, clock=(clock := VirtualClock())) as world:
        cluster = await world.create(made(DaskCluster, **CLUSTER, idleTimeout=60))
        await world.until(cluster, lambda it: any(each.status == "True" for each in it.status.conditions))
        await clock.advance(minutes=5)
        assert await workers(world) == ["a-default-worker-0", "a-default-worker-1"]
        FakeScheduler.idle = clock.now()
        await clock.advance(seconds=55)
        assert await world.find(DaskCluster, "a") is not None
        await clock.advance(seconds=20)
        assert await world.find(DaskCluster, "a") is None
        assert await workers(world) == []


async def test_dask_worker_group_retires_workers_before_it_deletes_them() -> None:
    async with operated(*OPERATORS, clock=(clock := VirtualClock())) as world:
        await world.create(made(DaskCluster, **CLUSTER))
        await clock.advance(seconds=5)
        group = await world.get(DaskWorkerGroup, "a-default")
        await world.client.subresource("scale").patch(group, {"spec": {"replicas": 4}})
        await clock.advance(seconds=5)
        assert len(await workers(world)) == 4
        FakeScheduler.wanted = None
        await world.client.subresource("scale").patch(group, {"spec": {"replicas": 1}})
        await clock.advance(seconds=5)
        assert len(await workers(world)) == 4
        FakeScheduler.wanted = 1
        await clock.advance(seconds=5)
        assert await workers(world) == ["a-default-worker-0"]
        assert FakeScheduler.retired == [f"a-default-worker-{number}" for number in (1, 2, 3)]


@pytest.mark.parametrize(
    "answer",
    ["", "[]", "{}", "null", '{"workers": null, "idle_since": "x"}', '{"workers": [{}], "idle_since": 1e99}'],
)
async def test_scheduler_client_raises_scheduler_away_when_the_answer_is_invalid(answer: str) -> None:
    async def reply(_: web.BaseRequest) -> web.Response:
        return web.Response(text=answer, content_type="application/json")

    async with RawTestServer(reply) as server, SchedulerClient() as client:
        address = f"{server.host}:{server.port}"
        for call in (
            client.wanted_workers(address),
            client.idle_since(address),
            client.retire(address, ["a"]),
        ):
            with pytest.raises(SchedulerAway, match=f"the scheduler at {address} "):
                await call


@pytest.mark.parametrize(("ended", "phase"), [("Succeeded", "Successful"), ("Failed", "Failed")])
async def test_dask_job_runs_once_and_deletes_its_cluster_when_its_pod_ends(ended: str, phase: str) -> None:
    async with operated(*OPERATORS, clock=(clock := VirtualClock())) as world:
        job = await world.create(made(DaskJob, cluster=CLUSTER, job=POD))
        await world.until(job, lambda it: it.status.phase == "Running")
        runner = await world.get(Pod, "a-runner")
        runner.status["phase"] = ended
        await world.client.status.patch(runner)
        await world.until(job, lambda it: it.status.phase == phase)
        await world.delete(runner)
        await clock.advance(hours=1)
        assert await world.find(DaskCluster, "a") is None
        assert await world.find(Pod, "a-runner") is None


async def test_dask_autoscaler_scales_workers_within_its_limits_as_the_scheduler_requests() -> None:
    async with operated(*OPERATORS, clock=(clock := VirtualClock())) as world:
        await world.create(made(DaskCluster, **CLUSTER))
        scaler = await world.create(made(DaskAutoscaler, cluster="a", minimum=1, maximum=5))
        for wanted, seconds, there in ((4, 7, 4), (9, 7, 5), (0, 7, 5), (0, 14, 1), (None, 7, 1)):
            FakeScheduler.wanted = wanted
            await clock.advance(seconds=seconds)
            assert len(await workers(world)) == there
        conditions = (await world.get(DaskAutoscaler, "a")).status.conditions
        assert [each.reason for each in conditions] == ["SchedulerAway"]
        assert "Scaled" in await world.events(scaler)


def test_dask_operators_recover_from_simulated_faults() -> None:
    group, scaler = {"cluster": "db-0", "worker": CLUSTER["worker"]}, made(DaskAutoscaler, cluster="db-0")
    samples = [made(DaskCluster, **CLUSTER), made(DaskWorkerGroup, **group), scaler]
    assert_holds(*OPERATORS, seeds=range(2), samples=[*samples, made(DaskJob, cluster=CLUSTER, job=POD)])
