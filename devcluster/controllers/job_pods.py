"""The pods of a Job: their counts by result, and new pods with or without an index."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from devcluster.controllers.client import Object
from devcluster.controllers.pods import condition_of, is_ready, pod_from

__all__ = [
    "JOB_NAME",
    "TRACKING",
    "Tally",
    "failed_indexes",
    "failure_action",
    "index_of",
    "indexes_from",
    "indexes_text",
    "is_indexed",
    "job_pod",
    "matched_success_rule",
    "missing_indexes",
]

TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of a pod that is not counted yet."""
JOB_NAME = "batch.kubernetes.io/job-name"
"""The label that names the Job."""
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
"""The annotation with how often pods of the index have failed before this one."""


class FailureAction(NamedTuple):
    """The verdict of a Job's pod failure policy on a failed pod."""

    action: str
    message: str = ""


def failure_action(job: Object, pod: Object) -> FailureAction:
    """Return the action of the first rule that matches a failed pod; `Count` without one."""
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
    """Return the indexes that are given up, by the Job's status and its pods."""
    limit = job["spec"]["backoffLimitPerIndex"]
    found = indexes_from((job.get("status") or {}).get("failedIndexes", ""))
    for pod in pods:
        if (pod.get("status") or {}).get("phase") != "Failed":
            continue
        action = failure_action(job, pod).action
        if action == "FailIndex" or (action != "Ignore" and _failures(pod) >= limit):
            found.add(index_of(pod))
    return found


def _failures(pod: Object) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(FAILURES, "0"))


def matched_success_rule(job: Object, completed: set[int]) -> int | None:
    """Return the index of the rule by which the completed indexes are enough, or None."""
    for index, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        wanted = rule.get("succeededIndexes")
        listed = completed if wanted is None else completed & indexes_from(wanted)
        least = rule.get("succeededCount")
        if len(listed) >= (least if least is not None else len(indexes_from(wanted or ""))):
            return index
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class Tally:
    """The pods of a Job, sorted."""

    active: list[Object]
    succeeded: list[Object]
    """Ended well, and not counted yet; as `failed`."""
    failed: list[Object]
    terminating: list[Object]
    """Being deleted before their end."""

    @classmethod
    def of(cls, pods: Iterable[Object]) -> Tally:
        """Sort the pods."""
        tally = cls([], [], [], [])
        for pod in pods:
            phase, metadata = (pod.get("status") or {}).get("phase"), pod["metadata"]
            tracked = TRACKING in (metadata.get("finalizers") or ())
            deleting = bool(metadata.get("deletionTimestamp"))
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
    """Return whether the Job's completions have indexes."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Object) -> int:
    """Return a pod's completion index, or -1."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else -1


def indexes_from(text: str) -> set[int]:
    """Parse a set of indexes such as `0-2,5`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
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
    """Build a pod of a Job, with its completion index if it has one; `pods` are those before it."""
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
                if index_of(each) == index and (each.get("status") or {}).get("phase") == "Failed"
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


def missing_indexes(job: Object, completed: set[int], active: Sequence[Object]) -> list[int]:
    """Return the indexes that are neither completed nor have a pod."""
    taken = completed | {index_of(pod) for pod in active}
    return [index for index in range(job["spec"].get("completions", 1)) if index not in taken]


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
