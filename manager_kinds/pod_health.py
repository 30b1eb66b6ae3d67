"""The health of pods: the reason why a pod does not run, as one word, and as a message."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from manager.api.resource import event_time, fields, number, objects, text

__all__ = ["PARTS_OF_HEALTH", "PodHealth", "Problem", "one_line", "problem_of_pods", "warning_of"]

PARTS_OF_HEALTH = (
    *(f"status.{name}" for name in ("phase", "reason", "message", "startTime")),
    *(
        f"status.conditions[*].{name}"
        for name in ("type", "status", "reason", "message", "lastTransitionTime")
    ),
    *(
        f"status.{containers}[*].{name}"
        for containers in ("initContainerStatuses", "containerStatuses")
        for name in ("name", "ready", "restartCount", "state", "lastState")
    ),
)
"""The paths in a pod that decide about its health, for `Selection.of(keeps=...)`."""

FAILED_SCHEDULING = "FailedScheduling"
"""The reason of Events from the time when a pod had no node yet."""

LONGEST_LINE = 250
"""The maximum number of characters from a container, the kubelet or the scheduler in a message."""

_OTHERS_NAMED = 3
"""The maximum number of further reasons that are named after the first."""

STARTS_WITHIN = timedelta(seconds=10)
"""The time in which a new pod may lack a node, or its sandbox and volumes, without a problem."""

_SETTLED, _SETTLED_AT_MOST = timedelta(seconds=60), timedelta(minutes=10)
"""A container that has ended before counts as healthy when it has run for as long as it ran before, within
these limits. The kubelet forgets a crash after ten minutes."""

_LOOP = 3
"""Restarts after which a container that has been ready for some seconds still counts as crashing."""

_CRASHED = "CrashLoopBackOff"
_NO_IMAGE = "ImagePullBackOff"
_STARTING = {"", "PodInitializing", "ContainerCreating"}
_PULLING = {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"}
"""Reasons between which the kubelet alternates."""

_BACK_OFF = re.compile(r'Back-off pulling image "[^"]*"(: (ErrImagePull|RegistryUnavailable))?(: )?')

_WORST_FIRST = (
    *(
        "InvalidImageName",
        "ErrImageNeverPull",
        _NO_IMAGE,
        "CreateContainerConfigError",
        "CreateContainerError",
    ),
    *("RunContainerError", "OOMKilled", _CRASHED),
)
"""The order of several pods' reasons. Other reasons come next, by name."""

_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)")
_NO_WORD = re.compile(r"[^A-Za-z0-9_]+|^[^A-Za-z]+")


class Problem(NamedTuple):
    """A problem that keeps a pod or a Deployment from running: one word, and a message."""

    reason: str
    message: str


class PodHealth(NamedTuple):
    """The health of one pod, derived from its status."""

    name: str
    namespace: str
    uid: str
    is_active: bool
    """Whether it counts as a replica of its owner: not terminating, Failed, evicted or Succeeded."""
    is_ready: bool
    problem: Problem | None
    """The reason why it does not run; None for a pod that is healthy or starting normally."""
    since: str
    """The last change of its conditions, in RFC 3339; empty if unknown."""
    is_stuck: bool
    """Whether it has had a node, but no sandbox or volumes, for too long: only its Events say why."""
    silent: str
    """The container that ended without a message; empty if there is none."""
    look_again_at: datetime | None
    """The time at which this changes by itself, such as when a crashed container has run long enough."""

    @classmethod
    def of(cls, pod: Mapping[str, Any], now: datetime, *, grace: timedelta = STARTS_WITHIN) -> PodHealth:
        """Return the health of a pod from its JSON. Fields with an unexpected type count as missing.

        During the time `grace`, a pod without node, sandbox or volumes has no problem.
        """
        metadata, status = fields(pod, "metadata"), fields(pod, "status")
        conditions = {text(each.get("type")): each for each in objects(status.get("conditions"))}
        times = [text(each.get("lastTransitionTime")) for each in conditions.values()]
        phase = text(status.get("phase"))
        deleting, ended = bool(metadata.get("deletionTimestamp")), phase in {"Failed", "Succeeded"}
        problem, stuck, look_again_at = None, False, None
        if phase == "Failed" and not deleting:
            problem = _failure(status)
        elif not ended and not deleting:
            for container, first in _containers(status):
                problem, look_again_at = _of_container(container, now, first=first)
                if problem is not None:
                    break
            if problem is None and phase in {"", "Pending"}:
                problem, stuck, look_again_at = _start(conditions, now, grace)
        return cls(
            text(metadata.get("name")),
            text(metadata.get("namespace")),
            text(metadata.get("uid")),
            is_active=not ended and not deleting,
            is_ready=not ended and text(conditions.get("Ready", {}).get("status")) == "True",
            problem=problem,
            since=max([*times, text(status.get("startTime"))]),
            is_stuck=stuck,
            silent="" if problem is None else _silent(status, problem),
            look_again_at=look_again_at,
        )


