"""The nodes' part: pods that are scheduled start to run, become ready, end and go."""

from __future__ import annotations

import asyncio
import dataclasses

from devcluster.controllers import pod_status
from devcluster.controllers.addresses import PodAddresses
from devcluster.controllers.behaviour import CRASH, NO_IMAGE, Behaviour, behaviour_of
from devcluster.controllers.client import Object
from devcluster.controllers.controller import Controller, Environment, Name, Routes
from devcluster.controllers.metadata import controller_of
from devcluster.controllers.nodes import NODES, node_address
from devcluster.storage import Change, Key

__all__ = ["Kubelet"]

PODS = ("", "pods")
MARK = b'"nodeName":'
FIRST_RESTART, LAST_RESTART = 10, 300
"""Seconds between attempts of a container that crashes, at first and at most."""
DEFAULT_NETWORK = "10.244.0.0/16"


@dataclasses.dataclass(slots=True)
class _Run:
    """What is remembered of a pod; times are the loop's."""

    uid: str
    since: float
    restart_at: float = 0.0
    ended_by: float = 0.0


class Kubelet(Controller):
    """Plays all nodes. A pod runs and is ready `ready_delay` seconds after it was scheduled."""

    name = "kubelet"

    def __init__(self, environment: Environment, *, ready_delay: float) -> None:
        super().__init__(environment)
        self._ready_delay = ready_delay
        self._runs: dict[Name, _Run] = {}
        self._addresses = PodAddresses()

    def routes(self) -> Routes:
        """Pods that have a node."""
        return {PODS: self._on_pod}

    async def sync(self, key: Name) -> None:
        """One pod."""
        pod = self.view.get(PODS, *key)
        if pod is None or not pod["spec"].get("nodeName"):
            return
        metadata, status = pod["metadata"], pod.get("status") or {}
        if metadata.get("deletionTimestamp"):
            if metadata.get("deletionGracePeriodSeconds") != 0:
                await self.client.delete("pods", *key, uid=metadata["uid"], grace=0)
            return
        if status.get("phase") in {"Succeeded", "Failed"}:
            return
        now = asyncio.get_running_loop().time()
        run = self._runs.get(key)
        if run is None or run.uid != metadata["uid"]:
            run = self._runs[key] = _Run(metadata["uid"], now)
        behaviour = behaviour_of(pod, ready_delay=self._ready_delay)
        remaining = run.since + behaviour.ready_delay - now
        if remaining > 0 and status.get("phase", "Pending") == "Pending":
            self.queue.add_after(key, remaining)
            return
        changed = self._next(pod, run, behaviour, now)
        if changed is not None and changed != status:
            self._locate(pod, changed)
            await self.client.update("pods", key[0], {**pod, "status": changed}, subresource="status")

    def _next(self, pod: Object, run: _Run, behaviour: Behaviour, now: float) -> Object | None:
        """The status it should have by now; None to leave it."""
        text = self.clock.timestamp()
        if behaviour.failure == NO_IMAGE:
            return self._cannot_pull(pod, behaviour, text)
        if behaviour.failure == CRASH:
            return self._crash(pod, run, behaviour, now)
        manager = controller_of(pod)
        to_end = manager is not None and manager["kind"] == "Job"
        if to_end and not behaviour.failure and (pod.get("status") or {}).get("phase") == "Running":
            run.ended_by = run.ended_by or now + behaviour.run_time
            if now >= run.ended_by:
                return pod_status.ended(pod, text, exit_code=0, policy_failed=False)
            self.queue.add_after(_name(pod), run.ended_by - now)
        return pod_status.running(pod, behaviour, text)

    def _crash(self, pod: Object, run: _Run, behaviour: Behaviour, now: float) -> Object | None:
        text, key = self.clock.timestamp(), _name(pod)
        if pod["spec"].get("restartPolicy", "Always") == "Never":
            return pod_status.ended(pod, text, exit_code=1, policy_failed=True)
        if now < run.restart_at:
            self.queue.add_after(key, run.restart_at - now)
            return None
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        restarts = max((each.get("restartCount", 0) for each in statuses), default=0)
        delay = min(FIRST_RESTART * 2**restarts, LAST_RESTART)
        run.restart_at = now + delay
        self.queue.add_after(key, delay)
        container = behaviour.container or pod["spec"]["containers"][0]["name"]
        metadata = pod["metadata"]
        where = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        message = f"Back-off restarting failed container {container} in pod {where}"
        self.events.warning(pod, "BackOff", message, component="kubelet", container=container)
        return pod_status.crashed(pod, behaviour, text, delay=delay)

    def _cannot_pull(self, pod: Object, behaviour: Behaviour, text: str) -> Object:
        changed = pod_status.pulling_failed(pod, behaviour, text)
        if changed != pod.get("status"):
            for each in pod["spec"]["containers"]:
                if behaviour.container in {"", each["name"]}:
                    image = each.get("image", "")
                    missing = f'Failed to pull image "{image}": not found'
                    self.events.warning(pod, "Failed", missing, component="kubelet", container=each["name"])
                    self.events.warning(
                        pod, "Failed", "Error: ErrImagePull", component="kubelet", container=each["name"]
                    )
        return changed

    def _locate(self, pod: Object, status: Object) -> None:
        """Fill in the addresses."""
        node = self.view.get(NODES, "", pod["spec"]["nodeName"]) or {}
        host = node_address(node)
        status.setdefault("hostIP", host)
        status.setdefault("hostIPs", [{"ip": host}])
        if "podIP" in status or status["phase"] == "Pending":
            return
        address = host
        if not pod["spec"].get("hostNetwork"):
            network = (node.get("spec") or {}).get("podCIDR") or DEFAULT_NETWORK
            address = self._addresses.take(Key(*PODS, *_name(pod)), network)
        status |= {"podIP": address, "podIPs": [{"ip": address}]}

    def _on_pod(self, change: Change) -> None:
        if change.new is None:
            self._runs.pop((change.key.namespace, change.key.name), None)
            self._addresses.release(change.key)
        elif MARK in change.new.data:
            if change.old is None:
                # Perhaps there since before a restart.
                pod = change.new.decode()
                address = (pod.get("status") or {}).get("podIP")
                if address and not pod["spec"].get("hostNetwork"):
                    self._addresses.keep(change.key, address)
            self.enqueue(change)


def _name(pod: Object) -> Name:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]
