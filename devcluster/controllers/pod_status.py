"""Functions that read a pod's status, or compute it from the states of its containers."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from devcluster.builtin.pod_checks import DELETION_COST
from devcluster.controllers.client import Object, is_going, owner_reference
from devcluster.kinds import conditions
from devcluster.kinds.conditions import condition_of
from devcluster.quantity import parse_integer


def parse_time(text: str) -> datetime.datetime:
    """Parse a metav1.Time."""
    return datetime.datetime.fromisoformat(text)


def has_ended(pod: Object) -> bool:
    """Return whether the pod has succeeded or failed."""
    return (pod.get("status") or {}).get("phase") in ENDED


def is_terminating(pod: Object) -> bool:
    """Return whether the pod is being deleted and its containers have not ended."""
    return is_going(pod) and not has_ended(pod)


def is_active(pod: Object) -> bool:
    """Return whether the pod has not ended and is not being deleted."""
    return not is_going(pod) and not has_ended(pod)


def is_ready(pod: Object) -> bool:
    """Return whether the pod's condition Ready is true."""
    return conditions.is_true(pod, "Ready")


def seconds_until_available(pod: Object, min_ready: int, now: datetime.datetime) -> float | None:
    """Return the seconds until the pod has been ready for `min_ready` seconds, or None if it is not ready."""
    condition = condition_of(pod, "Ready")
    if condition is None or condition["status"] != "True":
        return None
    since = condition.get("lastTransitionTime")
    if not min_ready or not since:
        return 0.0
    return (parse_time(since) - now).total_seconds() + min_ready


def is_available(pod: Object, min_ready: int, now: datetime.datetime) -> bool:
    """Return whether the pod has been ready for `min_ready` seconds."""
    seconds = seconds_until_available(pod, min_ready, now)
    return seconds is not None and seconds <= 0


def deletion_order(pods: Sequence[Object], related: Sequence[Object]) -> list[Object]:
    """Sort pods for deletion; the pods to delete first come first.

    `related` are the pods of the same application: a pod is deleted earlier if its node has more of them.
    """
    crowd: dict[str, int] = {}
    for pod in related:
        if is_active(pod):
            node = pod["spec"].get("nodeName", "")
            crowd[node] = crowd.get(node, 0) + 1
    return sorted(pods, key=lambda pod: _reluctance(pod, crowd))