def problem_of_pods(pods: Sequence[PodHealth], *, missing: bool) -> Problem | None:
    """Return why pods of a Deployment do not run, with the number of such pods, and the name of one.

    `missing` means that fewer replicas are ready than desired. Then, if no active pod has a problem, failed
    pods count until another pod becomes ready.
    """
    active = [pod for pod in pods if pod.is_active]
    bad = [pod for pod in active if pod.problem is not None]
    if not bad and missing:
        ready_since = max((pod.since for pod in active if pod.is_ready), default="")
        bad = [pod for pod in pods if pod.problem is not None and pod.since >= ready_since]
    if not bad:
        return None
    counts = Counter(pod.problem.reason for pod in bad if pod.problem)
    first, *others = sorted(counts, key=_rank)
    # Always choose the same pod: a changed name would cause another status write.
    named = min((pod for pod in bad if pod.problem and pod.problem.reason == first), key=lambda pod: pod.name)
    assert named.problem is not None
    message = f"{counts[first]} of {_pods(max(len(active), len(bad)))}: {named.name}: {named.problem.message}"
    more = [f"{_pods(counts[each])}: {each}" for each in others[:_OTHERS_NAMED]]
    if len(others) > _OTHERS_NAMED:
        more.append(f"{_pods(sum(counts[each] for each in others[_OTHERS_NAMED:]))}: other reasons")
    return Problem(first, "; ".join([message, *more]))


def warning_of(events: Iterable[Any]) -> Problem | None:
    """Return the last warning among a pod's Events, ignoring FailedScheduling; None without one."""
    warnings = (each for each in events if text(fields(each).get("type")) == "Warning")
    warnings = (each for each in warnings if text(each.get("reason")) != FAILED_SCHEDULING)
    last = max(warnings, key=event_time, default=None)
    if last is None:
        return None
    return _problem(text(last.get("reason")), "Warning", _flat(text(last.get("message"))))


def one_line(said: str, longest: int = LONGEST_LINE) -> str:
    """Return the last line that is not blank, shortened and without control characters; "" without one."""
    lines = (" ".join(_printable(line).split()) for line in reversed(_ESCAPE.sub("", said).splitlines()))
    line = next(filter(None, lines), "")
    return line if len(line) <= longest else f"{line[:longest]}…"


def _printable(line: str) -> str:
    return "".join(each if each.isprintable() else " " for each in line)


def _flat(said: str) -> str:
    return one_line(" ".join(said.split()))


def _rank(reason: str) -> tuple[int, str]:
    known = _WORST_FIRST.index(reason) if reason in _WORST_FIRST else len(_WORST_FIRST)
    return known, reason


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _problem(reason: str, otherwise: str, message: str) -> Problem:
    """Return a problem whose word is valid as a condition's reason: `OutOfnvidia.com/gpu` is not."""
    return Problem(_NO_WORD.sub("", reason)[:100] or otherwise, message)


def _failure(status: Mapping[str, Any]) -> Problem:
    """Return why a pod has failed: evicted, refused by its node, past its deadline, or ended by itself."""
    reason = text(status.get("reason"))
    if not reason:
        for container, _ in _containers(status):
            ended = fields(container, "state", "terminated")
            if number(ended.get("exitCode")):
                return _problem(text(ended.get("reason")), "Failed", _end_of(container, ended))
    return _problem(reason, "Failed", _flat(text(status.get("message"))) or "the pod has failed")


