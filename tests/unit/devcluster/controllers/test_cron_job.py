from __future__ import annotations

from typing import Any

import pytest

from tests.unit.devcluster.controllers.conftest import Cluster, template

pytestmark = pytest.mark.virtual_time

MINUTE = 60.0
LONG = {"devcluster.local/run-time": "150"}


def cron(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    pod = template("c", restartPolicy="Never")
    pod["metadata"]["annotations"] = annotations or {}
    made = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": pod}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c"},
        "spec": {"schedule": "* * * * *", "jobTemplate": made, **spec},
    }


async def test_cron_job_starts_a_job_each_minute_and_keeps_the_last_three(cluster: Cluster):
    await cluster.settled("cronjobs.batch", cron(), 6 * MINUTE)
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
async def test_cron_job_concurrency_policy_allows_forbids_or_replaces_overlapping_jobs(
    cluster: Cluster, policy: str, alive: int, reason: str
):
    await cluster.settled("cronjobs.batch", cron(LONG, concurrencyPolicy=policy), 3 * MINUTE)
    jobs = cluster.list("jobs.batch")
    assert sum("Complete" not in str(job["status"].get("conditions")) for job in jobs) == alive
    running = {job["metadata"]["uid"] for job in jobs if not job["metadata"].get("deletionTimestamp")}
    assert {each["uid"] for each in cluster.get("cronjobs.batch", "c")["status"]["active"]} <= running
    assert reason in [each for each, _ in cluster.events("CronJob")]


async def test_suspended_cron_job_starts_no_job_until_it_is_resumed(cluster: Cluster):
    await cluster.settled("cronjobs.batch", cron(suspend=True, startingDeadlineSeconds=10), 3 * MINUTE)
    assert not cluster.list("jobs.batch")
    await cluster.patch("cronjobs.batch", "c", {"spec": {"suspend": False}}, MINUTE + 5)
    assert len(cluster.list("jobs.batch")) in {1, 2}


async def test_cron_job_with_an_unknown_time_zone_creates_only_an_event(cluster: Cluster):
    await cluster.settled("cronjobs.batch", cron(timeZone="Moon/Crater"), 2 * MINUTE)
    assert not cluster.list("jobs.batch")
    assert ("UnknownTimeZone", "invalid timeZone: Moon/Crater") in cluster.events("CronJob")
