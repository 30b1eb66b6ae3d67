"""The ReplicaSet controller, which keeps the desired number of pods."""

from __future__ import annotations

from collections.abc import Sequence

from devcluster.controllers.client import PODS, REPLICA_SETS, Object, controller_of, is_going
from devcluster.controllers.controller import Name, Routes, is_namespace_going
from devcluster.controllers.pod_owners import PodController
from devcluster.controllers.pod_status import (
    deletion_order,
    is_active,
    is_available,
    is_ready,
    is_terminating,
    pod_from,
)
from devcluster.errors import StatusError
from devcluster.kinds import conditions

BURST = 500
"""The maximum number of pods created or deleted in one reconcile."""


class ReplicaSetController(PodController):
    """ReplicaSet controller, which creates, deletes, adopts and counts pods."""

    name = "replicaset-controller"
    batch_period = 0.002

    def routes(self) -> Routes:
        return {REPLICA_SETS: self.enqueue, PODS: self.enqueue_owner(REPLICA_SETS, "ReplicaSet")}

    async def sync(self, key: Name) -> None:
        replica_set = self.view.get(REPLICA_SETS, *key)
        if replica_set is None:
            return
        owned = self.view.owned(PODS, replica_set["metadata"]["uid"])
        active = [pod for pod in owned if is_active(pod)]
        failure: StatusError | None = None
        if not is_going(replica_set):
            active = await self.claim(replica_set, fit=is_active)
            try:
                await self._manage(replica_set, active)
            except StatusError as error:
                failure = None if is_namespace_going(error) else error
        # Count the pods that existed before this reconcile: changes report new and deleted pods.
        terminating = sum(map(is_terminating, owned))
        status = self._status(replica_set, active, terminating, failure)
        await self.write_status(REPLICA_SETS, replica_set, status)
        if failure is not None:
            raise failure
        self.await_availability(key, replica_set, active)

    async def _manage(self, replica_set: Object, active: Sequence[Object]) -> None:
        surplus = len(active) - replica_set["spec"].get("replicas", 1)
        if surplus < 0:
            prefix = f"{replica_set['metadata']['name']}-"
            for _ in range(min(-surplus, BURST)):
                pod = pod_from(replica_set["spec"]["template"], replica_set, prefix=prefix)
                await self.create_pod(replica_set, pod)
        elif surplus > 0:
            order = deletion_order(active, self._related(replica_set) if surplus < len(active) else ())
            for pod in order[: min(surplus, BURST)]:
                await self.delete_pod(replica_set, pod)

    def _related(self, replica_set: Object) -> list[Object]:
        """Return the pods of all ReplicaSets that belong to the same Deployment."""
        owner = controller_of(replica_set)
        if owner is None:
            return self.view.owned(PODS, replica_set["metadata"]["uid"])
        siblings = self.view.owned(REPLICA_SETS, owner["uid"])
        return [pod for sibling in siblings for pod in self.view.owned(PODS, sibling["metadata"]["uid"])]

    def _status(
        self, replica_set: Object, active: Sequence[Object], terminating: int, failure: StatusError | None
    ) -> Object:
        spec, now = replica_set["spec"], self.clock.now()
        labels = (spec["template"].get("metadata") or {}).get("labels") or {}
        min_ready = spec.get("minReadySeconds", 0)
        counts = {
            "fullyLabeledReplicas": sum(
                labels.items() <= (pod["metadata"].get("labels") or {}).items() for pod in active
            ),
            "readyReplicas": sum(map(is_ready, active)),
            "availableReplicas": sum(is_available(pod, min_ready, now) for pod in active),
        }
        status: Object = {"replicas": len(active), **{name: count for name, count in counts.items() if count}}
        status["terminatingReplicas"] = terminating
        status["observedGeneration"] = replica_set["metadata"].get("generation", 1)
        known = (replica_set.get("status") or {}).get("conditions") or []
        if failure is None:
            known = conditions.without(known, "ReplicaFailure")
        elif conditions.find(known, "ReplicaFailure") is None:
            short = len(active) < spec.get("replicas", 1)
            condition = {
                "type": "ReplicaFailure",
                "status": "True",
                "lastTransitionTime": self.clock.timestamp(),
                "reason": "FailedCreate" if short else "FailedDelete",
                "message": failure.message,
            }
            known = conditions.set_condition(known, condition)
        if known:
            status["conditions"] = known
        return status
