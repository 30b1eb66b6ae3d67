"""Endpoints and EndpointSlices of services."""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from devcluster.controllers.client import PODS, Object, owner_reference
from devcluster.controllers.controller import Controller, Environment, Name, Routes, View
from devcluster.controllers.pod_status import is_ready
from devcluster.errors import StatusError
from devcluster.kinds.conditions import condition_of
from devcluster.storage import Change
from devcluster.storage.selectors import LabelSelector

SERVICES = ("", "services")
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A pod behind a Service."""

    pod: Object
    ready: bool
    """Whether the pod is ready for traffic, or the Service includes unready pods."""
    serving: bool
    """Whether the pod could take traffic, although it may be terminating."""
    terminating: bool

    @property
    def address(self) -> str:
        """Return the pod's address."""
        address: str = self.pod["status"]["podIP"]
        return address

    @property
    def reference(self) -> Object:
        """Return the `targetRef` of the pod."""
        metadata = self.pod["metadata"]
        return {
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        }


class ServiceFollower(Controller):
    """A controller over Services that is told of changes of their pods."""

    batch_period = 0.005

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._selectors: dict[tuple[str, str], LabelSelector] = {}

    def routes(self) -> Routes:
        return {SERVICES: self._on_service, PODS: self._on_pod}

    def _on_service(self, change: Change) -> None:
        key = (change.key.namespace, change.key.name)
        self._selectors.pop(key, None)
        if change.new is not None:
            selector = change.new.decode()["spec"].get("selector")
            if selector:
                self._selectors[key] = LabelSelector.equal_to(selector)
        self.queue.add(key)

    def _on_pod(self, change: Change) -> None:
        for stored in self.view.select(SERVICES, change.key.namespace):
            key = (stored.key.namespace, stored.key.name)
            selector = self._selectors.get(key)
            if selector is not None and any(
                pod is not None and selector.matches(pod.labels) for pod in (change.old, change.new)
            ):
                self.queue.add(key)


def targets_of(view: View, service: Object) -> list[Target]:
    """Return the Service's pods that have an address and have not ended."""
    return list(_targets(view, service))


def _targets(view: View, service: Object) -> Iterator[Target]:
    everyone = bool(service["spec"].get("publishNotReadyAddresses"))
    selector = {"matchLabels": service["spec"]["selector"]}
    for stored in view.pods(service["metadata"]["namespace"], selector):
        pod = stored.decode()
        status = pod.get("status") or {}
        if not status.get("podIP") or status.get("phase") in {"Succeeded", "Failed"}:
            continue
        serving, terminating = is_ready(pod), bool(pod["metadata"].get("deletionTimestamp"))
        yield Target(pod, everyone or (serving and not terminating), serving, terminating)


def ports_for(service: Object, pod: Object) -> list[tuple[str, int, str, str]]:
    """Return (name, number, protocol, application protocol) of the Service's ports at a pod."""
    found = []
    for port in service["spec"].get("ports") or ():
        number = _number(port, pod)
        if number is not None:
            found.append(
                (port.get("name", ""), number, port.get("protocol", "TCP"), port.get("appProtocol", ""))
            )
    return found


def trigger_time(service: Object, targets: list[Target], former: set[str]) -> str:
    """Return the time that triggered a change: a new pod's readiness, or the Service's creation."""
    times = [
        condition["lastTransitionTime"]
        for target in targets
        if target.pod["metadata"]["uid"] not in former
        and (condition := condition_of(target.pod, "Ready")) is not None
    ]
    return max(times, default="") or ("" if former else service["metadata"]["creationTimestamp"])


