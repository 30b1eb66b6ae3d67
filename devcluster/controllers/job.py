"""Controller of Jobs and their pods."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from devcluster.controllers.client import JOBS, PODS, Object, ignoring, is_going, key_of
from devcluster.controllers.controller import Name, Routes
from devcluster.controllers.pod_owners import PodController
from devcluster.controllers.pod_status import is_ready, parse_time, pod_from
from devcluster.kinds import conditions
from devcluster.kinds.conditions import condition_of
from devcluster.quantity import parse_integer

TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of a pod that is not counted yet."""
JOB_NAME = "batch.kubernetes.io/job-name"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
"""The annotation with the number of earlier failed pods of the index."""


class FailureAction(NamedTuple):
    """Action that a Job's pod failure policy demands for a failed pod."""

    action: str
    message: str = ""


def failure_action(job: Object, pod: Object) -> FailureAction:
    """Return the action of the first policy rule that matches a failed pod; `Count` if none matches."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    where = f"{metadata['namespace']}/{metadata['name']}"
    for index, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        text, action = f"matching {rule['action']} rule at index {index}", rule["action"]
        if codes := rule.get("onExitCodes"):
            for name, code in _exit_codes(status, codes.get("containerName")):
                if code and (code in codes["values"]) == (codes["operator"] == "In"):
                    about = f"Container {name} for pod {where} failed with exit code {code}"
                    return FailureAction(action, f"{about} {text}")
        for wanted in rule.get("onPodConditions") or ():
            found = condition_of(pod, wanted["type"])
            if found is not None and found["status"] == wanted.get("status", "True"):
                return FailureAction(action, f"Pod {where} has condition {wanted['type']} {text}")
    return FailureAction("Count")


def _exit_codes(status: Object, container: str | None) -> Iterator[tuple[str, int]]:
    listed = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    for each in listed:
        ended = (each.get("state") or {}).get("terminated")
        if ended and container in {None, each["name"]}:
            yield each["name"], ended["exitCode"]


def failed_indexes(job: Object, pods: Iterable[Object]) -> set[int]:
    """Return the failed indexes of an indexed Job, from its status and its failed pods."""
    limit = job["spec"]["backoffLimitPerIndex"]
    found = indexes_from(job, (job.get("status") or {}).get("failedIndexes", ""))
    for pod in pods:
        if not _has_failed(pod):
            continue
        action = failure_action(job, pod).action
        if action == "FailIndex" or (action != "Ignore" and _failures(pod) >= limit):
            found.add(index_of(pod))
    return found


def _has_failed(pod: Object) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Failed")


def _failures(pod: Object) -> int:
    return parse_integer((pod["metadata"].get("annotations") or {}).get(FAILURES, "")) or 0


def matched_success_rule(job: Object, completed: set[int]) -> int | None:
    """Return the position of the success policy rule that the completed indexes satisfy, or None."""
    for index, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        wanted = rule.get("succeededIndexes")
        listed = completed if wanted is None else completed & indexes_from(job, wanted)
        least = rule.get("succeededCount")
        if len(listed) >= (least if least is not None else len(indexes_from(job, wanted or ""))):
            return index
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class Tally:
    """Pods of a Job, grouped by state."""

    active: list[Object]
    succeeded: list[Object]
    """Uncounted pods that have succeeded; `failed` has uncounted ones that failed or are being deleted."""
    failed: list[Object]
    terminating: list[Object]
    """Pods that are being deleted and have not ended."""

    @classmethod
    def of(cls, pods: Iterable[Object]) -> Tally:
        tally = cls([], [], [], [])
        for pod in pods:
            phase, metadata = (pod.get("status") or {}).get("phase"), pod["metadata"]
            tracked = TRACKING in (metadata.get("finalizers") or ())
            deleting = is_going(pod)
            if phase == "Succeeded":
                tally.succeeded.extend([pod] if tracked else [])
            elif phase == "Failed" or deleting:
                tally.failed.extend([pod] if tracked else [])
            else:
                tally.active.append(pod)
            if deleting and phase not in {"Succeeded", "Failed"}:
                tally.terminating.append(pod)
        return tally

    @property
    def ready(self) -> int:
        """The number of ready pods."""
        return sum(map(is_ready, self.active))


def is_indexed(job: Object) -> bool:
    """Return whether the Job's completion mode is Indexed."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Object) -> int:
    """Return the pod's completion index, or -1 if it has none."""
    number = parse_integer((pod["metadata"].get("annotations") or {}).get(INDEX, ""))
    return -1 if number is None else max(number, -1)


