"""Endpoints: the addresses behind a Service, in the older API."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from devcluster.controllers.client import Object
from devcluster.controllers.controller import Name, Routes
from devcluster.controllers.service_targets import (
    SERVICES,
    TRIGGER,
    ServiceFollower,
    Target,
    ports_for,
    targets_of,
    trigger_time,
)
from devcluster.errors import StatusError
from devcluster.storage import Change

__all__ = ["EndpointsController"]

ENDPOINTS = ("", "endpoints")
MANAGED_BY = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
HEADLESS = "service.kubernetes.io/headless"
NOT_FOUND = 404


class EndpointsController(ServiceFollower):
    """The Endpoints controller, which keeps an object for each Service with a selector."""

    name = "endpoint-controller"

    def routes(self) -> Routes:
        """Return the handlers of changes of Services and pods, and of deletions of Endpoints."""
        return {**super().routes(), ENDPOINTS: self._on_endpoints}

    async def sync(self, key: Name) -> None:
        """Reconcile one Service."""
        service, present = self.view.get(SERVICES, *key), self.view.get(ENDPOINTS, *key)
        if service is None:
            if present is not None and MANAGED_BY.items() <= _labels(present).items():
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
        labels = {**_labels(service), **MANAGED_BY}
        if service["spec"].get("clusterIP") == "None":
            labels[HEADLESS] = ""
        if present is not None and (present.get("subsets") or []) == subsets and _labels(present) == labels:
            return
        await self._write(key, present, subsets, labels, trigger_time(service, targets, _uids(present)))

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


def _uids(present: Object | None) -> set[str]:
    subsets = (present or {}).get("subsets") or ()
    return {each["targetRef"]["uid"] for subset in subsets for each in subset.get("addresses") or ()}
