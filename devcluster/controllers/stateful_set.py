"""Controller of StatefulSets and their pods."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Sequence

from devcluster.controllers.client import CLAIMS, PODS, Object, is_going, key_of, owner_reference
from devcluster.controllers.controller import Name, Routes
from devcluster.controllers.pod_owners import History, PodController, scaled
from devcluster.controllers.pod_status import has_ended, is_available, is_ready, pod_from
from devcluster.errors import StatusError

REVISION_LABEL = "controller-revision-hash"


def start_of(stateful_set: Object) -> int:
    """Return the ordinal of the StatefulSet's first pod."""
    start: int = (stateful_set["spec"].get("ordinals") or {}).get("start", 0)
    return start


def ordinal_of(pod: Object, stateful_set: Object) -> int:
    """Return the pod's ordinal, or -1 if its name has none."""
    prefix, _, number = pod["metadata"]["name"].rpartition("-")
    return int(number) if prefix == stateful_set["metadata"]["name"] and number.isdigit() else -1


def revision_of(pod: Object) -> str:
    """Return the name of the ControllerRevision in the pod's label."""
    revision: str = (pod["metadata"].get("labels") or {}).get(REVISION_LABEL, "")
    return revision


def is_unavailable(pod: Object | None, min_ready: int, now: datetime.datetime) -> bool:
    """Return whether the pod is missing, unavailable, or terminating."""
    if pod is None or is_going(pod):
        return True
    running = (pod.get("status") or {}).get("phase") == "Running"
    return not (running and is_available(pod, min_ready, now))


def stateful_pod(stateful_set: Object, template: Object, revision: str, ordinal: int) -> Object:
    """Build the pod with this ordinal, from the pod template of a revision."""
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    pod = pod_from(template, stateful_set, name=name)
    pod["metadata"]["generateName"] = f"{stateful_set['metadata']['name']}-"
    pod["metadata"]["labels"] = {
        **pod["metadata"].get("labels", {}),
        "apps.kubernetes.io/pod-index": str(ordinal),
        REVISION_LABEL: revision,
        "statefulset.kubernetes.io/pod-name": name,
    }
    spec = pod["spec"]
    spec["hostname"] = name
    if stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = stateful_set["spec"]["serviceName"]
    claims = claims_of(stateful_set, ordinal)
    if claims:
        own = [
            {"name": volume, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
            for volume, claim in claims.items()
        ]
        spec["volumes"] = [*own, *(each for each in spec.get("volumes") or () if each["name"] not in claims)]
    return pod


def claims_of(stateful_set: Object, ordinal: int) -> dict[str, Object]:
    """Return the claims of the pod with this ordinal, by the name of the volume."""
    metadata, claims = stateful_set["metadata"], {}
    for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
        volume = template["metadata"]["name"]
        labels = {
            **(template["metadata"].get("labels") or {}),
            **(stateful_set["spec"]["selector"].get("matchLabels") or {}),
        }
        claim: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": f"{volume}-{metadata['name']}-{ordinal}",
                "namespace": metadata["namespace"],
                "labels": labels,
            },
            "spec": copy.deepcopy(template["spec"]),
        }
        if template["metadata"].get("annotations"):
            claim["metadata"]["annotations"] = dict(template["metadata"]["annotations"])
        claims[volume] = claim
    return claims


SETS = ("apps", "statefulsets")


class StatefulSetController(PodController):
    """StatefulSet controller, which creates pods in order, and deletes and updates them in reverse."""

    name = "statefulset-controller"
    batch_period = 0.002

    def routes(self) -> Routes:
        return {SETS: self.enqueue, PODS: self.enqueue_owner(SETS, "StatefulSet")}

    async def sync(self, key: Name) -> None:
        stateful_set = self.view.get(SETS, *key)
        if stateful_set is None:
            return
        history = await History.claim(self, stateful_set, hash_label="controller.kubernetes.io/hash")
        pods = await self.claim(stateful_set, fit=lambda pod: ordinal_of(pod, stateful_set) >= 0)
        newest = await history.update()
        former = (stateful_set.get("status") or {}).get("currentRevision", "")
        current = history.find(former) or newest
        visit = _Visit(self, stateful_set, pods, current, newest)
        if not is_going(stateful_set):
            await visit.advance()
        await self.write_status(SETS, stateful_set, visit.status())
        await history.truncate(
            {current["metadata"]["name"], newest["metadata"]["name"], *map(revision_of, pods)}
        )
        self.await_availability(key, stateful_set, pods)