def indexes_from(job: Object, text: str) -> set[int]:
    """Return the indexes of the Job in a text such as `0-2,5`; ignore malformed parts and higher indexes."""
    found: set[int] = set()
    for part in text.split(","):
        first, *rest = (parse_integer(each) for each in part.split("-")[:2])
        last = rest[0] if rest else first
        if first is not None and last is not None:
            found.update(range(first, min(last + 1, job["spec"].get("completions", 1))))
    return found


def indexes_text(indexes: Iterable[int]) -> str:
    """Format a set of indexes such as `0-2,5`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(_run(first, last) for first, last in runs)


def job_pod(job: Object, index: int | None, pods: Sequence[Object] = ()) -> Object:
    """Build a new pod of a Job; `index` is its completion index or None, `pods` are the earlier pods."""
    name = job["metadata"]["name"]
    prefix = f"{name}-" if index is None else f"{name}-{index}-"
    pod = pod_from(job["spec"]["template"], job, prefix=prefix)
    metadata = pod["metadata"]
    metadata["finalizers"] = [*metadata.get("finalizers", ()), TRACKING]
    if index is not None:
        metadata["labels"] = {**metadata.get("labels", {}), INDEX: str(index)}
        metadata["annotations"] = {**metadata.get("annotations", {}), INDEX: str(index)}
        if job["spec"].get("backoffLimitPerIndex") is not None:
            before = [
                _failures(each) + (failure_action(job, each).action != "Ignore")
                for each in pods
                if index_of(each) == index and _has_failed(each)
            ]
            metadata["annotations"][FAILURES] = str(max(before, default=0))
        pod["spec"]["hostname"] = f"{name}-{index}"
        variable = {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
        }
        for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
            container["env"] = [*container.get("env", ()), variable]
    return pod


def missing_indexes(job: Object, completed: set[int], active: Sequence[Object]) -> Iterator[int]:
    """Yield the indexes that are not completed and have no active pod; a Job may have 2^31 indexes."""
    taken = completed | {index_of(pod) for pod in active}
    return (index for index in range(job["spec"].get("completions", 1)) if index not in taken)


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


FIRST_BACKOFF, LAST_BACKOFF = 10.0, 600.0
"""Seconds from a pod's failure to the next attempt: initial and maximum; each further failure doubles it."""
OUTCOMES = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}
"""The final condition for each preliminary condition, when all pods are gone or counted."""


