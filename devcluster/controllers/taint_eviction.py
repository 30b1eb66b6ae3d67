"""NoExecute taints: they evict the pods of a node that do not tolerate them, at once or after a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from devcluster.controllers.client import Object
from devcluster.controllers.controller import Controller, Environment, Name, Routes
from devcluster.controllers.nodes import NODES
from devcluster.controllers.placement import tolerates
from devcluster.controllers.pods import disrupt
from devcluster.storage import Change

__all__ = ["TaintEvictionController"]

PODS = ("", "pods")
MARK = b'"NoExecute"'


class TaintEvictionController(Controller):
    """The taint eviction controller; its keys are pods."""

    name = "taint-eviction-controller"

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._tainted: set[str] = set()
        self._since: dict[Name, float] = {}
        """When a pod's node was first seen with the taints; times are the event loop's."""

    def routes(self) -> Routes:
        """Return the handlers of changes of nodes and pods."""
        return {NODES: self._on_node, PODS: self._on_pod}

    async def sync(self, key: Name) -> None:
        """Evict one pod, or wait for as long as it tolerates the taints of its node."""
        pod = self.view.get(PODS, *key)
        node = None if pod is None else self.view.get(NODES, "", pod["spec"].get("nodeName", ""))
        taints = [
            each
            for each in ((node or {}).get("spec") or {}).get("taints") or ()
            if each["effect"] == "NoExecute"
        ]
        if pod is None or not taints or pod["metadata"].get("deletionTimestamp"):
            self._since.pop(key, None)
            return
        now = asyncio.get_running_loop().time()
        start = self._since.setdefault(key, now)
        seconds = _tolerated_seconds(pod["spec"].get("tolerations") or (), taints)
        if seconds is None:
            return
        if start + seconds > now:
            self.queue.add_after(key, start + seconds - now)
            return
        message = "Taint manager: deleting due to NoExecute taint"
        await disrupt(self.client, pod, "DeletionByTaintManager", message, self.clock.timestamp())
        named = {"name": key[1], "namespace": key[0], "uid": "", "resourceVersion": ""}
        about = {"kind": "Pod", "apiVersion": "v1", "metadata": named}
        text = f"Marking for deletion Pod {key[0]}/{key[1]}"
        self.events.normal(about, "TaintManagerEviction", text, component=self.name)

    def _on_node(self, change: Change) -> None:
        name, new = change.key.name, change.new
        if new is not None and MARK in new.data:
            self._tainted.add(name)
        elif name in self._tainted:
            self._tainted.discard(name)
        else:
            return
        mark = f'"nodeName":"{name}"'.encode()
        for stored in self.view.select(PODS):
            if mark in stored.data:
                self.queue.add((stored.key.namespace, stored.key.name))

    def _on_pod(self, change: Change) -> None:
        key = (change.key.namespace, change.key.name)
        if change.new is None:
            self._since.pop(key, None)
        elif any(f'"nodeName":"{name}"'.encode() in change.new.data for name in self._tainted):
            self.queue.add(key)


def _tolerated_seconds(tolerations: Sequence[Object], taints: Sequence[Object]) -> float | None:
    """Return how long a pod may stay; None for ever."""
    used = []
    for taint in taints:
        matching = [each for each in tolerations if tolerates(each, taint)]
        if not matching:
            return 0.0
        used += matching
    limits = [each["tolerationSeconds"] for each in used if each.get("tolerationSeconds") is not None]
    return max(float(min(limits)), 0.0) if limits else None
