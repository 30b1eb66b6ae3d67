"""What an object says of itself: whether it is as it should be, and if not, why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

Object = Mapping[str, Any]

_NEGATIVE = {"Degraded", "Failed", "ReplicaFailure", "Stalled"}
"""Types of conditions of which True is bad."""

_NEUTRAL = {"Progressing", "Reconciling"}
"""Types of conditions of which neither is bad."""

# Ahead of others: with these, waiting is of no use.
_FIRST = ("Degraded", "Failed", "ReplicaFailure", "Stalled")


class Verdict(NamedTuple):
    """Whether an object is as it should be; None where it does not say."""

    ready: bool | None
    reason: str = ""
    message: str = ""


FINE, SILENT = Verdict(True), Verdict(None)


def judge(obj: Object) -> Verdict:
    """Whether it is as it should be, by its own kind's rules if they are known here."""
    deleting = _deleting(obj)
    if deleting is not None:
        return deleting
    return _BY_KIND.get(_kind(obj), _by_conditions)(obj)


def conditions_of(obj: Object) -> list[Mapping[str, Any]]:
    """Its conditions; none where there is something else in their place."""
    found = _status(obj).get("conditions")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def bad_conditions(obj: Object) -> Iterator[Mapping[str, Any]]:
    """Those conditions that say that something is wrong, the worst first."""
    bad = []
    for each in conditions_of(obj):
        kind, status = each.get("type"), each.get("status")
        if kind not in _NEUTRAL and (status == "True" if kind in _NEGATIVE else status != "True"):
            bad.append(each)
    yield from sorted(bad, key=lambda each: each.get("type") not in _FIRST)


def is_behind(obj: Object) -> bool:
    """Whether its status is of an earlier spec."""
    generation = obj.get("metadata", {}).get("generation")
    observed = [_status(obj).get("observedGeneration")]
    observed += [each.get("observedGeneration") for each in conditions_of(obj)]
    known = [each for each in observed if isinstance(each, int)]
    return isinstance(generation, int) and bool(known) and max(known) < generation


def _kind(obj: Object) -> str:
    return str(obj.get("kind", ""))


def _status(obj: Object) -> Mapping[str, Any]:
    status = obj.get("status")
    return status if isinstance(status, dict) else {}


def _deleting(obj: Object) -> Verdict | None:
    metadata = obj.get("metadata", {})
    if not metadata.get("deletionTimestamp"):
        return None
    finalizers = ", ".join(metadata.get("finalizers") or ())
    said = next((f": {each.get('message')}" for each in bad_conditions(obj) if each.get("message")), "")
    waits = f"; it waits for the finalizer {finalizers}{said}" if finalizers else ""
    return Verdict(False, "Terminating", f"is being deleted since {metadata['deletionTimestamp']}{waits}")


def _by_conditions(obj: Object) -> Verdict:
    for each in bad_conditions(obj):
        return Verdict(False, str(each.get("reason", "")), str(each.get("message", "")))
    if is_behind(obj):
        return Verdict(False, "NotObserved", "its status is of an earlier spec")
    return FINE if conditions_of(obj) else SILENT


def _pod(pod: Object) -> Verdict:
    status = _status(pod)
    phase = status.get("phase")
    if phase == "Succeeded":
        return FINE
    for statuses in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(statuses) or ():
            state = container.get("state") or {}
            waiting, terminated = state.get("waiting"), state.get("terminated")
            if waiting and waiting.get("reason") not in (None, "PodInitializing", "ContainerCreating"):
                return Verdict(False, waiting["reason"], waiting.get("message", ""))
            if terminated and terminated.get("exitCode"):
                code = f"{container.get('name')} ended with exit code {terminated['exitCode']}"
                message = terminated.get("message")
                return Verdict(
                    False, terminated.get("reason", "Error"), f"{code}: {message}" if message else code
                )
    for each in conditions_of(pod):
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return Verdict(False, str(each.get("reason", "Unschedulable")), str(each.get("message", "")))
    if phase == "Failed":
        return Verdict(False, str(status.get("reason", "Failed")), str(status.get("message", "")))
    for each in conditions_of(pod):
        if each.get("type") == "Ready":
            if each.get("status") == "True":
                return FINE
            return Verdict(False, str(each.get("reason", "NotReady")), str(each.get("message", "")))
    return Verdict(False, str(phase or "Pending"), "it has not started yet")


def _claim(claim: Object) -> Verdict:
    phase = str(_status(claim).get("phase", "Pending"))
    return FINE if phase == "Bound" else Verdict(False, phase, "no volume is bound to it")


def _replicas(obj: Object) -> Verdict:
    """Of a Deployment, ReplicaSet or StatefulSet."""
    for each in conditions_of(obj):
        kind, status = each.get("type"), each.get("status")
        if (kind, status) in (("ReplicaFailure", "True"), ("Progressing", "False")):
            return Verdict(False, str(each.get("reason", "")), str(each.get("message", "")))
    wanted = obj.get("spec", {}).get("replicas", 1)
    ready = _status(obj).get("readyReplicas", 0)
    if ready < wanted:
        return Verdict(False, "NotEnoughReady", f"{ready} of {wanted} pods are ready")
    return FINE


def _daemon_set(obj: Object) -> Verdict:
    status = _status(obj)
    wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
    return (
        FINE if ready >= wanted else Verdict(False, "NotEnoughReady", f"{ready} of {wanted} pods are ready")
    )


def _job(job: Object) -> Verdict:
    for each in conditions_of(job):
        if each.get("type") == "Failed" and each.get("status") == "True":
            return Verdict(False, str(each.get("reason", "Failed")), str(each.get("message", "")))
    return FINE


_BY_KIND: dict[str, Callable[[Object], Verdict]] = {
    "Pod": _pod,
    "PersistentVolumeClaim": _claim,
    "Deployment": _replicas,
    "ReplicaSet": _replicas,
    "StatefulSet": _replicas,
    "DaemonSet": _daemon_set,
    "Job": _job,
}
"""By its name alone: other groups have no kinds of these names that are worth telling apart."""