def _containers(status: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    for each in objects(status.get("initContainerStatuses")):
        yield each, True
    for each in objects(status.get("containerStatuses")):
        yield each, False


def _of_container(
    container: Mapping[str, Any], now: datetime, *, first: bool
) -> tuple[Problem | None, datetime | None]:
    """Return the problem of a container, or None, and the time at which the problem will be over."""
    waiting, ended = fields(container, "state", "waiting"), fields(container, "state", "terminated")
    last, running = fields(container, "lastState", "terminated"), fields(container, "state", "running")
    reason = text(waiting.get("reason"))
    if ended:
        if not number(ended.get("exitCode")) and (first or not last):
            return None, None
        return _crash(container, ended), None
    if reason in _PULLING:
        said = _flat(_BACK_OFF.sub("", text(waiting.get("message"))))
        return Problem(
            _NO_IMAGE, f"{_called(container)}: {said or _flat(text(waiting.get('message')))}"
        ), None
    if last and reason in {_CRASHED, "RunContainerError"}:
        return _crash(container, last), None
    if reason not in _STARTING:
        return _problem(reason, "Waiting", _about(container, text(waiting.get("message")))), None
    if last and running:
        over_at = _settled_at(running, last, now)
        ready = container.get("ready") is True
        if now < over_at and not (ready and number(container.get("restartCount")) < _LOOP):
            return _crash(container, last), over_at
    elif last and not first:
        return _crash(container, last), None  # the kubelet creates it again
    return None, None


def _settled_at(running: Mapping[str, Any], last: Mapping[str, Any], now: datetime) -> datetime:
    """Return when a restarted container will have run long enough to count as healthy."""
    began, ended = _time(last.get("startedAt")), _time(last.get("finishedAt"))
    ran = ended - began if began is not None and ended is not None else _SETTLED
    since = _time(running.get("startedAt"))
    # A node's clock may be ahead.
    since = now if since is None or since > now else since
    return since + min(max(ran, _SETTLED), _SETTLED_AT_MOST)


def _crash(container: Mapping[str, Any], ended: Mapping[str, Any]) -> Problem:
    reason = "OOMKilled" if text(ended.get("reason")) == "OOMKilled" else _CRASHED
    return Problem(reason, _end_of(container, ended))


def _end_of(container: Mapping[str, Any], ended: Mapping[str, Any]) -> str:
    """Return how a container has ended: its exit code, and the last line of its output.

    With the terminationMessagePolicy FallbackToLogsOnError, the kubelet puts the end of the log into the
    status.
    """
    told = text(ended.get("reason"))
    because = " for lack of memory" if told == "OOMKilled" else ""
    line = one_line(text(ended.get("message")))
    how = f"{_called(container)} ended{because} with exit code {number(ended.get('exitCode'))}"
    return f"{how}: {line}" if line else how


def _silent(status: Mapping[str, Any], problem: Problem) -> str:
    """Return the name of the container that caused the problem, if it ended without a message; else ""."""
    for container, _ in _containers(status):
        for state in ("state", "lastState"):
            ended = fields(container, state, "terminated")
            if ended and problem.message == _end_of(container, ended):
                return "" if text(ended.get("message")).strip() else text(container.get("name"))
    return ""


def _about(container: Mapping[str, Any], said: str) -> str:
    return f"{_called(container)}: {_flat(said)}" if said.strip() else _called(container)


def _called(container: Mapping[str, Any]) -> str:
    return f"container {text(container.get('name'))}"


def _start(
    conditions: Mapping[str, Mapping[str, Any]], now: datetime, grace: timedelta
) -> tuple[Problem | None, bool, datetime | None]:
    """Return why a pod's containers do not start, whether the pod is stuck, and when to check again."""
    scheduled = conditions.get("PodScheduled", {})
    has_sandbox = text(conditions.get("PodReadyToStartContainers", {}).get("status")) == "True"
    if has_sandbox:
        return None, False, None
    if not scheduled:
        return None, False, now + grace  # the scheduler has not seen the pod yet
    since = _time(scheduled.get("lastTransitionTime"))
    if since is not None and now < min(since, now) + grace:
        return None, False, min(since, now) + grace
    if text(scheduled.get("status")) == "True":
        return None, True, None
    reason = text(scheduled.get("reason"))
    return _problem(reason, "Unschedulable", _flat(text(scheduled.get("message")))), False, None


def _time(found: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(text(found))
    except ValueError:
        return None
    return time if time.tzinfo is not None else None
