"""An API server with one definition and its objects, in memory, behind a scripted wire."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from tests.support.scripted_wire import Reply, ScriptedWire, Sent, Step

NAME = "gadgets.test.example.com"
DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
POSITION = "operator-manager/storage-migration"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
GADGETS = "/apis/test.example.com/v1beta1/gadgets"


def gadget_path(name: str, *, version: str = "v1beta1", subresource: str = "/status") -> str:
    return f"/apis/test.example.com/{version}/namespaces/default/gadgets/{name}{subresource}"


class GadgetServer:
    """Stores gadgets by name, each as (version it is stored in, resourceVersion)."""

    def __init__(self, wire: ScriptedWire, *, count: int = 0) -> None:
        self.wire = wire
        self.uid, self.generation, self.version = "uid-1", 2, 1000
        self.storage, self.served = "v1beta1", ["v1alpha1", "v1beta1"]
        self.stored_versions = ["v1alpha1", "v1beta1"]
        self.status_apart = True
        self.annotations: dict[str, str] = {}
        self.gadgets = {f"g{number:04}": ["v1alpha1", number + 1] for number in range(count)}
        self.oldest_token = 0
        """Tokens of a lower resourceVersion are too old."""
        self.denied: set[tuple[str, str, str]] = set()
        """(verb, resource, subresource) that nobody may."""
        self.before: Callable[[Sent], Step | None] = lambda sent: None
        """Looks at each request first; what it returns is the answer."""
        for method in ("GET", "PATCH", "POST"):
            wire.on(method, "/*", self._answer)

    def position(self) -> dict[str, Any] | None:
        text = self.annotations.get(POSITION)
        return None if text is None else json.loads(text)

    def in_version(self, version: str) -> int:
        return sum(stored == version for stored, _ in self.gadgets.values())

    def patches(self) -> list[str]:
        """The names of the gadgets that were patched, in order."""
        return [each.path.split("/")[7] for each in self.wire.sent("PATCH", "/apis/test.example.com/*")]

    def lists(self) -> list[str]:
        """What each list was continued with."""
        return [each.query.get("continue", "") for each in self.wire.sent("GET", GADGETS)]

    def change_definition(self, **fields: Any) -> None:
        """Give it another spec."""
        for name, value in fields.items():
            setattr(self, name, value)
        self.generation += 1
        self.version += 1

    def _answer(self, sent: Sent) -> Step:
        if (step := self.before(sent)) is not None:
            return step
        if sent.path == REVIEWS:
            return self._review(sent.json()["spec"]["resourceAttributes"])
        if sent.path.startswith(DEFINITION):
            return self._definition(sent)
        if sent.method == "GET":
            return self._list(sent)
        return self._gadget(sent)

    def _review(self, asked: dict[str, str]) -> Reply:
        denied = (asked["verb"], asked["resource"], asked["subresource"]) in self.denied
        return Reply.json({"kind": "SelfSubjectAccessReview", "status": {"allowed": not denied}}, status=201)

    def _definition(self, sent: Sent) -> Reply:
        if sent.method == "PATCH":
            body = sent.json()
            wanted = body["metadata"]
            if wanted.get("uid", self.uid) != self.uid:
                return Reply.status(409, "Conflict", "Precondition failed: UID")
            if wanted.get("resourceVersion", str(self.version)) != str(self.version):
                return Reply.status(409, "Conflict", "the object has been modified")
            if sent.path.endswith("/status"):
                self.stored_versions = body["status"]["storedVersions"]
            else:
                for name, value in wanted["annotations"].items():
                    self.annotations.pop(name, None)
                    if value is not None:
                        self.annotations[name] = value
            self.version += 1
        return Reply.json(self.definition())

    def definition(self) -> dict[str, Any]:
        status = {"subresources": {"status": {}}} if self.status_apart else {}
        return {
            "metadata": {
                "name": NAME,
                "uid": self.uid,
                "generation": self.generation,
                "resourceVersion": str(self.version),
                "annotations": dict(self.annotations),
            },
            "spec": {
                "group": "test.example.com",
                "names": {"kind": "Gadget", "plural": "gadgets"},
                "scope": "Namespaced",
                "versions": [
                    {"name": each, "served": each in self.served, "storage": each == self.storage, **status}
                    for each in ("v1alpha1", "v1beta1")
                ],
            },
            "status": {"storedVersions": list(self.stored_versions)},
        }

    def _list(self, sent: Sent) -> Reply:
        after, limit = "", int(sent.query["limit"])
        if token := sent.query.get("continue"):
            try:
                found = json.loads(base64.b64decode(token))
            except ValueError:
                return Reply.status(400, "BadRequest", "invalid continue token")
            after = found["after"]
            if -1 < found["version"] < self.oldest_token:
                return self._expired(after)
        selected = sent.query.get("fieldSelector", "").removeprefix("metadata.name=")
        names = sorted(name for name in self.gadgets if name > after and selected in {"", name})
        metadata: dict[str, Any] = {"resourceVersion": str(self.version)}
        if len(names) > limit:
            metadata["continue"] = token_for(names[limit - 1], self.version)
            metadata["remainingItemCount"] = len(names) - limit
        items = [
            {
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "uid": f"uid-of-{name}",
                    "resourceVersion": str(self.gadgets[name][1]),
                }
            }
            for name in names[:limit]
        ]
        return Reply.json({"kind": "PartialObjectMetadataList", "metadata": metadata, "items": items})

    def _expired(self, after: str) -> Reply:
        value = {
            "kind": "Status",
            "metadata": {"continue": token_for(after, -1)},
            "code": 410,
            "reason": "Expired",
            "message": "The provided continue parameter is too old",
        }
        return Reply.json(value, status=410)

    def _gadget(self, sent: Sent) -> Reply:
        _, _, group, version, *_, name = sent.path.removesuffix("/status").split("/")
        if name not in self.gadgets:
            return Reply.status(404, "NotFound", f'gadgets "{name}" not found')
        assert sent.json() == {
            "apiVersion": f"{group}/{version}",
            "kind": "Gadget",
            "metadata": {"name": name, "uid": f"uid-of-{name}"},
        }
        gadget = self.gadgets[name]
        if gadget[0] != self.storage and "dryRun" not in sent.query:
            self.version += 1
            gadget[:] = [self.storage, self.version]
        return Reply.json({"kind": "PartialObjectMetadata", "metadata": {"resourceVersion": str(gadget[1])}})


def token_for(after: str, version: int) -> str:
    return base64.b64encode(json.dumps({"after": after, "version": version}).encode()).decode()
