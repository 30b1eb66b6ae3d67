"""What the status of a pod says at each step of its life."""

from __future__ import annotations

from collections.abc import Callable

from devcluster.controllers import conditions
from devcluster.controllers.behaviour import NO_IMAGE, Behaviour
from devcluster.controllers.client import Object

__all__ = ["Step", "crashed", "ended", "pulling_failed", "running"]

Step = Callable[[Object, Object], Object]
"""(container of the spec, its former status) -> its status."""


def running(pod: Object, behaviour: Behaviour, now: str) -> Object:
    """Its containers run; ready unless `behaviour` says that it never will be."""
    started_at = now

    def step(container: Object, former: Object) -> Object:
        since = former.get("state", {}).get("running", {}).get("startedAt", started_at)
        ready = not _fails(behaviour, container)
        return _container(container, former, {"running": {"startedAt": since}}, ready=ready, started=True)

    return _status(pod, "Running", step, now)


def ended(pod: Object, now: str, *, exit_code: int, policy_failed: bool) -> Object:
    """Its containers have ended, and so has the pod."""

    def step(container: Object, former: Object) -> Object:
        since = former.get("state", {}).get("running", {}).get("startedAt", now)
        return _container(container, former, _terminated(exit_code, since, now), ready=False, started=False)

    status = _status(pod, "Failed" if policy_failed else "Succeeded", step, now)
    reason = "PodFailed" if policy_failed else "PodCompleted"
    for kind in ("ContainersReady", "Ready"):
        _set(status, kind, "False", now, reason)
    return status


def crashed(pod: Object, behaviour: Behaviour, now: str, *, delay: int) -> Object:
    """A container has ended with an error, again, and waits for `delay` seconds before the next attempt."""

    def step(container: Object, former: Object) -> Object:
        if not _fails(behaviour, container):
            since = former.get("state", {}).get("running", {}).get("startedAt", now)
            return _container(container, former, {"running": {"startedAt": since}}, ready=True, started=True)
        label = f"{container['name']} pod={pod['metadata']['name']}_{pod['metadata']['namespace']}"
        waiting = {
            "reason": "CrashLoopBackOff",
            "message": f"back-off {delay}s restarting failed container={label}({pod['metadata']['uid']})",
        }
        status = _container(container, former, {"waiting": waiting}, ready=False, started=False)
        status["lastState"] = _terminated(1, now, now)
        status["restartCount"] = former.get("restartCount", 0) + 1
        return status

    return _status(pod, "Running", step, now)


def pulling_failed(pod: Object, behaviour: Behaviour, now: str) -> Object:
    """An image cannot be had."""

    def step(container: Object, former: Object) -> Object:
        if behaviour.failure == NO_IMAGE and not _fails(behaviour, container):
            return _container(container, former, {"running": {"startedAt": now}}, ready=True, started=True)
        message = f'Back-off pulling image "{container.get("image", "")}"'
        waiting = {"reason": "ImagePullBackOff", "message": message}
        return _container(container, former, {"waiting": waiting}, ready=False, started=False)

    return _status(pod, "Pending", step, now)


def _fails(behaviour: Behaviour, container: Object) -> bool:
    return bool(behaviour.failure) and behaviour.container in {"", container["name"]}


def _status(pod: Object, phase: str, step: Step, now: str) -> Object:
    former = pod.get("status") or {}
    known = {each["name"]: each for each in former.get("containerStatuses") or ()}
    containers = [step(each, known.get(each["name"], {})) for each in pod["spec"]["containers"]]
    status = {**former, "phase": phase, "containerStatuses": containers}
    status.setdefault("startTime", now)
    scheduled = conditions.find(former.get("conditions") or (), "PodScheduled")
    status["conditions"] = former.get("conditions") or []
    _set(status, "Initialized", "True", now)
    unready = [each["name"] for each in containers if not each["ready"]]
    message = f"containers with unready status: [{' '.join(unready)}]"
    for kind in ("ContainersReady", "Ready"):
        if unready:
            _set(status, kind, "False", now, "ContainersNotReady", message)
        else:
            _set(status, kind, "True", now)
    if not unready:
        _check_gates(pod, status, now)
    if scheduled is None:
        _set(status, "PodScheduled", "True", now)
    else:
        status["conditions"] = conditions.replaced(status["conditions"], scheduled)
    if pod["spec"].get("initContainers") and "initContainerStatuses" not in status:
        status["initContainerStatuses"] = [
            _container(each, {}, _terminated(0, now, now), ready=True, started=False)
            for each in pod["spec"]["initContainers"]
        ]
    return status


def _check_gates(pod: Object, status: Object, now: str) -> None:
    """What else the pod says must be true before it is ready."""
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


def _container(container: Object, former: Object, state: Object, *, ready: bool, started: bool) -> Object:
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


def _terminated(exit_code: int, started: str, finished: str) -> Object:
    reason = "Error" if exit_code else "Completed"
    return {
        "terminated": {
            "exitCode": exit_code,
            "reason": reason,
            "startedAt": started,
            "finishedAt": finished,
        }
    }
