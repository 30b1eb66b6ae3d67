"""The pods and ports behind a Service, as Endpoints and EndpointSlices show them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from devcluster.controllers.client import Object
from devcluster.controllers.controller import Controller, Environment, Routes
from devcluster.controllers.pods import condition_of, is_ready
from devcluster.controllers.view import View
from devcluster.storage import Change
from devcluster.storage.selectors import LabelSelector

__all__ = ["SERVICES", "TRIGGER", "ServiceFollower", "Target", "ports_for", "targets_of", "trigger_time"]

SERVICES = ("", "services")
PODS = ("", "pods")
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
        """Return the handlers of changes of Services and pods."""
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
