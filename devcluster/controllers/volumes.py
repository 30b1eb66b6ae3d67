"""Controller of claims and volumes: binding, provisioning, protection while in use, deletion."""

from __future__ import annotations

from typing import Any

from devcluster.builtin.checks import value_of
from devcluster.controllers.client import CLAIMS, PODS, Object, Resource, is_going, key_of
from devcluster.controllers.controller import Controller, Name, Routes
from devcluster.controllers.pod_status import has_ended
from devcluster.errors import StatusError
from devcluster.storage import Change
from devcluster.storage.selectors import LabelSelector

VOLUMES = ("", "persistentvolumes")
CLASSES = ("storage.k8s.io", "storageclasses")
CLAIM_PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
COMPLETED = "pv.kubernetes.io/bind-completed"
BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
PROVISIONERS = ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner")
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class VolumeController(Controller):
    """Volume controller; a key names a claim or, if the key's namespace is empty, a volume."""

    name = "persistentvolume-controller"

    def routes(self) -> Routes:
        return {
            CLAIMS: self._on_claim,
            VOLUMES: self.enqueue,
            CLASSES: self._enqueue_unbound,
            PODS: self._on_pod,
        }

    async def sync(self, key: Name) -> None:
        if key[0]:
            claim = self.view.get(CLAIMS, *key)
            if claim is not None:
                await self._sync_claim(claim)
        else:
            volume = self.view.get(VOLUMES, *key)
            if volume is not None:
                await self._sync_volume(volume)

    # Claims

    async def _sync_claim(self, claim: Object) -> None:
        if is_going(claim):
            if not self._is_used(claim):
                await self._unprotect(CLAIMS, claim, CLAIM_PROTECTION)
            return
        name = claim["spec"].get("volumeName")
        volume = self.view.get(VOLUMES, "", name) if name else self._match(claim)
        if name and volume is None:
            if (claim.get("status") or {}).get("phase") == "Bound":
                await self.write_status(CLAIMS, claim, {**claim["status"], "phase": "Lost"})
            return
        if volume is None:
            volume = await self._provision(claim)
        if volume is not None and _claimed_by(volume, claim) in {None, True}:
            await self._bind(claim, volume)

    def _match(self, claim: Object) -> Object | None:
        """Return the volume that is reserved for the claim, or the smallest one that fits, or None."""
        spec = claim["spec"]
        wanted = value_of(spec["resources"]["requests"]["storage"])
        selector = LabelSelector.of(spec["selector"]) if spec.get("selector") else None
        fitting: list[tuple[Any, str, Object]] = []
        for stored in self.view.select(VOLUMES):
            volume = stored.decode()
            claimed = _claimed_by(volume, claim)
            if claimed is False or is_going(volume):
                continue
            offered = volume["spec"]
            size = value_of(offered["capacity"]["storage"])
            if (
                size >= wanted
                and offered.get("storageClassName", "") == spec.get("storageClassName", "")
                and offered.get("volumeMode", "Filesystem") == spec.get("volumeMode", "Filesystem")
                and set(spec["accessModes"]) <= set(offered["accessModes"])
                and (selector is None or selector.matches(stored.labels))
            ):
                fitting.append((0 if claimed else size, stored.key.name, volume))
        return min(fitting, key=lambda each: each[:2])[2] if fitting else None

    async def _provision(self, claim: Object) -> Object | None:
        """Create a volume by the claim's StorageClass; if impossible, record an Event and return None."""
        class_name = claim["spec"].get("storageClassName")
        storage_class = self.view.get(CLASSES, "", class_name) if class_name else None
        if class_name and storage_class is None:
            self.warn(claim, "ProvisioningFailed", f'storageclass.storage.k8s.io "{class_name}" not found')
            return None
        waits = (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
        if waits and not self._is_used(claim):
            text = "waiting for first consumer to be created before binding"
            self.normal(claim, "WaitForFirstConsumer", text)
            return None
        if storage_class is None or storage_class["provisioner"] == NO_PROVISIONER:
            text = "no persistent volumes available for this claim and no storage class is set"
            self.normal(claim, "FailedBinding", text)
            return None
        return await self._create_volume(claim, storage_class)

    async def _create_volume(self, claim: Object, storage_class: Object) -> Object:
        metadata, spec = claim["metadata"], claim["spec"]
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": f"pvc-{metadata['uid']}",
                "annotations": {PROVISIONED_BY: storage_class["provisioner"]},
            },
            "spec": {
                "capacity": dict(spec["resources"]["requests"]),
                "accessModes": list(spec["accessModes"]),
                "hostPath": {"path": f"/var/devcluster/volumes/{metadata['uid']}", "type": ""},
                "claimRef": _reference(claim),
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
                "storageClassName": storage_class["metadata"]["name"],
                "volumeMode": spec.get("volumeMode", "Filesystem"),
            },
        }
        try:
            created = await self.create(VOLUMES, volume)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            return self.view.get(VOLUMES, "", f"pvc-{metadata['uid']}") or volume
        text = f"Successfully provisioned volume {created['metadata']['name']}"
        provisioner = storage_class["provisioner"]
        self.events.record(claim, "Normal", "ProvisioningSucceeded", text, component=provisioner)
        return created

    async def _bind(self, claim: Object, volume: Object) -> None:
        name = volume["metadata"]["name"]
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            if not reference:  # otherwise a user has reserved the volume for the claim
                annotations = {**(volume["metadata"].get("annotations") or {}), BY_CONTROLLER: "yes"}
                volume["metadata"]["annotations"] = annotations
            volume["spec"]["claimRef"] = _reference(claim)
            volume = await self.update(VOLUMES, volume)
        if (volume.get("status") or {}).get("phase") != "Bound":
            volume = await self._set_phase(volume, "Bound")
        metadata = claim["metadata"]
        annotations = dict(metadata.get("annotations") or {})
        if claim["spec"].get("volumeName") != name or COMPLETED not in annotations:
            if not claim["spec"].get("volumeName"):
                annotations[BY_CONTROLLER] = "yes"
            annotations[COMPLETED] = "yes"
            made_by = (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY)
            if made_by:
                annotations |= dict.fromkeys(PROVISIONERS, made_by)
            metadata["annotations"] = annotations
            claim["spec"]["volumeName"] = name
            claim = await self.update(CLAIMS, claim)
        await self._grow(claim, volume)

    async def _grow(self, claim: Object, volume: Object) -> None:
        """Expand the volume to the claim's requested size; write the volume's size to the claim's status."""
        wanted = claim["spec"]["resources"]["requests"]["storage"]
        if value_of(volume["spec"]["capacity"]["storage"]) < value_of(wanted):
            volume["spec"]["capacity"] = {**volume["spec"]["capacity"], "storage": wanted}
            volume = await self.update(VOLUMES, volume)
        status = {
            **(claim.get("status") or {}),
            "phase": "Bound",
            "accessModes": volume["spec"]["accessModes"],
            "capacity": volume["spec"]["capacity"],
        }
        await self.write_status(CLAIMS, claim, status)

    def _is_used(self, claim: Object) -> bool:
        """Return whether a pod that has not ended mounts the claim."""
        namespace, name = key_of(claim)
        mark = b'"' + name.encode() + b'"'
        pods = (each.decode() for each in self.view.select(PODS, namespace) if mark in each.data)
        return any(not has_ended(pod) and name in _claim_names(pod) for pod in pods)

    # Volumes

    async def _sync_volume(self, volume: Object) -> None:
        reference = volume["spec"].get("claimRef")
        claim = self.view.get(CLAIMS, reference["namespace"], reference["name"]) if reference else None
        if claim is not None and not _claimed_by(volume, claim):
            claim = None
        if is_going(volume):
            if claim is None:
                await self._unprotect(VOLUMES, volume, VOLUME_PROTECTION)
        elif not reference or not reference.get("uid"):
            await self._set_phase(volume, "Available")
            self._enqueue_unbound()
        elif claim is None:
            volume = await self._set_phase(volume, "Released")
            if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
                await self.delete(VOLUMES, volume)

    async def _set_phase(self, volume: Object, phase: str) -> Object:
        status = {**(volume.get("status") or {}), "phase": phase}  # the server sets the time
        return await self.write_status(VOLUMES, volume, status)

    async def _unprotect(self, resource: Resource, obj: Object, finalizer: str) -> None:
        metadata = obj["metadata"]
        finalizers = metadata.get("finalizers") or []
        if finalizer in finalizers:
            metadata["finalizers"] = [each for each in finalizers if each != finalizer]
            await self.update(resource, obj)

    # Handlers of changes

    def _on_claim(self, change: Change) -> None:
        self.enqueue(change)
        if change.new is None and change.old is not None:
            name = change.old.decode()["spec"].get("volumeName")
            if name:
                self.queue.add(("", name))

    def _enqueue_unbound(self, _: Change | None = None) -> None:
        for stored in self.view.select(CLAIMS):
            if b'"volumeName"' not in stored.data:
                self.queue.add((stored.key.namespace, stored.key.name))

    def _on_pod(self, change: Change) -> None:
        stored = change.new or change.old
        # A new pod may start a claim's binding; a deleted or ended pod may have been the claim's last user.
        if stored is not None and b'"persistentVolumeClaim"' in stored.data:
            for name in _claim_names(stored.decode()):
                if self.view.stored(CLAIMS, change.key.namespace, name) is not None:
                    self.queue.add((change.key.namespace, name))


def _claim_names(pod: Object) -> set[str]:
    volumes = pod["spec"].get("volumes") or ()
    return {each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each}


def _claimed_by(volume: Object, claim: Object) -> bool | None:
    """Return whether a volume's claimRef names this claim; None if the volume has no claimRef."""
    reference = volume["spec"].get("claimRef")
    if not reference:
        return None
    metadata = claim["metadata"]
    same = reference["name"] == metadata["name"] and reference["namespace"] == metadata["namespace"]
    return same and reference.get("uid") in {None, "", metadata["uid"]}


def _reference(claim: Object) -> Object:
    metadata = claim["metadata"]
    return {
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "apiVersion": "v1",
        "resourceVersion": metadata["resourceVersion"],
    }
