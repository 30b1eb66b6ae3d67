"""Rollouts of deployments: sizes and revisions of their replica sets, and the status that these give."""

from __future__ import annotations

import copy
import datetime
import math
from collections.abc import Sequence

from devcluster.controllers.client import Object, owner_reference
from devcluster.controllers.pod_owners import template_hash
from devcluster.controllers.pod_status import parse_time
from devcluster.kinds import conditions

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


def replicas(deployment: Object) -> int:
    """Return the desired number of pods."""
    value: int = deployment["spec"].get("replicas", 1)
    return value


def pod_count(*replica_sets: Object | None) -> int:
    """Return the desired number of pods of all these ReplicaSets."""
    return sum(each["spec"].get("replicas", 1) for each in replica_sets if each is not None)


def status_sum(field: str, *replica_sets: Object | None) -> int:
    """Return the sum of a count in the status of all ReplicaSets."""
    return sum((each.get("status") or {}).get(field, 0) for each in replica_sets if each is not None)


def available_count(*replica_sets: Object | None) -> int:
    """Return the number of available pods."""
    return status_sum("availableReplicas", *replica_sets)


def active(replica_sets: Sequence[Object | None]) -> list[Object]:
    """Return the ReplicaSets with a desired size above 0."""
    return [each for each in replica_sets if each is not None and pod_count(each) > 0]


