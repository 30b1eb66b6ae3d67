"""Deployments: a ReplicaSet for each revision of the pod template, and the rollout between revisions."""

from __future__ import annotations

from collections.abc import Sequence

from devcluster.controllers.client import PODS, REPLICA_SETS, Object, is_going, metadata_of
from devcluster.controllers.controller import Name, Routes
from devcluster.controllers.pod_owners import PodController
from devcluster.controllers.pod_status import has_ended
from devcluster.controllers.rollout import (
    DESIRED,
    MAXIMUM,
    REVISION,
    active,
    annotate,
    available_count,
    by_creation,
    counted,
    current,
    has_deadline,
    is_complete,
    is_rolling,
    max_surge,
    max_unavailable,
    new_replica_set,
    new_size,
    pod_count,
    progress,
    progressing,
    proportions,
    replicas,
    revision_of,
    seconds_until_deadline,
    status_sum,
    with_failures,
)
from devcluster.errors import StatusError
from devcluster.kinds import conditions
from devcluster.storage import Change

DEPLOYMENTS = ("apps", "deployments")
UNLIMITED = 2147483647


class DeploymentController(PodController):
    """The Deployment controller, which keeps a ReplicaSet per revision, and moves pods to the newest."""

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
        remaining = seconds_until_deadline(rollout.deployment, self.clock.now())
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
    """A reconcile of a Deployment: the object as last written, with its ReplicaSets."""

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
        """Find the ReplicaSets."""
        self._sort(await self._controller.claim(self.deployment, resource=REPLICA_SETS))

    async def advance(self) -> None:
        """Take the next step of whatever is due."""
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
        elif is_rolling(self.deployment):
            await self._roll()
        else:
            await self._recreate()

    # The two strategies.

    async def _roll(self) -> None:
        new = await self._sync_revision() or await self._create()
        wanted = replicas(self.deployment)
        grown = wanted
        if pod_count(new) < wanted:
            grown = new_size(self.deployment, self._all, pod_count(new))
        if not await self._resize(new, grown) and not await self._shrink_old(new):
            await self._finish()
        await self._write_progress()

    async def _recreate(self) -> None:
        new = await self._sync_revision()
        shrunk = [await self._resize(each, 0) for each in active(self._old)]
        if not any(shrunk) and not self._old_pods():
            new = new or await self._create()
            await self._resize(new, replicas(self.deployment))
            await self._finish()
        await self._write_progress()

    async def _shrink_old(self, new: Object) -> bool:
        """Take pods from old ReplicaSets as far as availability allows, those that do not work first."""
        old = active(by_creation(self._old))
        least = replicas(self.deployment) - max_unavailable(self.deployment)
        unavailable = pod_count(new) - available_count(new)
        spare = pod_count(*self._all) - least - unavailable
        if not old or spare <= 0:
            return False
        shrunk = 0
        for each in old:
            broken = min(spare - shrunk, pod_count(each) - available_count(each))
            if broken > 0:
                await self._resize(each, pod_count(each) - broken)
                shrunk += broken
        surplus = available_count(*self._all) - least
        for each in old:
            count = min(pod_count(each), surplus)
            if count > 0:
                await self._resize(each, pod_count(each) - count)
                surplus -= count
                shrunk += count
        return shrunk > 0

    def _old_pods(self) -> bool:
        if status_sum("replicas", *self._old):
            return True
        return any(
            not has_ended(pod)
            for each in self._old
            for pod in self._controller.view.owned(PODS, each["metadata"]["uid"])
        )

    # Scaling.

    async def _is_scaling(self) -> bool:
        await self._sync_revision()
        wanted = str(replicas(self.deployment))
        return any(
            (each["metadata"].get("annotations") or {}).get(DESIRED, wanted) != wanted
            for each in active(self._all)
        )

    async def _scale(self) -> None:
        running = active(self._all)
        if len(running) <= 1:
            newest = by_creation(self._old)[-1:]
            for each in running or ([self._new] if self._new else newest):
                await self._resize(each, replicas(self.deployment))
        elif self._is_saturated():
            for each in active(self._old):
                await self._resize(each, 0)
        elif is_rolling(self.deployment):
            for each, size in proportions(self.deployment, running):
                await self._resize(each, size, always=True)

    def _is_saturated(self) -> bool:
        wanted = replicas(self.deployment)
        if self._new is None:
            return False
        desired = (self._new["metadata"].get("annotations") or {}).get(DESIRED)
        return (
            desired == str(wanted) and pod_count(self._new) == wanted and available_count(self._new) == wanted
        )

    async def _resize(self, replica_set: Object, size: int, *, always: bool = False) -> bool:
        """Give a ReplicaSet its size; `always` looks at the annotations even when it has that."""
        former = pod_count(replica_set)
        wanted = replicas(self.deployment)
        counts = {
            DESIRED: str(wanted),
            MAXIMUM: str(wanted + max_surge(self.deployment)),
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

    # Revisions.

    def _sort(self, replica_sets: Sequence[Object]) -> None:
        self._new = current(self.deployment, replica_sets)
        self._old = [each for each in by_creation(replica_sets) if each is not self._new]

    def _next_revision(self) -> int:
        return max(map(revision_of, self._old), default=0) + 1

    async def _sync_revision(self) -> Object | None:
        """Bring annotations of the newest ReplicaSet and the Deployment's revision up to date."""
        new = self._new
        if new is None:
            return None
        annotated = annotate(new, self.deployment, self._next_revision(), sized=False)
        min_ready = self.deployment["spec"].get("minReadySeconds", 0)
        if annotated or new["spec"].get("minReadySeconds", 0) != min_ready:
            new["spec"]["minReadySeconds"] = min_ready
            new.update(await self._controller.update(REPLICA_SETS, new))
        found = f'Found new replica set "{new["metadata"]["name"]}"'
        known = (self.deployment.get("status") or {}).get("conditions") or ()
        unseen = conditions.find(known, "Progressing") is None
        await self._set_revision(revision_of(new), "FoundNewReplicaSet" if unseen else "", found)
        return new

    async def _create(self) -> Object:
        """Make the ReplicaSet of the newest revision."""
        revision = self._next_revision()
        wanted = new_replica_set(self.deployment, self._old, revision)
        name = wanted["metadata"]["name"]
        try:
            new = await self._controller.create(REPLICA_SETS, wanted)
        except StatusError as error:
            await self._creation_failed(name, error)
            raise
        self._new = new
        if size := pod_count(new):
            self._controller.normal(
                self.deployment, "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {size}"
            )
        await self._set_revision(revision, "NewReplicaSetCreated", f'Created new replica set "{name}"')
        return new

    async def _creation_failed(self, name: str, error: StatusError) -> None:
        current = self.deployment.get("status") or {}
        if error.reason == "AlreadyExists":
            # Another object has the name: the next hash includes the count.
            await self._write({**current, "collisionCount": current.get("collisionCount", 0) + 1})
            return
        message = f'Failed to create new replica set "{name}": {error.message}'
        self._controller.warn(self.deployment, "ReplicaSetCreateError", message)
        if has_deadline(self.deployment):
            failed = progressing("False", "ReplicaSetCreateError", message, self._clock.timestamp())
            known = conditions.set_condition(current.get("conditions") or (), failed)
            await self._write({**current, "conditions": known})

    async def _set_revision(self, revision: int, reason: str, message: str) -> None:
        """Write the revision and, with a reason, that progress was made."""
        annotations = self.deployment["metadata"].get("annotations") or {}
        current = self.deployment.get("status") or {}
        changed = dict(current)
        if reason and has_deadline(self.deployment):
            made = progressing("True", reason, message, self._clock.timestamp())
            changed["conditions"] = conditions.set_condition(current.get("conditions") or (), made)
        is_new = annotations.get(REVISION) != str(revision)
        if is_new:
            self.deployment["metadata"]["annotations"] = {**annotations, REVISION: str(revision)}
        await self._write(changed, always=is_new)

    async def _finish(self) -> None:
        if is_complete(self.deployment, self.deployment.get("status") or {}):
            await self._forget_old()

    async def _forget_old(self) -> None:
        """Delete the ReplicaSets that are older than the history may be."""
        limit = self.deployment["spec"].get("revisionHistoryLimit")
        if limit in {None, UNLIMITED}:
            return
        alive = [each for each in self._old if not is_going(each)]
        alive.sort(key=revision_of)
        for each in alive[: max(len(alive) - limit, 0)]:
            metadata, state = each["metadata"], each.get("status") or {}
            seen = state.get("observedGeneration", 0) >= metadata.get("generation", 1)
            if seen and not state.get("replicas") and not pod_count(each):
                await self._controller.delete(REPLICA_SETS, each)
                self._old.remove(each)

    # The status.

    async def _check_paused(self) -> None:
        """Update the Progressing condition of a paused Deployment, whose deadline must not run."""
        if not has_deadline(self.deployment):
            return
        current = self.deployment.get("status") or {}
        known = current.get("conditions") or ()
        condition = conditions.find(known, "Progressing")
        reason = condition["reason"] if condition else ""
        paused = bool(self.deployment["spec"].get("paused"))
        if reason == "ProgressDeadlineExceeded" or paused == (reason == "DeploymentPaused"):
            return
        word = "paused" if paused else "resumed"
        changed = progressing(
            "Unknown", f"Deployment{word.capitalize()}", f"Deployment is {word}", self._clock.timestamp()
        )
        await self._write({**current, "conditions": conditions.set_condition(known, changed)})

    def _counted(self) -> Object:
        return counted(self.deployment, self._new, self._all, self._clock.timestamp())

    async def _write_progress(self) -> None:
        changed, now = self._counted(), self._clock.timestamp()
        progress(self.deployment, self._new, changed, self._clock.now(), now)
        with_failures(changed, self._new, self._all)
        await self._write(changed)

    async def _write(self, changed: Object, *, always: bool = False) -> None:
        if always or changed != (self.deployment.get("status") or {}):
            self.deployment["status"] = changed
            self.deployment = await self._controller.update(
                DEPLOYMENTS, self.deployment, subresource="status"
            )