class JobController(PodController):
    """Job controller, which runs pods until enough have succeeded, and counts them in the status."""

    name = "job-controller"
    batch_period = 0.002

    def routes(self) -> Routes:
        return {JOBS: self.enqueue, PODS: self.enqueue_controller("Job")}

    async def sync(self, key: Name) -> None:
        job = self.view.get(JOBS, *key)
        await self._untrack(self._left_behind(key, job))
        if job is None or job["spec"].get("managedBy", "kubernetes.io/job-controller") != (
            "kubernetes.io/job-controller"
        ):
            return
        tally = Tally.of(self.view.owned(PODS, job["metadata"]["uid"]))
        if is_going(job):
            await self._release(tally)
        elif _finished(job) is not None:
            await self._release(tally)
            await self._expire(key, job)
        else:
            await self._advance(key, job, tally)

    async def _advance(self, key: Name, job: Object, tally: Tally) -> None:
        status = dict(job.get("status") or {})
        status["conditions"] = self._suspension(job)
        if not job["spec"].get("suspend"):
            status.setdefault("startTime", self.clock.timestamp())
        else:
            status.pop("startTime", None)
        completed = _completed(job, tally)
        succeeded = len(completed) if is_indexed(job) else status.get("succeeded", 0) + len(tally.succeeded)
        actions = [failure_action(job, pod) for pod in tally.failed]
        failed = status.get("failed", 0) + sum(each.action != "Ignore" for each in actions)
        if _target(status) is None:
            if job["spec"].get("backoffLimitPerIndex") is not None:
                lost = failed_indexes(job, self.view.owned(PODS, job["metadata"]["uid"])) - completed
                status["failedIndexes"] = indexes_text(lost)
            failure = next((each for each in actions if each.action == "FailJob"), None)
            if failure is not None:
                outcome: Object | None = self._condition("FailureTarget", "PodFailurePolicy", failure.message)
            else:
                outcome = self._outcome(key, job, tally, status, succeeded, failed, completed)
            if outcome:
                status["conditions"] = [*status["conditions"], outcome]
        elif (_target(status) or {})["type"] == "SuccessCriteriaMet":
            failed = status.get("failed", 0)  # the other pods are stopped, and have not failed
        if _target(status) is not None or job["spec"].get("suspend"):
            await self._stop(job, tally)
        else:
            taken = completed | indexes_from(job, status.get("failedIndexes", ""))
            await self._manage(key, job, tally, taken, len(taken) if is_indexed(job) else succeeded)
        status["active"] = len(tally.active)
        status["ready"] = tally.ready
        status["terminating"] = len(tally.terminating)
        if is_indexed(job):
            status["succeeded"] = succeeded
            status["completedIndexes"] = indexes_text(completed)
        job = await self._count(job, status, tally, succeeded, failed)
        await self._finish(job, tally)

    def _suspension(self, job: Object) -> list[Object]:
        known: list[Object] = (job.get("status") or {}).get("conditions") or []
        condition = conditions.find(known, "Suspended")
        suspended = condition is not None and condition["status"] == "True"
        wanted = bool(job["spec"].get("suspend"))
        if suspended == wanted:
            return known
        word = "Suspended" if wanted else "Resumed"
        self.normal(job, word, f"Job {word.lower()}")
        new = self._condition(
            "Suspended", f"Job{word}", f"Job {word.lower()}", value="True" if wanted else "False"
        )
        return [new if each is condition else each for each in known] if condition else [*known, new]

    def _outcome(
        self,
        key: Name,
        job: Object,
        tally: Tally,
        status: Object,
        succeeded: int,
        failed: int,
        completed: set[int],
    ) -> Object | None:
        """Return the condition that announces the Job's result, or None while the Job continues."""
        spec = job["spec"]
        rule = matched_success_rule(job, completed)
        if rule is not None:
            return self._condition("SuccessCriteriaMet", "SuccessPolicy", f"Matched rules at index {rule}")
        lost, most = indexes_from(job, status.get("failedIndexes", "")), spec.get("maxFailedIndexes")
        if most is not None and len(lost) > most:
            text = "Job has exceeded the specified maximal number of failed indexes"
            return self._condition("FailureTarget", "MaxFailedIndexesExceeded", text)
        if lost and len(lost) + len(completed) >= spec.get("completions", 1):
            return self._condition("FailureTarget", "FailedIndexes", "Job has failed indexes")
        limit = spec.get("backoffLimit", 6)
        restarts = sum(
            each.get("restartCount", 0)
            for pod in tally.active
            for each in (pod.get("status") or {}).get("containerStatuses") or ()
        )
        on_failure = spec["template"]["spec"].get("restartPolicy") == "OnFailure"
        if failed > limit or (on_failure and restarts > limit >= 0 and restarts):
            text = "Job has reached the specified backoff limit"
            return self._condition("FailureTarget", "BackoffLimitExceeded", text)
        remaining = self._remaining(job)
        if remaining is not None and not spec.get("suspend"):
            if remaining <= 0:
                text = "Job was active longer than specified deadline"
                return self._condition("FailureTarget", "DeadlineExceeded", text)
            self.queue.add_after(key, remaining)
        completions = spec.get("completions")
        done = succeeded >= completions if completions is not None else succeeded and not tally.active
        if done:
            text = "Reached expected number of succeeded pods"
            return self._condition("SuccessCriteriaMet", "CompletionsReached", text)
        return None

    def _remaining(self, job: Object) -> float | None:
        """Return the seconds until the Job's deadline, or None without activeDeadlineSeconds."""
        start, limit = (job.get("status") or {}).get("startTime"), job["spec"].get("activeDeadlineSeconds")
        if limit is None:
            return None
        if start is None:
            return float(limit)
        return float(limit) - (self.clock.now() - parse_time(start)).total_seconds()

    async def _stop(self, job: Object, tally: Tally) -> None:
        """Delete the running pods; they count as failed, unless the Job has met its success criteria."""
        for pod in tally.active:
            await self.delete_pod(job, pod)
        tally.terminating.extend(tally.active)
        tally.active.clear()

    async def _manage(
        self, key: Name, job: Object, tally: Tally, completed: set[int], succeeded: int
    ) -> None:
        """Create or delete pods until the right number of pods is active."""
        spec = job["spec"]
        wanted, completions = spec.get("parallelism", 1), spec.get("completions")
        if completions is not None:
            wanted = min(wanted, completions - succeeded)
        elif succeeded:
            wanted = min(wanted, len(tally.active))
        surplus = len(tally.active) - wanted
        if surplus > 0:
            spare = Tally(tally.active[:surplus], [], [], tally.terminating)
            del tally.active[:surplus]
            await self._stop(job, spare)
        elif surplus < 0:
            delay = self._backoff(job, tally)
            if delay > 0:
                self.queue.add_after(key, delay)
                return
            free = missing_indexes(job, completed, tally.active) if is_indexed(job) else None
            for _ in range(-surplus):
                index = next(free, None) if free is not None else None
                if free is None or index is not None:
                    pod = job_pod(job, index, self.view.owned(PODS, job["metadata"]["uid"]))
                    tally.active.append(await self.create_pod(job, pod))

    def _backoff(self, job: Object, tally: Tally) -> float:
        """Return the seconds until the next attempt after a failed pod; 0 or less means now."""
        owned = self.view.owned(PODS, job["metadata"]["uid"])
        ended = [_ended_at(pod) for pod in owned if _has_failed(pod)]
        times = sorted(filter(None, ended))
        failed: int = (job.get("status") or {}).get("failed", 0)
        failed += sum(failure_action(job, pod).action != "Ignore" for pod in tally.failed)
        if not times or not failed:
            return 0.0
        passed = (self.clock.now() - parse_time(times[-1])).total_seconds()
        return min(FIRST_BACKOFF * float(2 ** (min(failed, 20) - 1)), LAST_BACKOFF) - passed

    # Counting: the status first lists the pods to be counted, so that no pod is counted twice.

    async def _count(self, job: Object, status: Object, tally: Tally, succeeded: int, failed: int) -> Object:
        uncounted: Object = {}
        if tally.succeeded and not is_indexed(job):
            uncounted["succeeded"] = [pod["metadata"]["uid"] for pod in tally.succeeded]
        if tally.failed:
            uncounted["failed"] = [pod["metadata"]["uid"] for pod in tally.failed]
        job = await self._write(job, {**status, "uncountedTerminatedPods": uncounted})
        if not uncounted and not tally.succeeded:
            return job
        await self._release(tally)
        counts = {"succeeded": succeeded, "failed": failed, "uncountedTerminatedPods": {}}
        if _target(status) is not None and not tally.terminating:
            # The last counts are written together with the result.
            return {**job, "status": {**job["status"], **counts}}
        return await self._write(job, {**status, **counts})

    async def _finish(self, job: Object, tally: Tally) -> None:
        target = _target(job["status"])
        if target is None or tally.terminating:
            return
        status = dict(job["status"])
        outcome = self._condition(OUTCOMES[target["type"]], target["reason"], target["message"])
        status["conditions"] = [*status["conditions"], outcome]
        if outcome["type"] == "Complete":
            status["completionTime"] = self.clock.timestamp()
        await self._write(job, status)
        if outcome["type"] == "Complete":
            self.normal(job, "Completed", "Job completed")
        else:
            self.warn(job, outcome["reason"], outcome["message"])

    async def _release(self, tally: Tally) -> None:
        """Remove the tracking finalizer from the pods that have succeeded or failed."""
        await self._untrack(pod["metadata"] for pod in (*tally.succeeded, *tally.failed))

    def _left_behind(self, key: Name, job: Object | None) -> list[Object]:
        """Return the metadata of pods that have the tracking finalizer and are not owned by this Job.

        Such pods belong to a deleted Job of the same name.
        """
        uid = None if job is None else job["metadata"]["uid"]
        selector = {"matchLabels": {JOB_NAME: key[1]}}
        found = [each.decode()["metadata"] for each in self.view.selected(PODS, key[0], selector)]
        return [
            each
            for each in found
            if TRACKING in each.get("finalizers", ())
            and not any(owner["uid"] == uid for owner in each.get("ownerReferences", ()))
        ]

    async def _untrack(self, pods: Iterable[Object]) -> None:
        """Remove the finalizer `batch.kubernetes.io/job-tracking`; `pods` are the metadata of pods."""
        for metadata in pods:
            kept = [each for each in metadata.get("finalizers") or () if each != TRACKING]
            with ignoring("NotFound"):
                await self.patch(PODS, {"metadata": metadata}, finalizers=kept or None)

    async def _write(self, job: Object, status: Object) -> Object:
        always = {"ready", "terminating", "uncountedTerminatedPods"}
        new = {name: value for name, value in status.items() if value or name in always}
        stored = self.view.get(JOBS, *key_of(job))
        if stored is not None and new == stored.get("status"):
            return {**stored, "status": new}
        return await self.update(JOBS, {**job, "status": new}, subresource="status")

    async def _expire(self, key: Name, job: Object) -> None:
        """Delete a finished Job when its ttlSecondsAfterFinished has passed."""
        limit, ended = job["spec"].get("ttlSecondsAfterFinished"), _finished(job)
        if limit is None or ended is None:
            return
        passed = (self.clock.now() - parse_time(ended["lastTransitionTime"])).total_seconds()
        if passed < limit:
            self.queue.add_after(key, limit - passed)
        else:
            await self.delete(JOBS, job, propagation="Foreground")

    def _condition(self, kind: str, reason: str, message: str, *, value: str = "True") -> Object:
        now = self.clock.timestamp()
        return {
            "type": kind,
            "status": value,
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }


def _finished(job: Object) -> Object | None:
    known = (job.get("status") or {}).get("conditions") or ()
    ends = {"Complete", "Failed"}
    return next((each for each in known if each["type"] in ends and each["status"] == "True"), None)


def _target(status: Object) -> Object | None:
    known = status.get("conditions") or ()
    return next((each for each in known if each["type"] in OUTCOMES), None)


def _completed(job: Object, tally: Tally) -> set[int]:
    """Return the completed indexes; the set is empty if the Job is not indexed."""
    if not is_indexed(job):
        return set()
    known = indexes_from(job, (job.get("status") or {}).get("completedIndexes", ""))
    return known | {index for pod in tally.succeeded if (index := index_of(pod)) >= 0}


def _ended_at(pod: Object) -> str:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    times = [each["state"]["terminated"]["finishedAt"] for each in statuses if "terminated" in each["state"]]
    return max(times, default=pod["metadata"].get("deletionTimestamp") or "")
