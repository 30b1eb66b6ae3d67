"""Controller of Deployments, which keeps a ReplicaSet per revision and rolls out new revisions."""

from __future__ import annotations

import copy
import datetime
import math
from collections.abc import Sequence

from devcluster.controllers.client import (
    PODS,
    REPLICA_SETS,
    Object,
    age_of,
    is_going,
    metadata_of,
    owner_reference,
)
from devcluster.controllers.controller import Name, Routes
from devcluster.controllers.pod_owners import PodController, scaled, template_hash
from devcluster.controllers.pod_status import has_ended, parse_time
from devcluster.errors import StatusError
from devcluster.kinds import conditions
from devcluster.quantity import parse_integer
from devcluster.storage import Change

DEPLOYMENTS = ("apps", "deployments")
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


def _replicas(deployment: Object) -> int:
    value: int = deployment["spec"].get("replicas", 1)
    return value


def _pod_count(*replica_sets: Object | None) -> int:
    """Return the sum of `spec.replicas` of the ReplicaSets; None counts as 0."""
    return sum(each["spec"].get("replicas", 1) for each in replica_sets if each is not None)


def _status_sum(field: str, *replica_sets: Object | None) -> int:
    """Return the sum of the status field `field` of the ReplicaSets; None counts as 0."""
    return sum((each.get("status") or {}).get(field, 0) for each in replica_sets if each is not None)


def _available_count(*replica_sets: Object | None) -> int:
    return _status_sum("availableReplicas", *replica_sets)


def _active(replica_sets: Sequence[Object | None]) -> list[Object]:
    """Return the ReplicaSets whose `spec.replicas` is above 0."""
    return [each for each in replica_sets if each is not None and _pod_count(each) > 0]


