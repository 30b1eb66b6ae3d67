"""CronJob operator: it starts a Job at each time of a CronJob's schedule, and deletes old Jobs."""

from __future__ import annotations

from datetime import datetime, timedelta

from cronsim import CronSim, CronSimError

from examples.cronjob.v1 import SCHEDULED, CronJob, Job
from examples.cronjob.v2 import CronJob as NextCronJob
from examples.cronjob.v2 import Schedule
from manager import Blocked, Context, Operator, webhook
from manager.util import clock
from manager.webhook import AdmissionRequest, JsonObject, Refused, invalid

SCHEDULED_AT = "cron.example.com/scheduled-at"
"""The annotation of a Job with the scheduled time."""
LONGEST_NAME = 52
"""The maximum length of a name: a Job's name has 63 characters at most; 11 are reserved for the time."""
PARTS = [each.alias or name for name, each in Schedule.model_fields.items()]


class CronJobOperator(Operator[CronJob]):
    """The operator that starts Jobs on schedule; the due time is in a Job's name, so no Job starts twice."""

    versions = (NextCronJob,)
    owns = (Job,)

    async def reconcile(self, cronjob: CronJob, ctx: Context) -> None:
        """Start the Job that is due, if any."""
        spec, status, now = cronjob.spec, cronjob.status, clock.now()
        jobs = sorted(await ctx.children(Job), key=time_of)
        active = [each for each in jobs if outcome_of(each) == ""]
        status.active = [each.metadata.name for each in active]
        times = [*map(time_of, jobs), status.last_schedule_time]
        status.last_schedule_time = max(filter(None, times), default=None)
        # Write the status before an old Job is deleted: otherwise its time would count as missed after a
        # crash.
        await ctx.write_status()
        for outcome, limit in (
            ("Complete", spec.successful_jobs_history_limit),
            ("Failed", spec.failed_jobs_history_limit),
        ):
            ended = [each for each in jobs if outcome_of(each) == outcome]
            for each in ended[: max(len(ended) - limit, 0)]:
                await ctx.delete(each)
        if spec.suspend:
            status.next_schedule_time = None
            ctx.condition(SCHEDULED, False, "Suspended", "no Jobs are started while spec.suspend is true")
            return
        try:
            due, following = due_time(cronjob, now), next(CronSim(spec.schedule, now))
        except CronSimError as error:
            raise Blocked("InvalidSchedule", f"spec.schedule: {error}") from None
        status.next_schedule_time = following
        # This also applies if `start` is blocked, because another owner's Job has the name.
        ctx.look_again_within((following - now).total_seconds())
        if due is not None and active and spec.concurrency_policy == "Forbid":
            message = f"the run of {due:%F %R} waits for {active[0].metadata.name}"
            ctx.condition(SCHEDULED, True, "JobStillActive", message, event="Warning")
        else:
            if due is not None:
                await self.start(cronjob, due, active, ctx)
            ctx.condition(SCHEDULED, True, "Waiting")

    async def start(self, cronjob: CronJob, due: datetime, active: list[Job], ctx: Context) -> None:
        """Start the due Job, unless the status on the API server says that this has happened already."""
        live = await ctx.client.uncached.get(CronJob, cronjob.key)
        if live.status.last_schedule_time is not None and live.status.last_schedule_time >= due:
            return
        if cronjob.spec.concurrency_policy == "Replace":
            for each in active:
                await ctx.delete(each)
        template = cronjob.spec.job_template.to_wire()
        job = Job.model_validate({"metadata": {}, **template})
        job.metadata.name = f"{cronjob.metadata.name}-{int(due.timestamp()) // 60}"
        job.metadata.namespace = cronjob.metadata.namespace
        job.metadata.annotations[SCHEDULED_AT] = due.isoformat()
        await ctx.apply(job)
        cronjob.status.last_schedule_time = due

    @webhook.default
    async def tidy(self, cronjob: JsonObject, _: AdmissionRequest) -> None:
        """Put exactly one space between the fields of the schedule, as the conversion requires."""
        spec = cronjob.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("schedule"), str):
            spec["schedule"] = " ".join(spec["schedule"].split())

    @webhook.validate_create
    @webhook.validate_update
    async def check(self, old: CronJob | None, new: CronJob, _: AdmissionRequest) -> None:
        """Refuse a name that is too long, and a schedule that matches no time."""
        problems = []
        name, schedule = new.metadata.name, new.spec.schedule
        if old is None and len(name) > LONGEST_NAME:
            problems.append(invalid("metadata.name", name, f"must be no more than {LONGEST_NAME} characters"))
        if old is None or old.spec.schedule != schedule:
            try:
                next(CronSim(schedule, clock.now()))
            except CronSimError as error:
                problems.append(invalid("spec.schedule", schedule, str(error)))
        if problems:
            raise Refused(*problems)

    @webhook.from_hub(NextCronJob)
    async def to_v2(self, cronjob: JsonObject) -> None:
        """Split the schedule's line into separate fields for the minute, the hour and so on."""
        with webhook.spec_and_annotations(cronjob) as (spec, _):
            if isinstance(spec.get("schedule"), str):
                spec["schedule"] = dict(zip(PARTS, spec["schedule"].split(" "), strict=False))

    @webhook.to_hub(NextCronJob)
    async def to_v1(self, cronjob: JsonObject) -> None:
        """Join the schedule's fields (minute, hour and so on) into one line."""
        with webhook.spec_and_annotations(cronjob) as (spec, _):
            if isinstance(spec.get("schedule"), dict):
                spec["schedule"] = " ".join(spec["schedule"].get(each, "*") for each in PARTS)


def due_time(cronjob: CronJob, now: datetime) -> datetime | None:
    """Return the latest scheduled time since the last start; None if there is none, or it is too long ago."""
    since = cronjob.status.last_schedule_time or cronjob.metadata.creation_timestamp or now
    deadline = cronjob.spec.starting_deadline_seconds
    latest = next(CronSim(cronjob.spec.schedule, now + timedelta(seconds=1), reverse=True))
    if deadline is not None and latest < now - timedelta(seconds=deadline):
        return None
    return latest if latest > since else None


def time_of(job: Job) -> datetime:
    """Return the scheduled time of a Job, from its annotation."""
    return datetime.fromisoformat(job.metadata.annotations[SCHEDULED_AT])


def outcome_of(job: Job) -> str:
    """Return "Complete" or "Failed"; "" while the Job runs."""
    conditions = job.status.get("conditions") or ()
    ended = (each["type"] for each in conditions if each["status"] == "True")
    return next((each for each in ended if each in {"Complete", "Failed"}), "")
