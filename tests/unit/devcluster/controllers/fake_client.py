from __future__ import annotations

import copy
import random
import uuid
from typing import Any

from devcluster import errors
from devcluster.clock import Clock
from devcluster.storage import Exists, Key, Missing, Store, VersionConflict

Object = dict[str, Any]

PLURALS = {
    "Pod": "pods",
    "Deployment": "deployments.apps",
}
DEFAULTS: dict[str, Object] = {}


class FakeClient:
    """The part of the API server that controllers depend on, over the real store."""

    def __init__(self, store: Store, clock: Clock, rng: random.Random) -> None:
        self.store, self.clock, self.rng = store, clock, rng
        self.writes: list[tuple[str, str, str]] = []

    async def create(self, resource, namespace, obj, *, name="", subresource=""):
        obj = copy.deepcopy(obj)
        if subresource == "binding":
            pod = self._get(resource, namespace, name)
            pod["spec"]["nodeName"] = obj["target"]["name"]
            conditions = pod.setdefault("status", {}).get("conditions") or []
            conditions = [each for each in conditions if each["type"] != "PodScheduled"]
            conditions.append(
                {
                    "type": "PodScheduled",
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": self.clock.timestamp(),
                }
            )
            pod["status"]["conditions"] = conditions
            return self._put(resource, namespace, pod)
        metadata = obj["metadata"]
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = metadata["generateName"] + f"{self.rng.getrandbits(24):05x}"
        metadata |= {
            "uid": str(uuid.UUID(int=self.rng.getrandbits(128))),
            "creationTimestamp": self.clock.timestamp(),
            "generation": 1,
        }
        if namespace:
            metadata["namespace"] = namespace
        obj.pop("status", None)
        if resource == "pods":
            obj["status"] = {"phase": "Pending"}
        if resource == "deployments.apps":
            spec = obj["spec"]
            spec.setdefault("replicas", 1)
            spec.setdefault("progressDeadlineSeconds", 600)
            spec.setdefault("revisionHistoryLimit", 10)
            rolling = {"maxSurge": "25%", "maxUnavailable": "25%"}
            spec.setdefault("strategy", {"type": "RollingUpdate", "rollingUpdate": rolling})
        if resource == "jobs.batch":
            uid = metadata["uid"]
            labels = {
                "batch.kubernetes.io/controller-uid": uid,
                "batch.kubernetes.io/job-name": metadata["name"],
            }
            obj["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
            template = obj["spec"]["template"]
            template.setdefault("metadata", {}).setdefault("labels", {}).update(labels)
        if resource == "namespaces":
            obj["spec"] = {"finalizers": ["kubernetes"]}
            obj["status"] = {"phase": "Active"}
        if resource == "persistentvolumeclaims":
            metadata["finalizers"] = ["kubernetes.io/pvc-protection"]
            obj["status"] = {"phase": "Pending"}
        try:
            self.store.create(self._key(resource, namespace, metadata["name"]), obj)
        except Exists:
            raise errors.already_exists("", resource, metadata["name"]) from None
        self.writes.append(("create", resource, metadata["name"]))
        return obj

    async def update(self, resource, namespace, obj, *, subresource=""):
        old = self._get(resource, namespace, obj["metadata"]["name"])
        obj = copy.deepcopy(obj)
        if subresource == "finalize":
            new = {**old, "spec": obj["spec"]}
            result = self._put(resource, namespace, new, old)
            if not new["spec"].get("finalizers") and new["metadata"].get("deletionTimestamp"):
                self.store.delete(self._key(resource, namespace, new["metadata"]["name"]))
            return result
        if subresource == "status":
            new = {**old, "metadata": obj["metadata"], "status": obj.get("status", {})}
        else:
            new = {**obj, **({"status": old["status"]} if "status" in old else {})}
            if new.get("spec") != old.get("spec"):
                new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        return self._put(resource, namespace, new, old)

    async def patch(self, resource, namespace, name, patch, *, subresource=""):
        old = self._get(resource, namespace, name)
        uid = (patch.get("metadata") or {}).get("uid")
        if uid and uid != old["metadata"]["uid"]:
            raise errors.conflict("", resource, name)
        new = merge(copy.deepcopy(old), patch)
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        return self._put(resource, namespace, new, old)

    async def delete(self, resource, namespace, name, *, uid="", propagation="Background", grace=None):
        old = self._get(resource, namespace, name)
        if uid and uid != old["metadata"]["uid"]:
            raise errors.conflict("", resource, name)
        metadata = old["metadata"]
        finalizers = list(metadata.get("finalizers") or [])
        extra = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(propagation)
        if extra and extra not in finalizers and not metadata.get("deletionTimestamp"):
            finalizers.append(extra)
        if resource == "pods" and old["spec"].get("nodeName"):
            grace = 30 if grace is None else grace
        else:
            grace = 0
        if resource == "namespaces" and old["spec"].get("finalizers"):
            old["status"]["phase"] = "Terminating"
            finalizers = finalizers or ["kubernetes"]
            grace = 0
            metadata["deletionTimestamp"] = self.clock.timestamp()
            self._put(resource, namespace, old)
            return
        if not finalizers and not grace:
            self.store.delete(self._key(resource, namespace, name))
            self.writes.append(("delete", resource, name))
            return
        if finalizers:
            metadata["finalizers"] = finalizers
        metadata.setdefault("deletionTimestamp", self.clock.timestamp())
        metadata["deletionGracePeriodSeconds"] = grace
        self._put(resource, namespace, old)

    def _key(self, resource: str, namespace: str, name: str) -> Key:
        plural, _, group = resource.partition(".")
        return Key(group, plural, namespace, name)

    def _get(self, resource: str, namespace: str, name: str) -> Object:
        stored = self.store.get(self._key(resource, namespace, name))
        if stored is None:
            raise errors.not_found("", resource, name)
        return stored.decode()

    def _put(self, resource: str, namespace: str, new: Object, old: Object | None = None) -> Object:
        name = new["metadata"]["name"]
        expected = new["metadata"].get("resourceVersion")
        before = self.store.version
        try:
            self.store.update(
                self._key(resource, namespace, name), new, expected=int(expected) if expected else None
            )
        except VersionConflict:
            raise errors.conflict("", resource, name) from None
        except Missing:
            raise errors.not_found("", resource, name) from None
        if self.store.version != before:
            self.writes.append(("update", resource, name))
        metadata = new["metadata"]
        if (
            metadata.get("deletionTimestamp")
            and not metadata.get("finalizers")
            and not metadata.get("deletionGracePeriodSeconds")
            and resource != "namespaces"
        ):
            self.store.delete(self._key(resource, namespace, name))
        return new


def merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    target = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = merge(target.get(key), value)
    return target
