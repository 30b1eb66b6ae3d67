"""Scripted API server with separate responses to lists, streaming lists and watches of one kind."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

from manager.cache.store import Store
from manager.kube.wire import LONGEST
from tests.support.scripted_wire import Reply, ScriptedWire, Sent, Stall, Step, Stream
from tests.unit.cache.objects import pod

DISCOVERY = Reply.json(
    {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list", "watch"]}]}
)

OF_NAMESPACE = "/api/v1/namespaces/ns/pods"


class PodServer:
    """Server with scripted responses for each type of request; the last response of a type repeats."""

    def __init__(self, wire: ScriptedWire, path: str = "/api/v1/pods") -> None:
        self.wire = wire
        self._path = path
        self._steps: dict[str, deque[Step]] = {sort: deque([Stall()]) for sort in ("stream", "list", "watch")}
        self._steps["check"] = deque([self._agree])
        wire.on("GET", "/api/v1", DISCOVERY)
        for each in dict.fromkeys((path, OF_NAMESPACE)):
            wire.on("GET", each, self._answer)

        self.stores: list[Store] = []
        """Stores whose objects the response to a history check contains, unless a test scripts it."""

    def _agree(self, sent: Sent) -> Step:
        name = sent.query.get("fieldSelector", "").rpartition("metadata.name=")[2]
        held = [
            (each.key.name, each.version) for store in self.stores for each in store if each.key.name == name
        ]
        return page(2_000_000_000, *(held or [("any", 1)]), resume="more")

    def on(self, sort: str, *steps: Step) -> None:
        self._steps[sort] = deque(steps)

    def _answer(self, sent: Sent) -> Step:
        steps = self._steps[sort_of(sent)]
        return steps.popleft() if len(steps) > 1 else steps[0]

    def sent(self, sort: str) -> list[Sent]:
        """Return all received requests of the type `sort`."""
        return [sent for sent in self.wire.sent("GET", self._path) if sort_of(sent) == sort]

    def sorts(self) -> list[str]:
        """Return the type of each received request, in the order of arrival."""
        return [sort_of(sent) for sent in self.wire.sent("GET", self._path)]


def sort_of(sent: Sent) -> str:
    if sent.query.get("limit") == "1":
        return "check"
    if "watch" not in sent.query:
        return "list"
    return "stream" if "sendInitialEvents" in sent.query else "watch"


def page(version: int, *names_and_versions: tuple[str, int], resume: str = "") -> Reply:
    """Return the response to a list request; `resume` is its continue token."""
    items = []
    for name, of_object in names_and_versions:
        item = pod(name, of_object)
        # An API server omits these fields in list items.
        del item["kind"], item["apiVersion"]
        items.append(item)
    metadata = {"resourceVersion": str(version)} | ({"continue": resume} if resume else {})
    return Reply.json({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items or None})


def longer_than_any_object(reply: Reply) -> Reply:
    """Pad the response until it is longer than any single object may be."""
    return replace(reply, body=reply.body + b" " * LONGEST)


def bookmark(version: int, *, ends_list: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    if ends_list:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}


def expired() -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "too old resource version: 1 (5)",
        "reason": "Expired",
        "code": 410,
    }


class Listed(Stream):
    """Streaming list of the given objects; it stays open as a watch unless `ends` is set."""

    def __init__(self, version: int, *names_and_versions: tuple[str, int], ends: bool = False) -> None:
        super().__init__()
        for name, of_object in names_and_versions:
            self.event("ADDED", pod(name, of_object))
        self.event("BOOKMARK", bookmark(version, ends_list=True))
        if ends:
            self.end()