def is_rolling(deployment: Object) -> bool:
    """Return whether the Deployment uses rolling updates."""
    strategy = deployment["spec"].get("strategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def scaled(value: int | str, total: int, *, up: bool) -> int:
    """Resolve a number or a percentage of `total`, rounded up or down."""
    if isinstance(value, int):
        return value
    part = int(value.removesuffix("%")) * total / 100
    return math.ceil(part) if up else math.floor(part)


def max_surge(deployment: Object) -> int:
    """Return the maximum of pods above the desired number."""
    return _fence(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Object) -> int:
    """Return the maximum of missing pods."""
    wanted = replicas(deployment)
    if not is_rolling(deployment) or not wanted:
        return 0
    return min(_fence(deployment)[1], wanted)


def new_size(deployment: Object, replica_sets: Sequence[Object | None], current: int) -> int:
    """Return the size that the newest ReplicaSet, now `current`, may grow to; it is among `replica_sets`."""
    wanted = replicas(deployment)
    if not is_rolling(deployment):
        return wanted
    limit = wanted + max_surge(deployment)
    total = pod_count(*replica_sets)
    if total >= limit:
        return current
    return current + min(limit - total, wanted - current)


def proportions(deployment: Object, replica_sets: Sequence[Object]) -> list[tuple[Object, int]]:
    """Return the new sizes when a Deployment is scaled during a rollout.

    Each ReplicaSet gets its share of the change, the first one the remainder too.
    """
    wanted = replicas(deployment)
    allowed = wanted + max_surge(deployment) if wanted else 0
    change = allowed - pod_count(*replica_sets)
    if not change:
        return [(each, pod_count(each)) for each in replica_sets]
    ordered = sorted(replica_sets, key=_created, reverse=change > 0)
    ordered.sort(key=pod_count, reverse=True)
    sizes, added = [], 0
    for each in ordered:
        share = 0
        if added != change:
            part = _share(deployment, each, allowed)
            share = min(part, change - added) if change > 0 else max(part, change - added)
        sizes.append(pod_count(each) + share)
        added += share
    sizes[0] = max(sizes[0] + change - added, 0)
    return list(zip(ordered, sizes, strict=True))


def _share(deployment: Object, replica_set: Object, allowed: int) -> int:
    current = pod_count(replica_set)
    if not replicas(deployment):
        return -current
    annotation = (replica_set["metadata"].get("annotations") or {}).get(MAXIMUM, "")
    before = int(annotation) if annotation.isdigit() else 0
    before = before or (deployment.get("status") or {}).get("replicas", 0)
    if not before:
        return 0
    # Like Go, this rounds halves away from zero.
    return math.floor(current * allowed / before + 0.5) - current


def _created(replica_set: Object) -> tuple[str, str]:
    metadata = replica_set["metadata"]
    return metadata.get("creationTimestamp", ""), metadata["name"]


def _fence(deployment: Object) -> tuple[int, int]:
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    wanted = replicas(deployment)
    surge = scaled(rolling.get("maxSurge", 0), wanted, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", 0), wanted, up=False)
    # With both at zero the rollout could not proceed.
    return (surge, unavailable) if surge or unavailable else (0, 1)


NO_DEADLINE = 2147483647
"""The progressDeadlineSeconds that means no deadline."""


def has_deadline(deployment: Object) -> bool:
    """Return whether the Deployment has a progress deadline."""
    return deployment["spec"].get("progressDeadlineSeconds") not in {None, NO_DEADLINE}


def progressing(status: str, reason: str, message: str, now: str) -> Object:
    """Build a Progressing condition."""
    return _condition("Progressing", status, reason, message, now)


def counted(
    deployment: Object, new: Object | None, replica_sets: Sequence[Object | None], now: str
) -> Object:
    """Return the Deployment's status: its ReplicaSets' counts, Available, and the former conditions."""
    former = deployment.get("status") or {}
    available = available_count(*replica_sets)
    counts = {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        "replicas": status_sum("replicas", *replica_sets),
        "updatedReplicas": status_sum("replicas", new),
        "readyReplicas": status_sum("readyReplicas", *replica_sets),
        "availableReplicas": available,
        "unavailableReplicas": max(pod_count(*replica_sets) - available, 0),
    }
    status: Object = {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = status_sum("terminatingReplicas", *replica_sets)
    if available >= replicas(deployment) - max_unavailable(deployment):
        condition = _condition(
            "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now
        )
    else:
        condition = _condition(
            "Available",
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
            now,
        )
    status["conditions"] = conditions.set_condition(former.get("conditions") or (), condition)
    if "collisionCount" in former:
        status["collisionCount"] = former["collisionCount"]
    return status


def progress(
    deployment: Object, new: Object | None, status: Object, now: datetime.datetime, text: str
) -> None:
    """Set the Progressing condition in `status`, as `counted` made it; `text` is `now` as it is written."""
    if not has_deadline(deployment):
        status["conditions"] = conditions.without(status["conditions"], "Progressing")
        return
    former = deployment.get("status") or {}
    condition = conditions.find(former.get("conditions") or (), "Progressing")
    settled = condition is not None and condition["reason"] == "NewReplicaSetAvailable"
    if settled and status.get("replicas", 0) == status.get("updatedReplicas", 0):
        return
    subject = (
        f'ReplicaSet "{new["metadata"]["name"]}"' if new else f'Deployment "{deployment["metadata"]["name"]}"'
    )
    if is_complete(deployment, status):
        status["conditions"] = conditions.set_condition(
            status["conditions"],
            progressing("True", "NewReplicaSetAvailable", f"{subject} has successfully progressed.", text),
        )
    elif _moved(former, status):
        moved = progressing("True", "ReplicaSetUpdated", f"{subject} is progressing.", text)
        if condition is not None and condition["status"] == "True":
            moved["lastTransitionTime"] = condition["lastTransitionTime"]
        # The condition is replaced even if it has the same reason, because the deadline counts from its time.
        status["conditions"] = conditions.replaced(status["conditions"], moved)
    elif _timed_out(deployment, status, now):
        status["conditions"] = conditions.set_condition(
            status["conditions"],
            progressing("False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing.", text),
        )


def with_failures(status: Object, new: Object | None, replica_sets: Sequence[Object | None]) -> None:
    """Show why pods cannot be made, of the newest ReplicaSet first."""
    for each in (new, *replica_sets):
        known = ((each or {}).get("status") or {}).get("conditions") or ()
        failure = conditions.find(known, "ReplicaFailure")
        if failure is not None:
            shown = _condition(
                "ReplicaFailure",
                failure["status"],
                failure.get("reason", ""),
                failure.get("message", ""),
                failure["lastTransitionTime"],
            )
            status["conditions"] = conditions.set_condition(status["conditions"], shown)
            return
    status["conditions"] = conditions.without(status["conditions"], "ReplicaFailure")


def is_complete(deployment: Object, status: Object) -> bool:
    """Return whether all pods have the newest revision and are available."""
    wanted = replicas(deployment)
    return all(
        status.get(field, 0) == wanted for field in ("updatedReplicas", "replicas", "availableReplicas")
    ) and status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 1)


def seconds_until_deadline(deployment: Object, now: datetime.datetime) -> float | None:
    """Return the seconds until the deadline of a rollout without progress; None without a deadline."""
    status = deployment.get("status") or {}
    condition = conditions.find(status.get("conditions") or (), "Progressing")
    if not has_deadline(deployment) or condition is None:
        return None
    if is_complete(deployment, status) or condition["reason"] == "ProgressDeadlineExceeded":
        return None
    since = parse_time(condition["lastUpdateTime"])
    return float(deployment["spec"]["progressDeadlineSeconds"]) - (now - since).total_seconds()


def _moved(old: Object, new: Object) -> bool:
    def count(status: Object, field: str) -> int:
        value: int = status.get(field, 0)
        return value

    def outdated(status: Object) -> int:
        return count(status, "replicas") - count(status, "updatedReplicas")

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return outdated(new) < outdated(old) or any(count(new, field) > count(old, field) for field in grown)


def _timed_out(deployment: Object, status: Object, now: datetime.datetime) -> bool:
    condition = conditions.find(status["conditions"], "Progressing")
    if condition is None or condition["reason"] == "NewReplicaSetAvailable":
        return False
    if condition["reason"] == "ProgressDeadlineExceeded":
        return True
    waited = now - parse_time(condition["lastUpdateTime"])
    return bool(waited.total_seconds() > deployment["spec"]["progressDeadlineSeconds"])


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
HASH_LABEL = "pod-template-hash"
NAME_LIMIT = 253
HISTORY_LIMIT = 2000

NOT_COPIED = {
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
}


def by_creation(replica_sets: Sequence[Object]) -> list[Object]:
    """Sort ReplicaSets, the oldest first."""
    return sorted(
        replica_sets, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"])
    )


def revision_of(replica_set: Object) -> int:
    """Return the ReplicaSet's revision, or 0."""
    text = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isdigit() else 0


def current(deployment: Object, replica_sets: Sequence[Object]) -> Object | None:
    """Return the ReplicaSet of the Deployment's template, or None."""
    wanted = _plain(deployment["spec"]["template"])
    for each in by_creation(replica_sets):
        if _plain(each["spec"]["template"]) == wanted:
            return each
    return None


def new_replica_set(deployment: Object, old: Sequence[Object], revision: int) -> Object:
    """Build the ReplicaSet for the Deployment's template."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    digest = template_hash(spec["template"], (deployment.get("status") or {}).get("collisionCount"))
    template = copy.deepcopy(spec["template"])
    labels = {**(template.get("metadata") or {}).get("labels", {}), HASH_LABEL: digest}
    template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
    selector = copy.deepcopy(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}
    replica_set: Object = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name'][: NAME_LIMIT - len(digest) - 1]}-{digest}",
            "namespace": metadata["namespace"],
            "labels": dict(labels),
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }
    if spec.get("minReadySeconds"):
        replica_set["spec"]["minReadySeconds"] = spec["minReadySeconds"]
    replica_set["spec"]["replicas"] = new_size(deployment, [*old, replica_set], 0)
    annotate(replica_set, deployment, revision, sized=True)
    return replica_set


def annotate(replica_set: Object, deployment: Object, revision: int, *, sized: bool) -> bool:
    """Give a ReplicaSet the Deployment's annotations and its revision, with `sized` the counts too.

    Returns whether anything changed.
    """
    old = replica_set["metadata"].get("annotations") or {}
    new = dict(old)
    given = deployment["metadata"].get("annotations") or {}
    new.update({name: value for name, value in given.items() if name not in NOT_COPIED})
    if old.get(REVISION, "0").isdigit() and int(old.get(REVISION, "0")) < revision:
        new[REVISION] = str(revision)
        if REVISION in old:
            _remember(new, old[REVISION])
    if sized:
        wanted = replicas(deployment)
        new[DESIRED] = str(wanted)
        new[MAXIMUM] = str(wanted + max_surge(deployment))
    if new == old:
        return False
    replica_set["metadata"]["annotations"] = new
    return True


def _remember(annotations: dict[str, str], revision: str) -> None:
    history = [*filter(None, annotations.get(HISTORY, "").split(",")), revision]
    while len(",".join(history)) > HISTORY_LIMIT:
        history.pop(0)
    annotations[HISTORY] = ",".join(history)


def _plain(template: Object) -> Object:
    metadata = template.get("metadata") or {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH_LABEL}
    kept = {name: value for name, value in metadata.items() if name not in {"labels", "creationTimestamp"}}
    return {**template, "metadata": {**kept, "labels": labels}}
