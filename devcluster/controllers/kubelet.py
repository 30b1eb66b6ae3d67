"""The nodes' part: pods that are scheduled start to run, become ready, end and go."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Mapping

from devcluster.controllers import pod_status
from devcluster.controllers.addresses import PodAddresses
from devcluster.controllers.behaviour import (
    is_lost,
    ready_delay_of,
    starved_of,
    stop_time_of,
    unmounted_of,
)
from devcluster.controllers.client import Object
from devcluster.controllers.container_runtime import ContainerRuntime
from devcluster.controllers.container_step import Attempts, ContainerStep
from devcluster.controllers.controller import Controller, Environment, Name, Routes
from devcluster.controllers.images import Image, Running
from devcluster.controllers.nodes import NODES, node_address
from devcluster.errors import StatusError
from devcluster.storage import Change, Key

__all__ = ["Kubelet"]

PODS = ("", "pods")
MARK = b'"nodeName":'
DEFAULT_NETWORK = "10.244.0.0/16"
MOUNT_RETRY, LAST_MOUNT_RETRY = 0.5, 122.0
"""Seconds between attempts to mount a volume, initially and at most."""
DEADLINE = "Pod was active on the node longer than the specified deadline"
STARVED = {
    "memory": ("100Mi", "94208Ki", "98304Ki"),
    "ephemeral-storage": ("4Gi", "4128768Ki", "65536Ki"),
    "inodes": ("327680", "327601", "4711"),
    "pids": ("3276", "3200", "512"),
}
"""For each resource under pressure: the eviction threshold, the available amount, and a container's usage."""


@dataclasses.dataclass(slots=True)
class _Run:
    """The state kept for a pod; times are the event loop's."""

    uid: str
    since: float
    containers: dict[str, Attempts] = dataclasses.field(default_factory=dict)
    stops_since: float | None = None