def pod_from(template: Object, owner: Object, *, prefix: str = "", name: str = "") -> Object:
    """Build a pod from the pod template of `owner`; set `name`, or `prefix` for a generated name."""
    metadata: dict[str, Any] = {"generateName": prefix} if prefix else {"name": name}
    metadata["namespace"] = owner["metadata"]["namespace"]
    described: Mapping[str, Any] = template.get("metadata") or {}
    for field in ("labels", "annotations", "finalizers"):
        if described.get(field):
            metadata[field] = copy.copy(described[field])
    metadata["ownerReferences"] = [owner_reference(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy.deepcopy(template["spec"])}


def _reluctance(pod: Object, crowd: Mapping[str, int]) -> tuple[Any, ...]:
    node, ready = pod["spec"].get("nodeName", ""), condition_of(pod, "Ready")
    status = pod.get("status", {})
    is_up = ready is not None and ready["status"] == "True"
    annotations = pod["metadata"].get("annotations") or {}
    cost = annotations.get(DELETION_COST, "0")
    restarts = max((each.get("restartCount", 0) for each in status.get("containerStatuses") or ()), default=0)
    return (
        bool(node),
        {"Pending": 0, "Unknown": 1}.get(status.get("phase", "Pending"), 2),
        is_up,
        parse_integer(cost) or 0,
        -crowd.get(node, 0),
        _newest_first(ready.get("lastTransitionTime") if is_up and ready else None),
        -restarts,
        _newest_first(pod["metadata"].get("creationTimestamp")),
    )


def _newest_first(timestamp: str | None) -> float:
    return -parse_time(timestamp).timestamp() if timestamp else 0.0


KILLED = 137
INITIALIZING: Object = {"waiting": {"reason": "PodInitializing"}}
"""The state of a container that waits for init containers."""


def container_status(
    container: Object, former: Object, state: Object, *, ready: bool = False, started: bool = False
) -> Object:
    """Return a container's status with a new state; `lastState` and `restartCount` keep their values."""
    return {
        "name": container["name"],
        "state": state,
        "lastState": former.get("lastState", {}),
        "ready": ready,
        "restartCount": former.get("restartCount", 0),
        "image": container.get("image", ""),
        "imageID": "",
        "started": started,
    }


def terminated(exit_code: int, started: str, finished: str, *, reason: str = "", message: str = "") -> Object:
    """Build the state of a container that has ended."""
    state = {
        "exitCode": exit_code,
        "reason": reason or ("Error" if exit_code else "Completed"),
        "startedAt": started,
        "finishedAt": finished,
    }
    return {"terminated": {**state, "message": message} if message else state}


def has_completed(container: Object) -> bool:
    """Return whether a container's status says that it ended with exit code 0."""
    ended: Object | None = (container.get("state") or {}).get("terminated")
    return ended is not None and ended["exitCode"] == 0


def initializing(pod: Object, init: Sequence[Object], now: str) -> Object:
    """Return the status of a pod whose init containers have not all completed."""
    status = {**(pod.get("status") or {}), "initContainerStatuses": list(init), "phase": "Pending"}
    status.setdefault("startTime", now)
    status["conditions"] = status.get("conditions") or []
    containers = pod["spec"]["containers"]
    known = status.get("containerStatuses")
    status["containerStatuses"] = known or [container_status(each, {}, INITIALIZING) for each in containers]
    ends = [each["state"].get("terminated") for each in init]
    if pod["spec"].get("restartPolicy") == "Never" and any(each and each["exitCode"] for each in ends):
        status["phase"] = "Failed"
        _set_ready(status, "False", now, ENDED["Failed"])
    waiting = [each["name"] for each in init if not each["ready"]]
    text = f"containers with incomplete status: [{' '.join(waiting)}]"
    _set(status, "Initialized", "False", now, "ContainersNotInitialized", text)
    if status["phase"] == "Pending":
        _set_unready(status, [each["name"] for each in containers], now)
    return status


def of_containers(pod: Object, containers: Sequence[Object], init: Sequence[Object], now: str) -> Object:
    """Return the status of a pod, from the statuses of its containers and init containers."""
    status = {**(pod.get("status") or {}), "containerStatuses": list(containers)}
    if init:
        status["initContainerStatuses"] = list(init)
    status["phase"] = phase = _phase(containers, pod["spec"].get("restartPolicy", "Always"))
    status.setdefault("startTime", now)
    status["conditions"] = before = status.get("conditions") or []
    _set(status, "Initialized", "True", now)
    unready = [each["name"] for each in containers if not each["ready"]]
    if phase in ENDED:
        _set_ready(status, "False", now, ENDED[phase])
    elif unready:
        _set_unready(status, unready, now)
    else:
        _set_ready(status, "True", now)
        _check_gates(pod, status, now)
    scheduled = conditions.find(before, "PodScheduled")
    if scheduled is None:
        _set(status, "PodScheduled", "True", now)
    else:
        status["conditions"] = conditions.replaced(status["conditions"], scheduled)
    return status


def failed(pod: Object, reason: str, message: str, now: str, *, disrupted: bool) -> Object:
    """Return the status of a pod that the kubelet ended; `disrupted` adds the condition DisruptionTarget."""
    former = pod.get("status") or {}
    known = {each["name"]: each for each in former.get("containerStatuses") or ()}
    status = {
        **former,
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "conditions": former.get("conditions") or [],
        "containerStatuses": [
            _killed(each, known.get(each["name"], {}), now) for each in pod["spec"]["containers"]
        ],
    }
    status.setdefault("startTime", now)
    _set_ready(status, "False", now, ENDED["Failed"])
    if disrupted:
        _set(status, "DisruptionTarget", "True", now, "TerminationByKubelet", message)
    return status


ENDED = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
"""The phases of ended pods, with the reason for not being ready."""


def _phase(containers: Sequence[Object], policy: str) -> str:
    """Return the phase of a pod, as the kubelet computes it."""
    if any("waiting" in each["state"] and not each["lastState"] for each in containers):
        return "Pending"
    if policy == "Always" or any("running" in each["state"] for each in containers):
        return "Running"
    ends = [each["state"].get("terminated") or each["lastState"]["terminated"] for each in containers]
    if not any(each["exitCode"] for each in ends):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def _killed(container: Object, former: Object, now: str) -> Object:
    state = former.get("state") or {}
    ended = state if "terminated" in state else former.get("lastState")
    if "running" in state:
        ended = terminated(KILLED, state["running"]["startedAt"], now)
    elif not ended:
        message = "The container could not be located when the pod was terminated"
        ended = terminated(KILLED, now, now, reason="ContainerStatusUnknown", message=message)
        ended["terminated"] |= {"startedAt": None, "finishedAt": None}
    return container_status(container, former, ended)


def _set_unready(status: Object, containers: Sequence[str], now: str) -> None:
    text = f"containers with unready status: [{' '.join(containers)}]"
    _set_ready(status, "False", now, "ContainersNotReady", text)


def _set_ready(status: Object, value: str, now: str, reason: str = "", message: str = "") -> None:
    for kind in ("ContainersReady", "Ready"):
        _set(status, kind, value, now, reason, message)


def _check_gates(pod: Object, status: Object, now: str) -> None:
    """Set Ready to False in `status` if one of the pod's readiness gates is not true."""
    for gate in pod["spec"].get("readinessGates") or ():
        kind = gate["conditionType"]
        condition = conditions.find(status["conditions"], kind)
        if condition is None or condition["status"] != "True":
            text = f'corresponding condition of pod readiness gate "{kind}" does not exist.'
            if condition is not None:
                text = f'the status of pod readiness gate "{kind}" is not "True", but {condition["status"]}'
            _set(status, "Ready", "False", now, "ReadinessGatesNotReady", text)
            return


def _set(status: Object, kind: str, value: str, now: str, reason: str = "", message: str = "") -> None:
    former = conditions.find(status["conditions"], kind)
    since = former["lastTransitionTime"] if former is not None and former["status"] == value else now
    condition = {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": since}
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    status["conditions"] = conditions.replaced(status["conditions"], condition)
