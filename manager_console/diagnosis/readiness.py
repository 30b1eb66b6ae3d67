"""Readiness of an object, by its own status, and the reason if it is not ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from manager.api.resource import fields, number, objects, text
from manager.util import clock
from manager_kinds.pod_health import PodHealth

Object = Mapping[str, Any]

_NEGATIVE = {"Degraded", "Failed", "ReplicaFailure", "Stalled"}
"""Condition types for which True is bad, and for which waiting does not help."""

_NEUTRAL = {"Progressing", "Reconciling"}
"""Condition types for which neither status is bad."""

_UNKNOWN = -1

SAID = ("type", "status", "reason", "message", "lastTransitionTime")
"""The text fields of a condition."""


class Verdict(NamedTuple):
    """The readiness of an object; `ready` is None if the status does not show it."""

    ready: bool | None
    reason: str = ""
    message: str = ""


FINE, SILENT = Verdict(True), Verdict(None)


def judge(obj: Object) -> Verdict:
    """Return the readiness of an object by the rules of its kind, or else by its conditions."""
    return _deleting(obj) or _BY_KIND.get(text(obj.get("kind")), _by_conditions)(obj)


def conditions_of(obj: Object) -> list[Mapping[str, Any]]:
    """Return an object's conditions, each with its text fields and `observedGeneration`."""
    return [
        {
            **{name: text(each[name]) for name in SAID if name in each},
            "observedGeneration": number(each.get("observedGeneration"), _UNKNOWN),
        }
        for each in objects(fields(obj, "status").get("conditions"))
    ]


def bad_conditions(obj: Object) -> list[Mapping[str, Any]]:
    """Return the conditions that report a problem, the most severe first."""
    bad = (
        each
        for each in conditions_of(obj)
        if each.get("type") not in _NEUTRAL
        and (each.get("status") == "True") is (each.get("type") in _NEGATIVE)
    )
    return sorted(bad, key=lambda each: each.get("type") not in _NEGATIVE)


def is_behind(obj: Object) -> bool:
    """Return whether an object's status describes an earlier spec."""
    generation = number(fields(obj, "metadata").get("generation"), _UNKNOWN)
    observed = number(fields(obj, "status").get("observedGeneration"), _UNKNOWN)
    known: int = max(observed, *(each["observedGeneration"] for each in conditions_of(obj)), _UNKNOWN)
    return _UNKNOWN < known < generation


def wanted_replicas(obj: Object) -> int:
    """Return the desired number of pods of a Deployment, ReplicaSet or StatefulSet (`spec.replicas`)."""
    return number(fields(obj, "spec").get("replicas"), 1)


def _deleting(obj: Object) -> Verdict | None:
    metadata = fields(obj, "metadata")
    since, listed = text(metadata.get("deletionTimestamp")), metadata.get("finalizers")
    if not since:
        return None
    finalizers = ", ".join(filter(None, map(text, listed))) if isinstance(listed, list) else ""
    said = next((f": {each['message']}" for each in bad_conditions(obj) if each.get("message")), "")
    waits = f"; it waits for the finalizer {finalizers}{said}" if finalizers else ""
    return Verdict(False, "Terminating", f"is being deleted since {since}{waits}")


def _by_conditions(obj: Object) -> Verdict:
    if bad := bad_conditions(obj):
        return Verdict(False, bad[0].get("reason", ""), bad[0].get("message", ""))
    if is_behind(obj):
        return Verdict(False, "NotObserved", "its status is of an earlier spec")
    return FINE if conditions_of(obj) else SILENT


def _reported(obj: Object, otherwise: str, *states: tuple[str, str]) -> Verdict | None:
    """Return a verdict for the first condition in `states`, or None; `otherwise` is the default reason."""
    for each in conditions_of(obj):
        if (each.get("type"), each.get("status")) in states:
            return Verdict(False, each.get("reason", otherwise), each.get("message", ""))
    return None


def _pod(pod: Object) -> Verdict:
    phase = text(fields(pod, "status").get("phase"))
    health = PodHealth.of(pod, clock.now(), grace=timedelta(0))
    if phase == "Succeeded" or health.is_ready:
        return FINE
    if health.problem is not None:
        return Verdict(False, *health.problem)
    said = _reported(pod, "NotReady", ("Ready", "False"), ("Ready", "Unknown"))
    return said or Verdict(False, phase or "Pending", "it has not started yet")


def _claim(claim: Object) -> Verdict:
    phase = text(fields(claim, "status").get("phase")) or "Pending"
    return FINE if phase == "Bound" else Verdict(False, phase, "no volume is bound to it")


def _replicas(obj: Object) -> Verdict:
    said = _reported(obj, "", ("ReplicaFailure", "True"), ("Progressing", "False"))
    return said or _enough(fields(obj, "status").get("readyReplicas"), wanted_replicas(obj))


def _deployment(obj: Object) -> Verdict:
    verdict, wanted = _replicas(obj), wanted_replicas(obj)
    updated = number(fields(obj, "status").get("updatedReplicas"))
    if verdict.ready and updated < wanted:
        return Verdict(False, "RollingOut", f"{updated} of {wanted} pods are up to date")
    return verdict


def _daemon_set(obj: Object) -> Verdict:
    status = fields(obj, "status")
    return _enough(status.get("numberReady"), number(status.get("desiredNumberScheduled")))


def _enough(found: Any, wanted: int) -> Verdict:
    ready = number(found)
    return (
        FINE if ready >= wanted else Verdict(False, "NotEnoughReady", f"{ready} of {wanted} pods are ready")
    )


_BY_KIND: dict[str, Callable[[Object], Verdict]] = {
    "Pod": _pod,
    "PersistentVolumeClaim": _claim,
    "Deployment": _deployment,
    "ReplicaSet": _replicas,
    "StatefulSet": _replicas,
    "DaemonSet": _daemon_set,
    "Job": lambda job: _reported(job, "Failed", ("Failed", "True")) or FINE,
}
"""By kind only: other groups hardly have kinds with these names."""
