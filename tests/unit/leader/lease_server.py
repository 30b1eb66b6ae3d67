"""An in-memory API server that knows Leases, with optimistic concurrency and watches.

`LeaseServer` is the state, and answers at once; `serve` routes a ScriptedWire to it, so that a test can put
faults in between:

    server = LeaseServer()
    wire = ScriptedWire()
    server.serve(wire)
    wire.on("PUT", server.path("default", "x"), LostAfter(server.answer), server.answer)

Several wires may be served at once, one for each replica.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import orjson

from tests.support.scripted_wire import Reply, ScriptedWire, Sent, Stream

PREFIX = "/apis/coordination.k8s.io/v1/namespaces/"


class LeaseServer:
    """Leases by path, as an API server keeps them."""

    def __init__(self) -> None:
        self.leases: dict[str, dict[str, Any]] = {}
        self.watchers: list[Callable[[str, dict[str, Any]], None]] = []
        """Called with the type and the object of each change."""
        self._version = 100
        self._uids = 0

    @staticmethod
    def path(namespace: str, name: str = "") -> str:
        """The path of a Lease, or of all in the namespace."""
        return f"{PREFIX}{namespace}/leases" + (f"/{name}" if name else "")

    def serve(self, wire: ScriptedWire) -> None:
        """Answer the wire's requests for Leases."""
        for method in ("GET", "PUT", "POST", "DELETE"):
            wire.on(method, f"{PREFIX}*", self.answer)

    def answer(self, sent: Sent) -> Reply | Stream:
        """Do what a request asks for."""
        if sent.query.get("watch"):
            return self._watch(sent)
        if label := sent.query.get("labelSelector"):
            return Reply.json({"items": [each for each in self.leases.values() if label in _labels(each)]})
        return self.handle(sent.method, sent.path, sent.body)

    def handle(self, method: str, path: str, body: bytes | None = None) -> Reply:
        """Do what a request other than a watch asks for."""
        stored = self.leases.get(path)
        match method:
            case "GET" if stored is not None:
                return Reply.json(stored)
            case "POST":
                return self._create(path, orjson.loads(body or b"{}"))
            case "PUT" if stored is not None:
                return self._replace(path, stored, orjson.loads(body or b"{}"))
            case "DELETE" if stored is not None:
                return self._delete(path, stored["metadata"], orjson.loads(body or b"{}"))
            case "PUT":
                # A Lease may be created by PUT; its UID is what tells that another one was meant.
                return Reply.status(409, "Conflict", "Precondition failed: UID in precondition")
        return Reply.status(404, "NotFound", f"leases {path.rpartition('/')[2]!r} not found")

    def put(self, namespace: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Store a Lease as somebody else would, whatever is there."""
        path = self.path(namespace, name)
        stored = self.leases.get(path)
        metadata = stored["metadata"] if stored is not None else self._new_metadata(namespace, name)
        return self._store("MODIFIED" if stored is not None else "ADDED", path, metadata, spec)

    def delete(self, namespace: str, name: str) -> None:
        """Delete a Lease as somebody else would."""
        self._remove(self.path(namespace, name))

    def _delete(self, path: str, known: dict[str, Any], options: dict[str, Any]) -> Reply:
        for field, value in options.get("preconditions", {}).items():
            if known[field] != value:
                return Reply.status(409, "Conflict", f"Precondition failed: {field} in precondition")
        self._remove(path)
        return Reply.status(200, "", "")

    def _remove(self, path: str) -> None:
        gone = self.leases.pop(path)
        self._version += 1
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._tell("DELETED", gone)

    def spec(self, namespace: str, name: str) -> dict[str, Any]:
        """The spec of a Lease as it is now."""
        spec: dict[str, Any] = self.leases[self.path(namespace, name)]["spec"]
        return spec

    def _create(self, collection: str, body: dict[str, Any]) -> Reply:
        name = body["metadata"]["name"]
        path = f"{collection}/{name}"
        if path in self.leases:
            return Reply.status(409, "AlreadyExists", f"leases {name!r} already exists")
        if body["metadata"].get("resourceVersion"):
            return Reply.status(
                400, "BadRequest", "resourceVersion should not be set on objects to be created"
            )
        metadata = {**body["metadata"], **self._new_metadata(body["metadata"]["namespace"], name)}
        return Reply.json(self._store("ADDED", path, metadata, body["spec"]), status=201)

    def _replace(self, path: str, stored: dict[str, Any], body: dict[str, Any]) -> Reply:
        known, sent = stored["metadata"], body["metadata"]
        if sent.get("resourceVersion", known["resourceVersion"]) != known["resourceVersion"]:
            return Reply.status(
                409, "Conflict", "the object has been modified; please apply your changes to it"
            )
        if sent.get("uid", known["uid"]) != known["uid"]:
            return Reply.status(409, "Conflict", "Precondition failed: UID in precondition")
        if body["spec"] == stored["spec"]:
            return Reply.json(stored)  # a write that changes nothing is none
        return Reply.json(self._store("MODIFIED", path, {**known, **sent}, body["spec"]))

    def _store(self, event: str, path: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {**metadata, "resourceVersion": str(self._version)},
            "spec": copy.deepcopy(spec),
        }
        self.leases[path] = lease
        self._tell(event, lease)
        return lease

    def _new_metadata(self, namespace: str, name: str) -> dict[str, Any]:
        self._uids += 1
        return {"namespace": namespace, "name": name, "uid": f"uid-{self._uids}"}

    def _watch(self, sent: Sent) -> Stream:
        stream = Stream()
        name = sent.query.get("fieldSelector", "").removeprefix("metadata.name=")
        label = sent.query.get("labelSelector")

        def shows(lease: dict[str, Any]) -> bool:
            return label in _labels(lease) if label else lease["metadata"]["name"] == name

        for current in self.leases.values():
            if shows(current):
                stream.event("ADDED", current)

        def follow(kind: str, lease: dict[str, Any]) -> None:
            if stream.closed:
                self.watchers.remove(follow)
            elif shows(lease):
                stream.event(kind, lease)

        self.watchers.append(follow)
        return stream

    def _tell(self, kind: str, lease: dict[str, Any]) -> None:
        for watcher in list(self.watchers):
            watcher(kind, lease)


def _labels(lease: dict[str, Any]) -> dict[str, str]:
    labels: dict[str, str] = lease["metadata"].get("labels", {})
    return labels