def _number(port: Object, pod: Object) -> int | None:
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    for container in pod["spec"].get("containers") or ():
        for each in container.get("ports") or ():
            if each.get("name") == target and each.get("protocol", "TCP") == port.get("protocol", "TCP"):
                number: int = each["containerPort"]
                return number
    return None


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
        return {**super().routes(), SLICES: self._on_slice}

    async def sync(self, key: Name) -> None:
        service = self.living(SERVICES, key)
        if service is None:
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
        return {ENDPOINTS: self.enqueue, SERVICES: self.enqueue, SLICES: self._on_slice}

    async def sync(self, key: Name) -> None:
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


MARK = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
NOT_FOUND = 404


class EndpointsController(ServiceFollower):
    """The Endpoints controller, which keeps an object for each Service with a selector."""

    name = "endpoint-controller"

    def routes(self) -> Routes:
        return {**super().routes(), ENDPOINTS: self._on_endpoints}

    async def sync(self, key: Name) -> None:
        service, present = self.view.get(SERVICES, *key), self.view.get(ENDPOINTS, *key)
        if service is None:
            if present is not None and MARK.items() <= _labels(present).items():
                try:
                    await self.client.delete("endpoints", *key, uid=present["metadata"]["uid"])
                except StatusError as error:
                    if error.code != NOT_FOUND:
                        raise
            return
        if not service["spec"].get("selector") or service["spec"].get("type") == "ExternalName":
            return
        targets = [each for each in targets_of(self.view, service) if each.ready or not each.terminating]
        subsets = _subsets(service, targets)
        labels = {**_labels(service), **MARK}
        if service["spec"].get("clusterIP") == "None":
            labels[HEADLESS] = ""
        if present is not None and (present.get("subsets") or []) == subsets and _labels(present) == labels:
            return
        await self._write(key, present, subsets, labels, trigger_time(service, targets, _addressed(present)))

    async def _write(
        self, key: Name, present: Object | None, subsets: list[Object], labels: dict[str, str], trigger: str
    ) -> None:
        wanted: Object = present or {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": key[1], "namespace": key[0]},
        }
        annotations = dict(wanted["metadata"].get("annotations") or {})
        annotations.pop(TRIGGER, None)
        if trigger:
            annotations[TRIGGER] = trigger
        wanted["metadata"] |= {"labels": labels, "annotations": annotations}
        wanted["subsets"] = subsets
        if present is None:
            await self.client.create("endpoints", key[0], wanted)
        else:
            await self.client.update("endpoints", key[0], wanted)

    def _on_endpoints(self, change: Change) -> None:
        if change.new is None:
            self.enqueue(change)


def _subsets(service: Object, targets: list[Target]) -> list[Object]:
    """Group the targets by their ports."""
    groups: defaultdict[tuple[Any, ...], list[Target]] = defaultdict(list)
    for target in targets:
        groups[tuple(ports_for(service, target.pod))].append(target)
    subsets = []
    for ports, members in sorted(groups.items()):
        subset: Object = {}
        ordered = sorted(members, key=lambda each: (each.address, each.pod["metadata"]["uid"]))
        for field, ready in (("addresses", True), ("notReadyAddresses", False)):
            addresses = [_address(each, service) for each in ordered if each.ready is ready]
            if addresses:
                subset[field] = addresses
        if ports:
            subset["ports"] = [_port(*port) for port in ports]
        subsets.append(subset)
    return subsets


def _address(target: Target, service: Object) -> Object:
    pod = target.pod
    address: Object = {"ip": target.address}
    if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == service["metadata"]["name"]:
        address["hostname"] = pod["spec"]["hostname"]
    return {**address, "nodeName": pod["spec"]["nodeName"], "targetRef": target.reference}


def _port(name: str, number: int, protocol: str, application: str) -> Object:
    port: Object = {"name": name} if name else {}
    port |= {"port": number, "protocol": protocol}
    return {**port, "appProtocol": application} if application else port


def _labels(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _addressed(present: Object | None) -> set[str]:
    subsets = (present or {}).get("subsets") or ()
    return {each["targetRef"]["uid"] for subset in subsets for each in subset.get("addresses") or ()}
