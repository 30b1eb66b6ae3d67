"""Controllers of Endpoints and EndpointSlices."""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterable

from devcluster.controllers.client import PODS, Object, age_of, ignoring, is_going, owner_reference
from devcluster.controllers.controller import Controller, Environment, Handler, Name, Routes, View
from devcluster.controllers.pod_status import has_ended, is_ready
from devcluster.kinds.conditions import condition_of
from devcluster.storage import Change
from devcluster.storage.selectors import LabelSelector

SERVICES = ("", "services")
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Pod that a Service selects."""

    pod: Object
    ready: bool
    """Whether the pod is ready for traffic, or the Service includes unready pods."""
    serving: bool
    """Whether the pod could take traffic, although it may be terminating."""
    terminating: bool

    @property
    def address(self) -> str:
        address: str = self.pod["status"]["podIP"]
        return address

    def described(self, service: Object) -> Object:
        """Return the pod's fields that are equal in Endpoints and EndpointSlices."""
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        reference = {name: metadata[name] for name in ("namespace", "name", "uid")}
        about: Object = {"targetRef": {"kind": "Pod", **reference}, "nodeName": spec["nodeName"]}
        if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
            about["hostname"] = spec["hostname"]
        return about


class ServiceFollower(Controller):
    """Base class of controllers that reconcile a Service when it or one of its pods changes."""

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
    """Return the pods that the Service selects, and which have an IP address and have not ended."""
    everyone = bool(service["spec"].get("publishNotReadyAddresses"))
    selector = {"matchLabels": service["spec"]["selector"]}
    targets = []
    for stored in view.selected(PODS, service["metadata"]["namespace"], selector):
        pod = stored.decode()
        if (pod.get("status") or {}).get("podIP") and not has_ended(pod):
            serving, terminating = is_ready(pod), is_going(pod)
            targets.append(Target(pod, everyone or (serving and not terminating), serving, terminating))
    return targets


Ports = tuple[tuple[str, int, str, str], ...]


def by_ports(service: Object, targets: list[Target]) -> dict[Ports, list[Target]]:
    """Group the targets by port numbers: those to which the Service's ports resolve on each target."""
    groups: defaultdict[Ports, list[Target]] = defaultdict(list)
    for target in targets:
        groups[tuple(ports_for(service, target.pod))].append(target)
    return groups


def ports_for(service: Object, pod: Object) -> list[tuple[str, int, str, str]]:
    """Return the Service's ports on one pod, as (name, number, protocol, application protocol)."""
    found = []
    for port in service["spec"].get("ports") or ():
        number = _number(port, pod)
        if number is not None:
            found.append(
                (port.get("name", ""), number, port.get("protocol", "TCP"), port.get("appProtocol", ""))
            )
    return found


def trigger_time(service: Object, targets: list[Target], former: set[str]) -> str:
    """Return the last-change-trigger-time: the last change of Ready in targets whose UID is not in `former`.

    Without such a target, return the Service's creation time if `former` is empty, else "".
    """
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


def _port(name: str, number: int, protocol: str, application: str) -> Object:
    port: Object = {"name": name} if name else {}
    port |= {"port": number, "protocol": protocol}
    return {**port, "appProtocol": application} if application else port


SLICES = ("discovery.k8s.io", "endpointslices")
SIZE = 100
MANAGED_BY, MANAGER = "endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"
SERVICE = "kubernetes.io/service-name"
ENDPOINTS = ("", "endpoints")
MIRRORING = "endpointslicemirroring-controller.k8s.io"
SKIP = "endpointslice.kubernetes.io/skip-mirror"
LEADER = "control-plane.alpha.kubernetes.io/leader"
NOT_MIRRORED = {TRIGGER, "kubectl.kubernetes.io/last-applied-configuration"}
"""Annotations of Endpoints that are not copied to their EndpointSlices."""
HEADLESS = "service.kubernetes.io/headless"


def _on_lost_slice(controller: Controller, manager: str) -> Handler:
    """Return a handler that queues the Service of a deleted EndpointSlice that `manager` managed."""

    def handle(change: Change) -> None:
        if change.new is None and change.old is not None and change.old.labels.get(MANAGED_BY) == manager:
            controller.queue.add((change.key.namespace, change.old.labels.get(SERVICE, "")))

    return handle


