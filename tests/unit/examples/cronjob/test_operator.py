"""examples/cronjob: schedules of several hours on a virtual clock, webhooks and API versions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from examples.cronjob.operator import CronJobOperator, outcome_of, time_of
from examples.cronjob.v1 import CronJob, CronJobSpec, Job
from examples.cronjob.v2 import CronJob as NextCronJob
from manager.api import ObjectMeta, Unstructured
from manager.kube.errors import Invalid
from manager_kinds.batch_v1 import JobTemplateSpec
from manager_tools.simulation import assert_holds
from manager_tools.testing import VirtualClock, World, operated

START = datetime(2026, 3, 1, 8, 5, 30, tzinfo=UTC)


def cronjob(schedule: str = "*/10 * * * *", *, seconds: int = 1, image: str = "job", **spec: Any) -> CronJob:
    template: dict[str, Any] = {
        "spec": {"containers": [{"name": "a", "image": image}], "restartPolicy": "Never"}
    }
    template["metadata"] = {"annotations": {"devcluster.local/run-time": str(seconds)}}
    jobs = JobTemplateSpec.model_validate({"spec": {"template": template, "backoffLimit": 0}})
    return CronJob(
        metadata=ObjectMeta(name="a"), spec=CronJobSpec(schedule=schedule, job_template=jobs, **spec)
    )


def with_spec(**fields: Any) -> Callable[[CronJob], None]:
    """Return a function that sets these fields of a CronJob's spec."""
    return lambda it: vars(it.spec).update(fields)


async def jobs_of(world: World) -> list[Job]:
    found = await world.client.uncached.list(Job, namespace="default")
    return sorted(found, key=time_of)


async def test_cronjob_starts_a_job_at_each_scheduled_time_and_keeps_the_last_three() -> None:
    clock = VirtualClock(START)
    async with operated(CronJobOperator, clock=clock) as world:
        mine = await world.create(cronjob())
        await clock.advance(hours=1)
        runs = await jobs_of(world)
        assert [time_of(each).minute for each in runs] == [40, 50, 0]
        assert {outcome_of(each) for each in runs} == {"Complete"}
        created = [each for each in await world.events(mine) if each == "Created"]
        assert len(created) == 6
        status = (await world.get(CronJob, "a")).status
        assert status.last_schedule_time == time_of(runs[-1])
        assert status.next_schedule_time == time_of(runs[-1]) + timedelta(minutes=10)
        assert status.active == []


@pytest.mark.parametrize(
    ("policy", "minutes"),
    [("Allow", [10, 20, 30]), ("Forbid", [10, 30]), ("Replace", [30])],
)
async def test_cronjob_concurrency_policy_allows_forbids_or_replaces_overlapping_jobs(
    policy: Any, minutes: list[int]
) -> None:
    clock = VirtualClock(START)
    async with operated(CronJobOperator, clock=clock) as world:
        await world.create(cronjob(seconds=900, concurrency_policy=policy, starting_deadline_seconds=60))
        await clock.advance_to(START.replace(minute=32))
        assert [time_of(each).minute for each in await jobs_of(world)] == minutes


async def test_cronjob_starts_only_the_last_missed_job_when_it_is_resumed() -> None:
    clock = VirtualClock(START)
    async with operated(CronJobOperator, clock=clock) as world:
        mine = await world.create(cronjob(suspend=True))
        await clock.advance_to(START.replace(minute=32))
        assert await jobs_of(world) == []
        await world.update(mine, with_spec(suspend=False))
        await clock.advance(seconds=5)
        assert [time_of(each).minute for each in await jobs_of(world)] == [30]


async def test_cronjob_does_not_repeat_a_run_after_it_deletes_the_finished_job() -> None:
    clock = VirtualClock(START)
    async with operated(CronJobOperator, clock=clock) as world:
        mine = await world.create(cronjob(successful_jobs_history_limit=0))
        await clock.advance_to(START.replace(minute=35))
        assert await jobs_of(world) == []
        failing = cronjob(image="crash-loop").spec.job_template
        await world.update(mine, with_spec(job_template=failing))
        await clock.advance_to(START.replace(minute=59))
        assert [(time_of(each).minute, outcome_of(each)) for each in await jobs_of(world)] == [(50, "Failed")]
        assert (await world.events(mine)).count("Created") == 5


async def test_cronjob_webhooks_trim_the_schedule_and_refuse_invalid_schedules_and_names() -> None:
    clock = VirtualClock(START)
    async with operated(CronJobOperator, clock=clock) as world:
        untidy = cronjob().to_wire()
        untidy["spec"]["schedule"] = "  0 3  * * MON-FRI "
        untidy["metadata"]["namespace"] = "default"
        await world.create(Unstructured.parse(untidy))
        stored = await world.get(CronJob, "a")
        assert stored.spec.schedule == "0 3 * * MON-FRI"
        for schedule, why in (("61 * * * *", "Bad minute"), ("0 0 31 2 *", "Bad day-of-month")):
            with pytest.raises(Invalid, match=rf"spec\.schedule: Invalid value: .*{why}"):
                await world.update(stored, with_spec(schedule=schedule))
        long = cronjob()
        long.metadata.name = "a" * 53
        with pytest.raises(Invalid, match=r"metadata\.name.*52 characters"):
            await world.create(long)


async def test_cronjob_written_as_v1_can_be_read_and_changed_as_v2() -> None:
    clock = VirtualClock(START)
    async with operated(CronJobOperator, clock=clock) as world:
        stored = await world.create(cronjob("0 3 * * MON-FRI"))
        there = await world.get(NextCronJob, "a")
        assert (there.spec.schedule.hour, there.spec.schedule.day_of_week) == ("3", "MON-FRI")
        assert there.spec.job_template == stored.spec.job_template
        await world.update(there, lambda it: setattr(it.spec.schedule, "hour", "*/4"))
        assert (await world.get(CronJob, "a")).spec.schedule == "0 */4 * * MON-FRI"


def test_cronjob_operator_recovers_from_simulated_faults() -> None:
    samples = [cronjob(each) for each in ("* * * * *", "0 3 * * *")]
    assert_holds(CronJobOperator, seeds=range(2), minutes=3, samples=samples)