class _Visit:
    """Reconcile of one StatefulSet."""

    def __init__(
        self,
        controller: StatefulSetController,
        stateful_set: Object,
        pods: Sequence[Object],
        current: Object,
        newest: Object,
    ) -> None:
        self._controller = controller
        self._set = stateful_set
        self._current = current
        self._newest = newest
        self._now = controller.clock.now()
        self._min_ready: int = stateful_set["spec"].get("minReadySeconds", 0)
        start, count = start_of(stateful_set), stateful_set["spec"].get("replicas", 1)
        by_ordinal = {ordinal_of(pod, stateful_set): pod for pod in pods}
        self._replicas = {number: by_ordinal.pop(number, None) for number in range(start, start + count)}
        self._condemned = dict(sorted(by_ordinal.items(), reverse=True))
        self._updating = 0

    @property
    def _in_order(self) -> bool:
        return bool(self._set["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady")

    async def advance(self) -> None:
        """Perform the next steps of the reconcile."""
        for ordinal, pod in self._replicas.items():
            if await self._ensure(ordinal, pod):
                return
        if not await self._shrink():
            await self._update()

    def status(self) -> Object:
        pods = [pod for pod in (*self._replicas.values(), *self._condemned.values()) if pod is not None]
        current, newest = self._current["metadata"]["name"], self._newest["metadata"]["name"]
        staying = [pod for pod in pods if not is_going(pod)]
        ready = [pod for pod in pods if is_ready(pod) and pod["status"].get("phase") == "Running"]
        available = sum(is_available(pod, self._min_ready, self._now) for pod in ready)
        counts = {
            "readyReplicas": len(ready),
            "currentReplicas": sum(revision_of(pod) == current for pod in staying) - self._updating,
            "updatedReplicas": sum(revision_of(pod) == newest for pod in staying),
        }
        wanted = self._set["spec"].get("replicas", 1)
        if (
            self._strategy == "RollingUpdate"
            and counts["updatedReplicas"] == len(pods) == len(ready) == wanted
        ):
            counts["currentReplicas"], current = counts["updatedReplicas"], newest
        return {
            "observedGeneration": self._set["metadata"].get("generation", 1),
            "replicas": len(pods),
            **{name: count for name, count in counts.items() if count},
            "currentRevision": current,
            "updateRevision": newest,
            "collisionCount": (self._set.get("status") or {}).get("collisionCount", 0),
            "availableReplicas": available,
        }

    @property
    def _strategy(self) -> str:
        strategy: str = (self._set["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
        return strategy

    @property
    def _rolling(self) -> Object:
        return (self._set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}

    async def _ensure(self, ordinal: int, pod: Object | None) -> bool:
        """Create or replace the pod if needed; return whether the reconcile must stop at this ordinal."""
        if pod is None:
            self._replicas[ordinal] = await self._create(ordinal)
            return self._in_order
        if has_ended(pod):
            if not is_going(pod):
                await self._delete(pod)
            return True
        return self._in_order and is_unavailable(pod, self._min_ready, self._now)

    async def _shrink(self) -> bool:
        first_unwell = next((pod for pod in reversed(self._condemned.values()) if self._is_unwell(pod)), None)
        for pod in self._condemned.values():
            if is_going(pod):
                if self._in_order:
                    return True
                continue
            if self._in_order and self._is_unwell(pod) and pod is not first_unwell:
                return True
            await self._delete(pod)
            if self._in_order:
                return True
        return False

    async def _update(self) -> None:
        """Delete pods of old revisions for replacement, beginning with the highest ordinal."""
        if self._strategy != "RollingUpdate":
            return
        newest = self._newest["metadata"]["name"]
        partition = start_of(self._set) + self._rolling.get("partition", 0)
        allowed = max(scaled(self._rolling.get("maxUnavailable", 1), len(self._replicas), up=False), 1)
        unwell = sum(self._is_unwell(pod) for pod in self._replicas.values())
        for ordinal, pod in sorted(self._replicas.items(), reverse=True):
            if ordinal < partition or unwell >= allowed:
                return
            if pod is not None and revision_of(pod) != newest and not self._is_unwell(pod):
                await self._delete(pod)
                self._updating += revision_of(pod) == self._current["metadata"]["name"]
                unwell += 1

    def _is_unwell(self, pod: Object | None) -> bool:
        return is_unavailable(pod, self._min_ready, self._now)

    async def _create(self, ordinal: int) -> Object | None:
        start = start_of(self._set)
        partition = self._rolling.get("partition", 0) if self._strategy == "RollingUpdate" else 0
        revision = self._newest
        status = self._set.get("status") or {}
        if self._strategy == "RollingUpdate" and (
            ordinal < start + partition
            or (partition == 0 and ordinal < start + status.get("currentReplicas", 0))
        ):
            revision = self._current
        pod = stateful_pod(
            self._set, revision["data"]["spec"]["template"], revision["metadata"]["name"], ordinal
        )
        name, set_name = pod["metadata"]["name"], self._set["metadata"]["name"]
        await self._create_claims(ordinal, name)
        about = f"Pod {name} in StatefulSet {set_name}"
        try:
            created = await self._controller.create(PODS, pod)
        except StatusError as error:
            text = f"create {about} failed error: {error.message}"
            self._controller.warn(self._set, "FailedCreate", text)
            raise
        self._controller.normal(self._set, "SuccessfulCreate", f"Create {about} successful")
        return created

    async def _create_claims(self, ordinal: int, pod: str) -> None:
        retention = self._set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        for claim in claims_of(self._set, ordinal).values():
            namespace, name = key_of(claim)
            if self._controller.view.stored(CLAIMS, namespace, name) is not None:
                continue
            if retention.get("whenDeleted") == "Delete":
                claim["metadata"]["ownerReferences"] = [owner_reference(self._set)]
            await self._controller.create(CLAIMS, claim)
            text = f"Create Claim {name} Pod {pod} in StatefulSet {self._set['metadata']['name']} success"
            self._controller.normal(self._set, "SuccessfulCreate", text)

    async def _delete(self, pod: Object) -> None:
        await self._controller.delete(PODS, pod)
        about = f"Pod {pod['metadata']['name']} in StatefulSet {self._set['metadata']['name']}"
        self._controller.normal(self._set, "SuccessfulDelete", f"Delete {about} successful")