class Kubelet(Controller):
    """The kubelet of all nodes. It starts a pod `ready_delay` seconds after the pod was scheduled."""

    name = "kubelet"

    def __init__(
        self, environment: Environment, *, ready_delay: float, images: Mapping[str, Image] | None = None
    ) -> None:
        super().__init__(environment)
        self.runtime = ContainerRuntime(self.view, images)
        self._ready_delay = ready_delay
        self._runs: dict[Name, _Run] = {}
        self._addresses = PodAddresses()
        self._lost: set[str] = set()

    def routes(self) -> Routes:
        """Return the handlers of changes of pods with a node, and of nodes."""
        return {PODS: self._on_pod, NODES: self._on_node}

    async def sync(self, key: Name) -> None:
        """Reconcile one pod."""
        pod = self.view.get(PODS, *key)
        if pod is None or pod["spec"].get("nodeName", "") in {"", *self._lost}:
            return
        metadata, status = pod["metadata"], pod.get("status") or {}
        if metadata.get("deletionTimestamp"):
            await self._stop(key, pod)
            return
        if status.get("phase") in pod_status.ENDED:
            return
        now = asyncio.get_running_loop().time()
        run = self._runs.get(key)
        if run is None or run.uid != metadata["uid"]:
            run = self._runs[key] = _Run(metadata["uid"], now)
        changed = self._ended_by_node(pod, run, now)
        if changed is None:
            remaining = run.since + ready_delay_of(pod, self._ready_delay) - now
            if remaining > 0 and status.get("phase", "Pending") == "Pending":
                self.queue.add_after(key, remaining)
                return
            changed = self._without_volume(pod, run, now) or self._next(pod, run, now)
        if changed != status:
            try:
                await self.client.update("pods", key[0], {**pod, "status": changed}, subresource="status")
            except StatusError:
                run.containers.clear()  # the former status has none of the attempts
                raise

    async def _stop(self, key: Name, pod: Object) -> None:
        """Remove a pod once its containers have stopped, at the latest after its grace period."""
        metadata, now = pod["metadata"], asyncio.get_running_loop().time()
        grace = metadata.get("deletionGracePeriodSeconds")
        if not grace:
            return
        run = self._runs.get(key)
        if run is None or run.uid != metadata["uid"]:
            run = self._runs[key] = _Run(metadata["uid"], now)
        if run.stops_since is None:
            run.stops_since = now
            runs = (pod.get("status") or {}).get("phase") == "Running"
            for each in pod["spec"]["containers"] if runs else ():
                text = f"Stopping container {each['name']}"
                self.events.normal(pod, "Killing", text, component="kubelet", container=each["name"])
        remaining = run.stops_since + min(stop_time_of(pod), grace) - now
        if remaining > 0:
            self.queue.add_after(key, remaining)
        else:
            await self.client.delete("pods", *key, uid=metadata["uid"], grace=0)

    def _ended_by_node(self, pod: Object, run: _Run, now: float) -> Object | None:
        """Return the status of a pod that is evicted or out of time, None for any other."""
        starved, seconds = starved_of(pod), pod["spec"].get("activeDeadlineSeconds")
        text = self.clock.timestamp()
        if starved in STARVED:
            message = _eviction_message(pod, starved)
            self.events.warning(pod, "Evicted", message, component="kubelet")
            return pod_status.failed(pod, "Evicted", message, text, disrupted=True)
        if seconds is not None:
            remaining = run.since + seconds - now
            if remaining <= 0:
                self.events.normal(pod, "DeadlineExceeded", DEADLINE, component="kubelet")
                return pod_status.failed(pod, "DeadlineExceeded", DEADLINE, text, disrupted=False)
            self.queue.add_after(_name(pod), remaining)
        return None

    def _without_volume(self, pod: Object, run: _Run, now: float) -> Object | None:
        """Return the status of a pod that waits for a volume, None for any other."""
        asked, volumes = unmounted_of(pod), pod["spec"].get("volumes") or ()
        wanted = [each for each in volumes if asked == "true" or each["name"] == asked]
        status = pod.get("status") or {}
        if not wanted or any(
            "waiting" not in each["state"] for each in status.get("containerStatuses") or ()
        ):
            return None
        attempts = run.containers.setdefault("", Attempts())
        if now >= attempts.due:
            attempts.due = now + min(MOUNT_RETRY * 2**attempts.pulls, LAST_MOUNT_RETRY)
            attempts.pulls += 1
            self.events.warning(pod, "FailedMount", _mount_message(wanted[0]), component="kubelet")
        self.queue.add_after(_name(pod), attempts.due - now)
        waiting = {"waiting": {"reason": "ContainerCreating"}}
        containers = [pod_status.container_status(each, {}, waiting) for each in pod["spec"]["containers"]]
        return pod_status.of_containers(pod, containers, [], self.clock.timestamp())

    def _next(self, pod: Object, run: _Run, now: float) -> Object:
        """Return the status that the pod has by now."""
        status = dict(pod.get("status") or {})
        if "podIP" not in status:
            self._locate(pod, status)
            pod = {**pod, "status": status}
        init, initialized = self._initialize(pod, run, now)
        if not initialized:
            return pod_status.initializing(pod, init, self.clock.timestamp())
        policy = pod["spec"].get("restartPolicy", "Always")
        known = {each["name"]: each for each in status.get("containerStatuses") or ()}
        containers = []
        for each in pod["spec"]["containers"]:
            step = self._step(pod, each, known.get(each["name"], {}), run, now, policy)
            containers.append(step.take(self.runtime.outcome(pod, each)))
        return pod_status.of_containers(pod, containers, init, self.clock.timestamp())

    def _initialize(self, pod: Object, run: _Run, now: float) -> tuple[list[Object], bool]:
        """Return the statuses of the init containers, and whether the others may start."""
        known = {each["name"]: each for each in (pod["status"].get("initContainerStatuses") or ())}
        policy = "Never" if pod["spec"].get("restartPolicy") == "Never" else "OnFailure"
        statuses: list[Object] = []
        goes_on = True
        for each in pod["spec"].get("initContainers") or ():
            former, stays = known.get(each["name"], {}), each.get("restartPolicy") == "Always"
            if not goes_on:
                statuses.append(former or pod_status.container_status(each, {}, pod_status.INITIALIZING))
                continue
            outcome = self.runtime.init_outcome(pod, each)
            if not stays and (isinstance(outcome, Running) or pod_status.has_completed(former)):
                if not pod_status.has_completed(former):
                    text = self.clock.timestamp()
                    ended = pod_status.terminated(0, text, text)
                    former = pod_status.container_status(each, former, ended, ready=True)
                statuses.append(former)
                continue
            step = self._step(pod, each, former, run, now, "Always" if stays else policy)
            statuses.append(step.take(outcome))
            goes_on = stays and "running" in statuses[-1]["state"]
        return statuses, goes_on

    def _step(
        self, pod: Object, container: Object, former: Object, run: _Run, now: float, policy: str
    ) -> ContainerStep:
        return ContainerStep(
            pod,
            container,
            former,
            policy,
            run.containers.setdefault(container["name"], Attempts()),
            now,
            self.clock.timestamp(),
            self.events,
            functools.partial(self.queue.add_after, _name(pod)),
        )

    def _locate(self, pod: Object, status: Object) -> None:
        """Fill in the addresses."""
        node = self.view.get(NODES, "", pod["spec"]["nodeName"]) or {}
        host = node_address(node)
        status.setdefault("hostIP", host)
        status.setdefault("hostIPs", [{"ip": host}])
        address = host
        if not pod["spec"].get("hostNetwork"):
            network = (node.get("spec") or {}).get("podCIDR") or DEFAULT_NETWORK
            address = self._addresses.take(Key(*PODS, *_name(pod)), network)
        status |= {"podIP": address, "podIPs": [{"ip": address}]}

    def _on_node(self, change: Change) -> None:
        name = change.key.name
        if change.new is not None and is_lost(change.new.decode()):
            self._lost.add(name)
        elif name in self._lost:
            self._lost.discard(name)
            for stored in self.view.select(PODS):
                if stored.decode()["spec"].get("nodeName") == name:
                    self.queue.add((stored.key.namespace, stored.key.name))

    def _on_pod(self, change: Change) -> None:
        if change.new is None:
            self._runs.pop((change.key.namespace, change.key.name), None)
            self._addresses.release(change.key)
        elif MARK in change.new.data:
            if change.old is None:
                # The pod may be from before a restart.
                pod = change.new.decode()
                address = (pod.get("status") or {}).get("podIP")
                if address and not pod["spec"].get("hostNetwork"):
                    self._addresses.keep(change.key, address)
            self.enqueue(change)


def _name(pod: Object) -> Name:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _mount_message(volume: Object) -> str:
    cause = "rpc error: code = Internal desc = mount failed: exit status 32"
    for kind, field in (("secret", "secretName"), ("configMap", "name")):
        if kind in volume:
            cause = f'{kind.lower()} "{volume[kind].get(field, "")}" not found'
    return f'MountVolume.SetUp failed for volume "{volume["name"]}" : {cause}'


def _eviction_message(pod: Object, starved: str) -> str:
    threshold, available, usage = STARVED[starved]
    text = (
        f"The node was low on resource: {starved}. Threshold quantity: {threshold}, available: {available}. "
    )
    for container in pod["spec"]["containers"]:
        if starved not in ((container.get("resources") or {}).get("requests") or {}):
            larger = f"has larger consumption of {starved}"
            text += f"Container {container['name']} was using {usage}, request is 0, {larger}. "
    return text
