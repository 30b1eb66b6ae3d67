from __future__ import annotations

from typing import Any

import pytest

from tests.unit.devcluster.controllers.conftest import Cluster, Make

pytestmark = pytest.mark.virtual_time

MINUTE = 60.0
LONG = {"devcluster.local/run-time": "150"}


@pytest.fixture
def cron(template: Make) -> Make:
    def make(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        pod = template("c", restartPolicy="Never")
        pod["metadata"]["annotations"] = annotations or {}
        return {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "c"},
            "spec": {
                "schedule": "* * * * *",
                "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": pod}},
                **spec,
            },
        }

    return make


def states(cluster: Cluster) -> list[str]:
    return [
        next(
            (each["type"] for each in job["status"].get("conditions") or () if each["type"] == "Complete"), ""
        )
        for job in cluster.list("jobs.batch")
    ]


async def test_cron_job_starts_a_job_each_minute_and_keeps_three(cluster: Cluster, cron: Make):
    await cluster.apply("cronjobs.batch", cron())
    await cluster.settle(6 * MINUTE)
    jobs = cluster.list("jobs.batch")
    assert len(jobs) in {3, 4}  # the last may still run
    metadata = jobs[0]["metadata"]
    assert metadata["labels"]["a"] == "b"
    assert metadata["ownerReferences"][0]["kind"] == "CronJob"
    assert metadata["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"].endswith(":00Z")
    status = cluster.get("cronjobs.batch", "c")["status"]
    assert status["lastSuccessfulTime"] >= status["lastScheduleTime"]
    reasons = [reason for reason, _ in cluster.events("CronJob")]
    assert {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"} <= set(reasons)


@pytest.mark.parametrize(
    ("policy", "alive", "reason"),
    [("Allow", 3, "SuccessfulCreate"), ("Forbid", 1, "JobAlreadyActive"), ("Replace", 1, "SuccessfulDelete")],
)
async def test_cron_job_keeps_its_concurrency_policy(
    cluster: Cluster, cron: Make, policy: str, alive: int, reason: str
):
    await cluster.apply("cronjobs.batch", cron(LONG, concurrencyPolicy=policy))
    await cluster.settle(3 * MINUTE)
    running = [job for job in cluster.list("jobs.batch") if not job["metadata"].get("deletionTimestamp")]
    assert states(cluster).count("") == alive
    status = cluster.get("cronjobs.batch", "c")["status"]
    assert {each["uid"] for each in status["active"]} <= {job["metadata"]["uid"] for job in running}
    assert reason in [each for each, _ in cluster.events("CronJob")]


async def test_cron_job_that_is_suspended_waits_and_goes_on(cluster: Cluster, cron: Make):
    await cluster.settled("cronjobs.batch", cron(suspend=True, startingDeadlineSeconds=10), 3 * MINUTE)
    assert not cluster.list("jobs.batch")
    await cluster.patch("cronjobs.batch", "c", {"spec": {"suspend": False}}, MINUTE + 5)
    assert len(cluster.list("jobs.batch")) in {1, 2}


async def test_cron_job_in_an_unknown_time_zone_says_so(cluster: Cluster, cron: Make):
    await cluster.settled("cronjobs.batch", cron(timeZone="Moon/Crater"), 2 * MINUTE)
    assert not cluster.list("jobs.batch")
    assert ("UnknownTimeZone", "invalid timeZone: Moon/Crater") in cluster.events("CronJob")


async def test_cron_job_takes_its_jobs_along(cluster: Cluster, cron: Make):
    await cluster.settled("cronjobs.batch", cron(), MINUTE + 5)
    assert cluster.list("jobs.batch")
    await cluster.delete("cronjobs.batch", "c", propagation="Background")
    assert not cluster.list("jobs.batch")
