"""Controller of CronJobs, which starts Jobs by a schedule and deletes old ones."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Iterable

from devcluster.builtin.jobs import InvalidSchedule, parse_schedule, zone_of
from devcluster.controllers.client import JOBS, Object, is_going, key_of, owner_reference
from devcluster.controllers.controller import Controller, Name, Routes
from devcluster.controllers.pod_status import parse_time
from devcluster.errors import StatusError
from devcluster.kinds.conditions import condition_of

CRON_JOBS = ("batch", "cronjobs")
SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_CONFLICT = 409


class CronJobController(Controller):
    """CronJob controller; each change of a Job also reconciles the CronJob that owns it."""

    name = "cronjob-controller"
    batch_period = 0.002

    def routes(self) -> Routes:
        return {CRON_JOBS: self.enqueue, JOBS: self.enqueue_controller("CronJob")}

    async def sync(self, key: Name) -> None:
        cron = self.living(CRON_JOBS, key)
        if cron is None:
            return
        jobs = self.view.owned(JOBS, cron["metadata"]["uid"])
        status = copy.deepcopy(cron.get("status") or {})
        status["active"] = self._still_active(cron, status, jobs)
        await self._start_due(key, cron, status, jobs)
        await self._clean_up(cron, jobs)
        if not status["active"]:
            del status["active"]
        await self.write_status(CRON_JOBS, cron, status)

    def _still_active(self, cron: Object, status: Object, jobs: Iterable[Object]) -> list[Object]:
        """Return references to running Jobs; record ended or missing Jobs as Events, and the last success."""
        known = {each["uid"]: each for each in status.get("active") or ()}
        alive: dict[str, Object] = {}
        for job in jobs:
            metadata = job["metadata"]
            ended = _ended(job)
            if ended and metadata["uid"] in known:
                text = f"Saw completed job: {metadata['name']}, condition: {ended}"
                self.normal(cron, "SawCompletedJob", text)
            if not ended:
                alive[metadata["uid"]] = known.get(metadata["uid"]) or _reference(job)
            completed = (job.get("status") or {}).get("completionTime")
            if ended == "Complete" and completed and completed > status.get("lastSuccessfulTime", ""):
                status["lastSuccessfulTime"] = completed
        for uid, reference in known.items():
            if uid not in {job["metadata"]["uid"] for job in jobs}:
                self.normal(cron, "MissingJob", f"Active job went missing: {reference['name']}")
        return list(alive.values())

    async def _start_due(self, key: Name, cron: Object, status: Object, jobs: list[Object]) -> None:
        spec, now = cron["spec"], self.clock.now()
        if spec.get("suspend"):
            return
        try:
            schedule, zone = parse_schedule(spec["schedule"]), zone_of(spec.get("timeZone"))
        except InvalidSchedule as error:
            self.warn(cron, "UnparseableSchedule", f"unparseable schedule: {spec['schedule']} : {error}")
            return
        except ValueError:
            self.warn(cron, "UnknownTimeZone", f"invalid timeZone: {spec['timeZone']}")
            return
        due = schedule.last_between(self._earliest(cron, status, now), now, zone)
        if due is not None and await self._may_start(cron, status, jobs):
            await self._start(cron, status, due, zone)
        if (following := schedule.next_after(now, zone)) is not None:
            self.queue.add_after(key, (following - now).total_seconds())

    @staticmethod
    def _earliest(cron: Object, status: Object, now: datetime.datetime) -> datetime.datetime:
        """Return the last start (else the creation), or now - startingDeadlineSeconds if that is later."""
        earliest = parse_time(status.get("lastScheduleTime") or cron["metadata"]["creationTimestamp"])
        deadline = cron["spec"].get("startingDeadlineSeconds")
        if deadline is None:
            return earliest
        return max(earliest, now - datetime.timedelta(seconds=deadline))

    async def _may_start(self, cron: Object, status: Object, jobs: list[Object]) -> bool:
        """Return whether the concurrency policy allows a new Job; the policy Replace deletes running Jobs."""
        if not status["active"]:
            return True
        policy = cron["spec"].get("concurrencyPolicy")
        if policy == "Forbid":
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.normal(cron, "JobAlreadyActive", message)
            return False
        if policy == "Replace":
            for job in jobs:
                if not _ended(job):
                    await self._delete(cron, job)
            status["active"] = []
        return True

    async def _start(
        self, cron: Object, status: Object, due: datetime.datetime, zone: datetime.tzinfo
    ) -> None:
        namespace, name = key_of(cron)
        template = cron["spec"]["jobTemplate"]
        about = template.get("metadata") or {}
        shown = due.astimezone(zone).isoformat().replace("+00:00", "Z")
        job: Object = {
            "metadata": {
                "name": f"{name}-{int(due.timestamp()) // 60}",
                "namespace": namespace,
                "labels": dict(about.get("labels") or {}),
                "annotations": {**(about.get("annotations") or {}), SCHEDULED_AT: shown},
                "ownerReferences": [owner_reference(cron)],
            },
            "spec": copy.deepcopy(template["spec"]),
        }
        try:
            created = await self.create(JOBS, job)
        except StatusError as error:
            if error.code != _CONFLICT:
                self.warn(cron, "FailedCreate", f"Error creating job: {error.message}")
                raise
        else:
            self.normal(cron, "SuccessfulCreate", f"Created job {created['metadata']['name']}")
            status["active"] = [*status["active"], _reference(created)]
        status["lastScheduleTime"] = due.strftime("%Y-%m-%dT%H:%M:%SZ")

    async def _clean_up(self, cron: Object, jobs: list[Object]) -> None:
        """Delete the oldest finished Jobs that exceed the history limits."""
        for field, condition in (
            ("successfulJobsHistoryLimit", "Complete"),
            ("failedJobsHistoryLimit", "Failed"),
        ):
            limit = cron["spec"].get(field)
            if limit is None:
                continue
            ended = sorted((job for job in jobs if _ended(job) == condition), key=_started_at)
            for job in ended[: max(len(ended) - limit, 0)]:
                await self._delete(cron, job)

    async def _delete(self, cron: Object, job: Object) -> None:
        if is_going(job):
            return
        await self.delete(JOBS, job)
        self.normal(cron, "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")


def _ended(job: Object) -> str:
    """Return the type of a finished Job's condition (`Complete` or `Failed`), or "" if it is not finished."""
    found = (condition_of(job, kind) for kind in ("Complete", "Failed"))
    return next((each["type"] for each in found if each is not None and each["status"] == "True"), "")


def _started_at(job: Object) -> tuple[str, str]:
    return (job.get("status") or {}).get("startTime", ""), job["metadata"]["name"]


def _reference(job: Object) -> Object:
    metadata = job["metadata"]
    about = {name: metadata[name] for name in ("namespace", "name", "uid", "resourceVersion")}
    return {"kind": "Job", "apiVersion": "batch/v1", **about}
