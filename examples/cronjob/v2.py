"""CronJob v2: the schedule has separate fields for the minute, the hour and so on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from examples.cronjob.v1 import GROUP, CronJobStatus, RunsSpec
from manager.api import ApiModel, Column, Resource, crd

__all__ = ["CronJob", "CronJobSpec", "Schedule"]

Part = Annotated[str, Field(max_length=40, pattern=r"^\S+$")]


class Schedule(ApiModel):
    """A schedule in UTC, as in crontab: if neither day field begins with "*", one of them has to match."""

    minute: Part = "*"
    """Minutes of the hour, 0 to 59."""
    hour: Part = "*"
    """Hours of the day, 0 to 23."""
    day_of_month: Part = "*"
    """Days of the month, 1 to 31."""
    month: Part = "*"
    """Months, 1 to 12, or JAN to DEC."""
    day_of_week: Part = "*"
    """Days of the week, 0 to 7 from Sunday to Sunday, or SUN to SAT."""


class CronJobSpec(RunsSpec):
    """The Jobs, and the times at which they start."""

    schedule: Schedule
    """When Jobs start."""


@crd(columns=(Column("Last", "date", ".status.lastScheduleTime", "The time of the last run"),), storage=False)
class CronJob(Resource, group=GROUP, version="v2", plural="cronjobs"):
    """A schedule, and the Job to start at each of its times."""

    spec: CronJobSpec
    """The Jobs, and the times at which they start."""
    status: CronJobStatus = Field(default_factory=CronJobStatus)
    """The Jobs that were started."""
