"""CronJob v1: its schedule is one line in the notation of crontab."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from manager.api import ApiModel, Column, ConditionType, Int32, Int64, Resource, Status, crd
from manager_kinds.batch_v1 import JobTemplateSpec

__all__ = ["SCHEDULED", "CronJob", "CronJobSpec", "CronJobStatus", "Job", "RunsSpec"]

SCHEDULED = ConditionType("Scheduled")

GROUP = "cron.example.com"


class Job(Resource, group="batch", version="v1", plural="jobs"):
    """Pods that run to completion."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: dict[str, Any] = Field(default_factory=dict)


class RunsSpec(ApiModel):
    """The fields of the spec that both versions have."""

    starting_deadline_seconds: Annotated[Int64, Field(ge=10)] | None = None
    """How many seconds late a Job may start; later runs are omitted. By default, any delay is allowed."""
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = "Allow"
    """Whether a Job starts beside a running Job, waits for its end, or replaces it."""
    suspend: bool = False
    """Whether the schedule is paused."""
    job_template: JobTemplateSpec
    """The template of the Jobs."""
    successful_jobs_history_limit: Annotated[Int32, Field(ge=0, le=1000)] = 3
    """The number of successful Jobs to keep."""
    failed_jobs_history_limit: Annotated[Int32, Field(ge=0, le=1000)] = 1
    """The number of failed Jobs to keep."""


class CronJobSpec(RunsSpec):
    """The Jobs, and the times at which they start."""

    schedule: Annotated[str, Field(max_length=200, pattern=r"^\S+( \S+){4}$")]
    """Minute, hour, day of the month, month and day of the week, in UTC."""


class CronJobStatus(Status, conditions={SCHEDULED: "the next Job starts at status.nextScheduleTime"}):
    """The Jobs that were started."""

    active: list[str] = Field(default_factory=list)
    """The names of the Jobs that run."""
    last_schedule_time: datetime | None = None
    """The time of the last run that was started."""
    next_schedule_time: datetime | None = None
    """The time of the next run."""


@crd(
    columns=(
        Column("Schedule", "string", ".spec.schedule", "When Jobs start"),
        Column("Suspend", "boolean", ".spec.suspend", "Whether no Jobs are started for now"),
        Column("Last", "date", ".status.lastScheduleTime", "The time of the last run"),
        Column.reason_of(SCHEDULED),
    )
)
class CronJob(Resource, group=GROUP, version="v1", plural="cronjobs"):
    """A schedule, and the Job to start at each of its times."""

    spec: CronJobSpec
    """The Jobs, and the times at which they start."""
    status: CronJobStatus = Field(default_factory=CronJobStatus)
    """The Jobs that were started."""