class EndpointSliceController(ServiceFollower):
    """EndpointSlice controller, which keeps the slices of each Service with a selector."""

    name = "endpointslice-controller"

    def routes(self) -> Routes:
        return {**super().routes(), SLICES: _on_lost_slice(self, MANAGER)}

    async def sync(self, key: Name) -> None:
        service = self.living(SERVICES, key)
        if service is None:
            return
        if not service["spec"].get("selector") or service["spec"].get("type") == "ExternalName":
            return
        present = self.view.owned(SLICES, service["metadata"]["uid"])
        present.sort(key=age_of)
        targets = targets_of(self.view, service)
        known = itertools.chain.from_iterable(each.get("endpoints") or () for each in present)
        order = {uid: place for place, uid in enumerate(_target_uids(known))}
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
                await self.delete(SLICES, slice_)
            elif slice_ is None:
                await self._create(service, wanted, labels, trigger)
            elif _differs(slice_, wanted, labels):
                metadata = {**slice_["metadata"], "labels": labels}
                _set_trigger(metadata, trigger)
                await self.update(SLICES, {**slice_, **wanted, "metadata": metadata})

    async def _create(self, service: Object, wanted: Object, labels: dict[str, str], trigger: str) -> None:
        metadata: Object = {
            "generateName": f"{service['metadata']['name']}-",
            "namespace": service["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(service)],
        }
        _set_trigger(metadata, trigger)
        await self.create(SLICES, {"metadata": metadata, "addressType": "IPv4", **wanted})


class EndpointSliceMirroringController(Controller):
    """EndpointSliceMirroring controller, which copies Endpoints of Services without selector into slices."""

    name = "endpointslicemirroring-controller"
    batch_period = 0.005

    def routes(self) -> Routes:
        return {ENDPOINTS: self.enqueue, SERVICES: self.enqueue, SLICES: _on_lost_slice(self, MIRRORING)}

    async def sync(self, key: Name) -> None:
        service, endpoints = self.view.get(SERVICES, *key), self.view.get(ENDPOINTS, *key)
        mine = {MANAGED_BY: MIRRORING, SERVICE: key[1]}
        stored = [each for each in self.view.select(SLICES, key[0]) if mine.items() <= each.labels.items()]
        present = [each.decode() for each in stored]
        wanted = [] if endpoints is None or not _is_mirrored(service, endpoints) else _mirrored(endpoints)
        for content in wanted:
            assert endpoints is not None
            family = content["addressType"]  # immutable
            slice_ = next((each for each in present if each["addressType"] == family), None)
            about = endpoints["metadata"]
            labels = {**(about.get("labels") or {}), **mine}
            annotations = {
                name: value for name, value in _annotations(endpoints).items() if name not in NOT_MIRRORED
            }
            if slice_ is None:
                metadata = {"generateName": f"{key[1]}-", "namespace": key[0], "labels": labels}
                metadata["ownerReferences"] = [owner_reference(endpoints)]
                if annotations:
                    metadata["annotations"] = annotations
                await self.create(SLICES, {"metadata": metadata, **content})
                continue
            present.remove(slice_)
            if _differs(slice_, content, labels) or annotations != _annotations(slice_):
                metadata = {**slice_["metadata"], "labels": labels, "annotations": annotations}
                await self.update(SLICES, {**slice_, **content, "metadata": metadata})
        for slice_ in present:
            await self.delete(SLICES, slice_)


def _is_mirrored(service: Object | None, endpoints: Object) -> bool:
    metadata = endpoints["metadata"]
    return (
        service is not None
        and not service["spec"].get("selector")
        and (metadata.get("labels") or {}).get(SKIP) != "true"
        and LEADER not in (metadata.get("annotations") or {})
    )


def _mirrored(endpoints: Object) -> list[Object]:
    """Return the content of one slice for each subset and address family of the Endpoints."""
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
    """Return the content of the desired slices; a Service without pods has one empty slice."""
    contents: list[Object] = []
    for ports, members in by_ports(service, targets).items():
        listed = [{"name": "", **_port(*port)} for port in ports]
        for start in range(0, len(members), SIZE):
            part = members[start : start + SIZE]
            contents.append({"endpoints": [_endpoint(each, service) for each in part], "ports": listed})
    return contents or [{"endpoints": None, "ports": None}]


def _endpoint(target: Target, service: Object) -> Object:
    states = {"ready": target.ready, "serving": target.serving, "terminating": target.terminating}
    return {"addresses": [target.address], "conditions": states, **target.described(service)}


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


def _target_uids(endpoints: Iterable[Object]) -> list[str]:
    """Return the UIDs of the endpoints' targets; an endpoint that a client wrote may have none."""
    return [uid for each in endpoints if (uid := (each.get("targetRef") or {}).get("uid"))]


MARK = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}


class EndpointsController(ServiceFollower):
    """The Endpoints controller, which keeps an Endpoints object for each Service with a selector."""

    name = "endpoint-controller"

    def routes(self) -> Routes:
        return {**super().routes(), ENDPOINTS: self._on_endpoints}

    async def sync(self, key: Name) -> None:
        service, present = self.view.get(SERVICES, *key), self.view.get(ENDPOINTS, *key)
        if service is None:
            if present is not None and MARK.items() <= _labels(present).items():
                with ignoring("NotFound"):
                    await self.delete(ENDPOINTS, present)
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
        wanted: Object = present or {"metadata": {"name": key[1], "namespace": key[0], "annotations": {}}}
        wanted["metadata"]["labels"] = labels
        wanted["metadata"].setdefault("annotations", {})
        former = [each for subset in wanted.get("subsets") or () for each in subset.get("addresses") or ()]
        trigger = trigger_time(service, targets, set(_target_uids(former)))
        _set_trigger(wanted["metadata"], trigger)
        wanted["subsets"] = subsets
        await (self.create if present is None else self.update)(ENDPOINTS, wanted)

    def _on_endpoints(self, change: Change) -> None:
        if change.new is None:
            self.enqueue(change)


def _subsets(service: Object, targets: list[Target]) -> list[Object]:
    """Return the subsets of the Endpoints: the targets grouped by their ports."""
    subsets = []
    for ports, members in sorted(by_ports(service, targets).items()):
        subset: Object = {}
        ordered = sorted(members, key=lambda each: (each.address, each.pod["metadata"]["uid"]))
        for field, ready in (("addresses", True), ("notReadyAddresses", False)):
            listed = [
                {"ip": each.address, **each.described(service)} for each in ordered if each.ready is ready
            ]
            if listed:
                subset[field] = listed
        if ports:
            subset["ports"] = [_port(*port) for port in ports]
        subsets.append(subset)
    return subsets


def _labels(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _annotations(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}