def _is_rolling(deployment: Object) -> bool:
    strategy = deployment["spec"].get("strategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def _max_surge(deployment: Object) -> int:
    return _fence(deployment)[0] if _is_rolling(deployment) else 0


def _max_unavailable(deployment: Object) -> int:
    wanted = _replicas(deployment)
    if not _is_rolling(deployment) or not wanted:
        return 0
    return min(_fence(deployment)[1], wanted)


def _new_size(deployment: Object, replica_sets: Sequence[Object | None], current: int) -> int:
    """Return the size to which the newest ReplicaSet, now of size `current`, may grow within maxSurge."""
    wanted = _replicas(deployment)
    if not _is_rolling(deployment):
        return wanted
    limit = wanted + _max_surge(deployment)
    total = _pod_count(*replica_sets)
    if total >= limit:
        return current
    return current + min(limit - total, wanted - current)


def _proportions(deployment: Object, replica_sets: Sequence[Object]) -> list[tuple[Object, int]]:
    """Return each ReplicaSet with its new size after the Deployment is scaled during a rollout.

    The change is distributed in proportion to the sizes; the largest ReplicaSet also gets the remainder.
    """
    wanted = _replicas(deployment)
    allowed = wanted + _max_surge(deployment) if wanted else 0
    change = allowed - _pod_count(*replica_sets)
    if not change:
        return [(each, _pod_count(each)) for each in replica_sets]
    ordered = sorted(replica_sets, key=age_of, reverse=change > 0)
    ordered.sort(key=_pod_count, reverse=True)
    sizes, added = [], 0
    for each in ordered:
        share = 0
        if added != change:
            part = _share(deployment, each, allowed)
            share = min(part, change - added) if change > 0 else max(part, change - added)
        sizes.append(_pod_count(each) + share)
        added += share
    sizes[0] = max(sizes[0] + change - added, 0)
    return list(zip(ordered, sizes, strict=True))


def _share(deployment: Object, replica_set: Object, allowed: int) -> int:
    current = _pod_count(replica_set)
    if not _replicas(deployment):
        return -current
    annotation = (replica_set["metadata"].get("annotations") or {}).get(MAXIMUM, "")
    before = max(parse_integer(annotation) or 0, 0) or (deployment.get("status") or {}).get("replicas", 0)
    if not before:
        return 0
    # Like Go, this rounds halves away from zero.
    return math.floor(current * allowed / before + 0.5) - current


def _fence(deployment: Object) -> tuple[int, int]:
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    wanted = _replicas(deployment)
    surge = scaled(rolling.get("maxSurge", 0), wanted, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", 0), wanted, up=False)
    # With zero for both, the rollout could not proceed.
    return (surge, unavailable) if surge or unavailable else (0, 1)


UNLIMITED = 2147483647
"""The value of progressDeadlineSeconds or revisionHistoryLimit that means no limit."""


def _has_deadline(deployment: Object) -> bool:
    return deployment["spec"].get("progressDeadlineSeconds") not in {None, UNLIMITED}


def _progressing(status: str, reason: str, message: str, now: str) -> Object:
    return _condition("Progressing", status, reason, message, now)


def _counted(
    deployment: Object, new: Object | None, replica_sets: Sequence[Object | None], now: str
) -> Object:
    """Return the Deployment's status with new counts, a new condition Available, and its other conditions."""
    former = deployment.get("status") or {}
    available = _available_count(*replica_sets)
    counts = {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        "replicas": _status_sum("replicas", *replica_sets),
        "updatedReplicas": _status_sum("replicas", new),
        "readyReplicas": _status_sum("readyReplicas", *replica_sets),
        "availableReplicas": available,
        "unavailableReplicas": max(_pod_count(*replica_sets) - available, 0),
    }
    status: Object = {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = _status_sum("terminatingReplicas", *replica_sets)
    enough = available >= _replicas(deployment) - _max_unavailable(deployment)
    condition = _condition(
        "Available",
        "True" if enough else "False",
        f"MinimumReplicas{'Available' if enough else 'Unavailable'}",
        f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        now,
    )
    status["conditions"] = conditions.set_condition(former.get("conditions") or (), condition)
    if "collisionCount" in former:
        status["collisionCount"] = former["collisionCount"]
    return status


def _progress(
    deployment: Object, new: Object | None, status: Object, now: datetime.datetime, text: str
) -> None:
    """Set the Progressing condition in `status`, the result of `_counted`; `text` is `now` as a timestamp."""
    if not _has_deadline(deployment):
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
    if _is_complete(deployment, status):
        status["conditions"] = conditions.set_condition(
            status["conditions"],
            _progressing("True", "NewReplicaSetAvailable", f"{subject} has successfully progressed.", text),
        )
    elif _moved(former, status):
        moved = _progressing("True", "ReplicaSetUpdated", f"{subject} is progressing.", text)
        if condition is not None and condition["status"] == "True":
            moved["lastTransitionTime"] = condition["lastTransitionTime"]
        # The condition is replaced even if it has the same reason, because the deadline counts from its time.
        status["conditions"] = conditions.replaced(status["conditions"], moved)
    elif _timed_out(deployment, status, now):
        status["conditions"] = conditions.set_condition(
            status["conditions"],
            _progressing("False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing.", text),
        )


def _with_failures(status: Object, new: Object | None, replica_sets: Sequence[Object | None]) -> None:
    """Copy the condition ReplicaFailure into `status`, from the first ReplicaSet that has it."""
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


def _is_complete(deployment: Object, status: Object) -> bool:
    """Return whether all pods belong to the newest revision and are available."""
    wanted = _replicas(deployment)
    return all(
        status.get(field, 0) == wanted for field in ("updatedReplicas", "replicas", "availableReplicas")
    ) and status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 1)


def _seconds_until_deadline(deployment: Object, now: datetime.datetime) -> float | None:
    """Return the seconds until a rollout without progress exceeds its deadline; None without a deadline."""
    status = deployment.get("status") or {}
    condition = conditions.find(status.get("conditions") or (), "Progressing")
    if not _has_deadline(deployment) or condition is None:
        return None
    if _is_complete(deployment, status) or condition["reason"] == "ProgressDeadlineExceeded":
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


def _revision_of(replica_set: Object) -> int:
    """Return the ReplicaSet's revision number, or 0 if it has none."""
    text = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "")
    return max(parse_integer(text) or 0, 0)


def _newest(deployment: Object, replica_sets: Sequence[Object]) -> Object | None:
    """Return the ReplicaSet with the Deployment's template (the oldest, if there are several), or None."""
    wanted = _plain(deployment["spec"]["template"])
    for each in sorted(replica_sets, key=age_of):
        if _plain(each["spec"]["template"]) == wanted:
            return each
    return None


def _new_replica_set(deployment: Object, old: Sequence[Object], revision: int) -> Object:
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
    replica_set["spec"]["replicas"] = _new_size(deployment, [*old, replica_set], 0)
    _annotate(replica_set, deployment, revision, sized=True)
    return replica_set


def _annotate(replica_set: Object, deployment: Object, revision: int, *, sized: bool) -> bool:
    """Copy the Deployment's annotations to a ReplicaSet, and set its revision; return whether it changed.

    With `sized`, also set the annotations with the desired and the maximum number of replicas.
    """
    old = replica_set["metadata"].get("annotations") or {}
    new = dict(old)
    given = deployment["metadata"].get("annotations") or {}
    new.update({name: value for name, value in given.items() if name not in NOT_COPIED})
    known = parse_integer(old.get(REVISION, "0"))
    if known is not None and known < revision:
        new[REVISION] = str(revision)
        if REVISION in old:
            _remember(new, old[REVISION])
    if sized:
        wanted = _replicas(deployment)
        new[DESIRED] = str(wanted)
        new[MAXIMUM] = str(wanted + _max_surge(deployment))
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


class DeploymentController(PodController):
    """Deployment controller, which keeps a ReplicaSet per revision and scales up the newest one."""

    name = "deployment-controller"
    batch_period = 0.002

    def routes(self) -> Routes:
        return {
            DEPLOYMENTS: self.enqueue,
            REPLICA_SETS: self.enqueue_owner(DEPLOYMENTS, "Deployment"),
            PODS: self._on_pod,
        }

    async def sync(self, key: Name) -> None:
        deployment = self.view.get(DEPLOYMENTS, *key)
        if deployment is None:
            return
        rollout = _Rollout(self, deployment)
        await rollout.claim()
        await rollout.advance()
        remaining = _seconds_until_deadline(rollout.deployment, self.clock.now())
        if remaining is not None and not deployment["spec"].get("paused"):
            # One second is added because times in objects have no fraction.
            self.queue.add_after(key, max(remaining, 0.0) + 1)

    def _on_pod(self, change: Change) -> None:
        if change.new is not None or change.old is None:
            return
        owner = metadata_of(change.old).controller
        key = self.view.find(owner.uid) if owner is not None and owner.kind == "ReplicaSet" else None
        known = self.view.metadata(key) if key is not None else None
        if known is not None and known.controller is not None:
            self.queue.add((change.key.namespace, known.controller.name))


class _Rollout:
    """State of one reconcile: the Deployment as last written, and its ReplicaSets."""

    def __init__(self, controller: DeploymentController, deployment: Object) -> None:
        self._controller = controller
        self._clock = controller.clock
        self.deployment = deployment
        self._new: Object | None = None
        self._old: list[Object] = []

    @property
    def _all(self) -> list[Object | None]:
        return [*self._old, self._new]

    async def claim(self) -> None:
        """Adopt matching ReplicaSets, and release those that no longer match."""
        replica_sets = await self._controller.claim(self.deployment, resource=REPLICA_SETS)
        self._new = _newest(self.deployment, replica_sets)
        self._old = [each for each in sorted(replica_sets, key=age_of) if each is not self._new]

    async def advance(self) -> None:
        """Perform the next step of the rollout."""
        if is_going(self.deployment):
            await self._sync_revision()
            await self._write(self._counted())
            return
        await self._check_paused()
        if self.deployment["spec"].get("paused") or await self._is_scaling():
            await self._sync_revision()
            await self._scale()
            if self.deployment["spec"].get("paused"):
                await self._forget_old()
            await self._write(self._counted())
        elif _is_rolling(self.deployment):
            await self._roll()
        else:
            await self._recreate()

    # The two strategies

    async def _roll(self) -> None:
        new = await self._sync_revision() or await self._create()
        wanted = _replicas(self.deployment)
        grown = wanted
        if _pod_count(new) < wanted:
            grown = _new_size(self.deployment, self._all, _pod_count(new))
        if not await self._resize(new, grown) and not await self._shrink_old(new):
            await self._finish()
        await self._write_progress()

    async def _recreate(self) -> None:
        new = await self._sync_revision()
        shrunk = [await self._resize(each, 0) for each in _active(self._old)]
        if not any(shrunk) and not self._old_pods():
            new = new or await self._create()
            await self._resize(new, _replicas(self.deployment))
            await self._finish()
        await self._write_progress()

    async def _shrink_old(self, new: Object) -> bool:
        """Scale down old ReplicaSets as far as maxUnavailable allows, beginning with the unavailable pods."""
        old = sorted(_active(self._old), key=age_of)
        least = _replicas(self.deployment) - _max_unavailable(self.deployment)
        unavailable = _pod_count(new) - _available_count(new)
        spare = _pod_count(*self._all) - least - unavailable
        if not old or spare <= 0:
            return False
        shrunk = 0
        for each in old:
            broken = min(spare - shrunk, _pod_count(each) - _available_count(each))
            if broken > 0:
                await self._resize(each, _pod_count(each) - broken)
                shrunk += broken
        surplus = _available_count(*self._all) - least
        for each in old:
            count = min(_pod_count(each), surplus)
            if count > 0:
                await self._resize(each, _pod_count(each) - count)
                surplus -= count
                shrunk += count
        return shrunk > 0

    def _old_pods(self) -> bool:
        if _status_sum("replicas", *self._old):
            return True
        return any(
            not has_ended(pod)
            for each in self._old
            for pod in self._controller.view.owned(PODS, each["metadata"]["uid"])
        )

    # Scaling

    async def _is_scaling(self) -> bool:
        await self._sync_revision()
        wanted = str(_replicas(self.deployment))
        return any(
            (each["metadata"].get("annotations") or {}).get(DESIRED, wanted) != wanted
            for each in _active(self._all)
        )

    async def _scale(self) -> None:
        running = _active(self._all)
        if len(running) <= 1:
            newest = sorted(self._old, key=age_of)[-1:]
            for each in running or ([self._new] if self._new else newest):
                await self._resize(each, _replicas(self.deployment))
        elif self._is_saturated():
            for each in _active(self._old):
                await self._resize(each, 0)
        elif _is_rolling(self.deployment):
            for each, size in _proportions(self.deployment, running):
                await self._resize(each, size, always=True)

    def _is_saturated(self) -> bool:
        wanted = _replicas(self.deployment)
        if self._new is None:
            return False
        desired = (self._new["metadata"].get("annotations") or {}).get(DESIRED)
        return (
            desired == str(wanted)
            and _pod_count(self._new) == wanted
            and _available_count(self._new) == wanted
        )

    async def _resize(self, replica_set: Object, size: int, *, always: bool = False) -> bool:
        """Scale a ReplicaSet, and return whether its size changed.

        With `always`, update its annotations even if the size is already right.
        """
        former = _pod_count(replica_set)
        wanted = _replicas(self.deployment)
        counts = {
            DESIRED: str(wanted),
            MAXIMUM: str(wanted + _max_surge(self.deployment)),
        }
        annotations = replica_set["metadata"].get("annotations") or {}
        if former == size and (not always or counts.items() <= annotations.items()):
            return False
        replica_set["spec"]["replicas"] = size
        replica_set["metadata"]["annotations"] = {**annotations, **counts}
        replica_set.update(await self._controller.update(REPLICA_SETS, replica_set))
        if former == size:
            return False
        way, name = "up" if former < size else "down", replica_set["metadata"]["name"]
        self._controller.normal(
            self.deployment, "ScalingReplicaSet", f"Scaled {way} replica set {name} from {former} to {size}"
        )
        return True

    # Revisions

    def _next_revision(self) -> int:
        return max(map(_revision_of, self._old), default=0) + 1

    async def _sync_revision(self) -> Object | None:
        """Update the newest ReplicaSet's annotations and the Deployment's revision.

        Returns the newest ReplicaSet, or None if it does not exist yet.
        """
        new = self._new
        if new is None:
            return None
        annotated = _annotate(new, self.deployment, self._next_revision(), sized=False)
        min_ready = self.deployment["spec"].get("minReadySeconds", 0)
        if annotated or new["spec"].get("minReadySeconds", 0) != min_ready:
            new["spec"]["minReadySeconds"] = min_ready
            new.update(await self._controller.update(REPLICA_SETS, new))
        found = f'Found new replica set "{new["metadata"]["name"]}"'
        known = (self.deployment.get("status") or {}).get("conditions") or ()
        unseen = conditions.find(known, "Progressing") is None
        await self._set_revision(_revision_of(new), "FoundNewReplicaSet" if unseen else "", found)
        return new

    async def _create(self) -> Object:
        """Create the ReplicaSet of the current pod template."""
        revision = self._next_revision()
        wanted = _new_replica_set(self.deployment, self._old, revision)
        name = wanted["metadata"]["name"]
        try:
            new = await self._controller.create(REPLICA_SETS, wanted)
        except StatusError as error:
            await self._creation_failed(name, error)
            raise
        self._new = new
        if size := _pod_count(new):
            self._controller.normal(
                self.deployment, "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {size}"
            )
        await self._set_revision(revision, "NewReplicaSetCreated", f'Created new replica set "{name}"')
        return new

    async def _creation_failed(self, name: str, error: StatusError) -> None:
        current = self.deployment.get("status") or {}
        if error.reason == "AlreadyExists":
            # Another object has the name, so the next hash includes the collision count.
            await self._write({**current, "collisionCount": current.get("collisionCount", 0) + 1})
            return
        message = f'Failed to create new replica set "{name}": {error.message}'
        self._controller.warn(self.deployment, "ReplicaSetCreateError", message)
        if _has_deadline(self.deployment):
            failed = _progressing("False", "ReplicaSetCreateError", message, self._clock.timestamp())
            known = conditions.set_condition(current.get("conditions") or (), failed)
            await self._write({**current, "conditions": known})

    async def _set_revision(self, revision: int, reason: str, message: str) -> None:
        """Write the Deployment's revision and, if `reason` is not empty, the condition Progressing."""
        annotations = self.deployment["metadata"].get("annotations") or {}
        current = self.deployment.get("status") or {}
        changed = dict(current)
        if reason and _has_deadline(self.deployment):
            made = _progressing("True", reason, message, self._clock.timestamp())
            changed["conditions"] = conditions.set_condition(current.get("conditions") or (), made)
        is_new = annotations.get(REVISION) != str(revision)
        if is_new:
            self.deployment["metadata"]["annotations"] = {**annotations, REVISION: str(revision)}
        await self._write(changed, always=is_new)

    async def _finish(self) -> None:
        if _is_complete(self.deployment, self.deployment.get("status") or {}):
            await self._forget_old()

    async def _forget_old(self) -> None:
        """Delete old ReplicaSets that exceed revisionHistoryLimit."""
        limit = self.deployment["spec"].get("revisionHistoryLimit")
        if limit in {None, UNLIMITED}:
            return
        alive = [each for each in self._old if not is_going(each)]
        alive.sort(key=_revision_of)
        for each in alive[: max(len(alive) - limit, 0)]:
            metadata, state = each["metadata"], each.get("status") or {}
            seen = state.get("observedGeneration", 0) >= metadata.get("generation", 1)
            if seen and not state.get("replicas") and not _pod_count(each):
                await self._controller.delete(REPLICA_SETS, each)
                self._old.remove(each)

    # The status

    async def _check_paused(self) -> None:
        """Update the Progressing condition when a Deployment is paused or resumed."""
        if not _has_deadline(self.deployment):
            return
        current = self.deployment.get("status") or {}
        known = current.get("conditions") or ()
        condition = conditions.find(known, "Progressing")
        reason = condition["reason"] if condition else ""
        paused = bool(self.deployment["spec"].get("paused"))
        if reason == "ProgressDeadlineExceeded" or paused == (reason == "DeploymentPaused"):
            return
        word = "paused" if paused else "resumed"
        changed = _progressing(
            "Unknown", f"Deployment{word.capitalize()}", f"Deployment is {word}", self._clock.timestamp()
        )
        await self._write({**current, "conditions": conditions.set_condition(known, changed)})

    def _counted(self) -> Object:
        return _counted(self.deployment, self._new, self._all, self._clock.timestamp())

    async def _write_progress(self) -> None:
        changed, now = self._counted(), self._clock.timestamp()
        _progress(self.deployment, self._new, changed, self._clock.now(), now)
        _with_failures(changed, self._new, self._all)
        await self._write(changed)

    async def _write(self, changed: Object, *, always: bool = False) -> None:
        if always or changed != (self.deployment.get("status") or {}):
            self.deployment["status"] = changed
            self.deployment = await self._controller.update(
                DEPLOYMENTS, self.deployment, subresource="status"
            )
