"""EndpointSlices: the addresses behind a Service, a hundred to a slice."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

from devcluster.controllers.client import Object
from devcluster.controllers.controller import Controller, Name, Routes
from devcluster.controllers.metadata import owner_reference
from devcluster.controllers.service_targets import (
    SERVICES,
    TRIGGER,
    ServiceFollower,
    Target,
    ports_for,
    targets_of,
    trigger_time,
)
from devcluster.storage import Change

__all__ = ["EndpointSliceController", "EndpointSliceMirroringController"]

SLICES = ("discovery.k8s.io", "endpointslices")
RESOURCE = "endpointslices.discovery.k8s.io"
SIZE = 100
MANAGED_BY, MANAGER = "endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"
SERVICE = "kubernetes.io/service-name"
ENDPOINTS = ("", "endpoints")
MIRRORING = "endpointslicemirroring-controller.k8s.io"
SKIP = "endpointslice.kubernetes.io/skip-mirror"
LEADER = "control-plane.alpha.kubernetes.io/leader"
NOT_MIRRORED = {TRIGGER, "kubectl.kubernetes.io/last-applied-configuration"}
"""Annotations of Endpoints that their slices do not get."""
HEADLESS = "service.kubernetes.io/headless"


class EndpointSliceController(ServiceFollower):
    """The EndpointSlice controller, which keeps the slices of each Service with a selector."""

    name = "endpointslice-controller"

    def routes(self) -> Routes:
        """Return the handlers of changes of Services and pods, and of deletions of slices."""
        return {**super().routes(), SLICES: self._on_slice}

    async def sync(self, key: Name) -> None:
        """Reconcile one Service; garbage collection removes the slices of a deleted one."""
        service = self.view.get(SERVICES, *key)
        if service is None or service["metadata"].get("deletionTimestamp"):
            return
        if not service["spec"].get("selector") or service["spec"].get("type") == "ExternalName":
            return
        present = self.view.owned(SLICES, service["metadata"]["uid"])
        present.sort(key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))
        targets = targets_of(self.view, service)
        order = {uid: place for place, uid in enumerate(_uids(present))}
        trigger = trigger_time(service, targets, set(order))
        targets.sort(key=lambda each: order.get(each.pod["metadata"]["uid"], len(order)))
        labels = {
            **(service["metadata"].get("labels") or {}),
            MANAGED_BY: MANAGER,
            SERVICE: key[1],
        }
        if service["spec"].get("clusterIP") == "None":
            labels[HEADLESS] = ""
        for wanted, slice_ in itertools.zip_longest(_contents(service, targets), present):
            if wanted is None:
                metadata = slice_["metadata"]
                await self.client.delete(RESOURCE, key[0], metadata["name"], uid=metadata["uid"])
            elif slice_ is None:
                await self._create(service, wanted, labels, trigger)
            elif _differs(slice_, wanted, labels):
                metadata = {**slice_["metadata"], "labels": labels}
                _set_trigger(metadata, trigger)
                await self.client.update(RESOURCE, key[0], {**slice_, **wanted, "metadata": metadata})

    async def _create(self, service: Object, wanted: Object, labels: dict[str, str], trigger: str) -> None:
        metadata = service["metadata"]
        new: Object = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "generateName": f"{metadata['name']}-",
                "namespace": metadata["namespace"],
                "labels": labels,
                "ownerReferences": [owner_reference(service)],
            },
            "addressType": "IPv4",
            **wanted,
        }
        _set_trigger(new["metadata"], trigger)
        await self.client.create(RESOURCE, metadata["namespace"], new)

    def _on_slice(self, change: Change) -> None:
        if change.new is None and change.old is not None and change.old.labels.get(MANAGED_BY) == MANAGER:
            self.queue.add((change.key.namespace, change.old.labels.get(SERVICE, "")))


class EndpointSliceMirroringController(Controller):
    """The controller that copies the Endpoints of Services without a selector into slices."""

    name = "endpointslicemirroring-controller"
    batch_period = 0.005

    def routes(self) -> Routes:
        """Return the handlers of changes of Endpoints and Services, and of deletions of mirrored slices."""
        return {ENDPOINTS: self.enqueue, SERVICES: self.enqueue, SLICES: self._on_slice}

    async def sync(self, key: Name) -> None:
        """Reconcile the slices of one Endpoints object."""
        service, endpoints = self.view.get(SERVICES, *key), self.view.get(ENDPOINTS, *key)
        mine = {MANAGED_BY: MIRRORING, SERVICE: key[1]}
        stored = [each for each in self.view.select(SLICES, key[0]) if mine.items() <= each.labels.items()]
        present = [each.decode() for each in stored]
        wanted = [] if endpoints is None or not _is_mirrored(service, endpoints) else _mirrored(endpoints)
        for content, slice_ in itertools.zip_longest(wanted, present):
            if content is None:
                name, uid = slice_["metadata"]["name"], slice_["metadata"]["uid"]
                await self.client.delete(RESOURCE, key[0], name, uid=uid)
                continue
            assert endpoints is not None
            about = endpoints["metadata"]
            labels = {**(about.get("labels") or {}), **mine}
            annotations = {
                name: value
                for name, value in (about.get("annotations") or {}).items()
                if name not in NOT_MIRRORED
            }
            if slice_ is None:
                metadata = {"generateName": f"{key[1]}-", "namespace": key[0], "labels": labels}
                metadata["ownerReferences"] = [owner_reference(endpoints)]
                new: Object = {"metadata": metadata, **content}
                if annotations:
                    metadata["annotations"] = annotations
                await self.client.create(RESOURCE, key[0], new)
            elif _differs(slice_, content, labels):
                changed = {**slice_, **content, "metadata": {**slice_["metadata"], "labels": labels}}
                await self.client.update(RESOURCE, key[0], changed)

    def _on_slice(self, change: Change) -> None:
        if change.new is None and change.old is not None and change.old.labels.get(MANAGED_BY) == MIRRORING:
            self.queue.add((change.key.namespace, change.old.labels.get(SERVICE, "")))


def _is_mirrored(service: Object | None, endpoints: Object) -> bool:
    metadata = endpoints["metadata"]
    return (
        service is not None
        and not service["spec"].get("selector")
        and (metadata.get("labels") or {}).get(SKIP) != "true"
        and LEADER not in (metadata.get("annotations") or {})
    )


def _mirrored(endpoints: Object) -> list[Object]:
    """Return the content of a slice for each subset and family of addresses."""
    contents: list[Object] = []
    for subset in endpoints.get("subsets") or ():
        families: defaultdict[str, list[Object]] = defaultdict(list)
        for field, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in subset.get(field) or ():
                kept = {
                    name: address[name] for name in ("hostname", "nodeName", "targetRef") if name in address
                }
                endpoint = {"addresses": [address["ip"]], "conditions": {"ready": ready}, **kept}
                families["IPv6" if ":" in address["ip"] else "IPv4"].append(endpoint)
        ports = [{"name": "", **each} for each in subset.get("ports") or ()]
        contents += [
            {"addressType": family, "endpoints": listed, "ports": ports}
            for family, listed in families.items()
        ]
    return contents


def _contents(service: Object, targets: list[Target]) -> list[Object]:
    """Return the desired slices: one empty slice for a Service without pods."""
    groups: defaultdict[tuple[Any, ...], list[Target]] = defaultdict(list)
    for target in targets:
        groups[tuple(ports_for(service, target.pod))].append(target)
    contents: list[Object] = []
    for ports, members in groups.items():
        listed = [
            {"name": name, "port": number, "protocol": protocol} | ({"appProtocol": known} if known else {})
            for name, number, protocol, known in ports
        ]
        for start in range(0, len(members), SIZE):
            part = members[start : start + SIZE]
            contents.append({"endpoints": [_endpoint(each, service) for each in part], "ports": listed})
    return contents or [{"endpoints": None, "ports": None}]


def _endpoint(target: Target, service: Object) -> Object:
    pod = target.pod
    endpoint: Object = {
        "addresses": [target.address],
        "conditions": {
            "ready": target.ready,
            "serving": target.serving,
            "terminating": target.terminating,
        },
    }
    if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == service["metadata"]["name"]:
        endpoint["hostname"] = pod["spec"]["hostname"]
    return {**endpoint, "targetRef": target.reference, "nodeName": pod["spec"]["nodeName"]}


def _differs(present: Object, wanted: Object, labels: dict[str, str]) -> bool:
    return (
        (present.get("endpoints") or None) != (wanted["endpoints"] or None)
        or (present.get("ports") or None) != (wanted["ports"] or None)
        or present["metadata"].get("labels") != labels
    )


def _set_trigger(metadata: Object, trigger: str) -> None:
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(TRIGGER, None)
    if trigger:
        annotations[TRIGGER] = trigger
    if annotations or "annotations" in metadata:
        metadata["annotations"] = annotations


def _uids(present: list[Object]) -> list[str]:
    return [
        endpoint["targetRef"]["uid"]
        for slice_ in present
        for endpoint in slice_.get("endpoints") or ()
        if "targetRef" in endpoint
    ]
