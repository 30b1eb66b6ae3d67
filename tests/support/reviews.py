"""An API server that answers token reviews and access reviews."""

from __future__ import annotations

import random
from typing import Any

from manager.kube.transport import Transport
from manager.server.access import Access
from manager.telemetry.metrics import Metrics
from tests.support.scripted_wire import Reply, ScriptedWire, Sent

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
RIGHTS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def api_server() -> ScriptedWire:
    """Return a wire (HTTP sender) to a server with two users: `ann` has all rights, and `bob` has none."""
    wire = ScriptedWire()
    serve_reviews(wire)
    return wire


def serve_reviews(wire: ScriptedWire) -> None:
    """Answer token and access reviews; the token `ann-2` also belongs to `ann`."""

    def token(sent: Sent) -> Reply:
        token = sent.json()["spec"]["token"]
        name = token.partition("-")[0]
        extra = {"authentication.kubernetes.io/credential-id": [token]}
        user = {"username": name, "extra": extra}
        return Reply.json({"status": {"authenticated": name in {"ann", "bob"}, "user": user}}, status=201)

    def right(sent: Sent) -> Reply:
        return Reply.json({"status": {"allowed": sent.json()["spec"]["user"] == "ann"}}, status=201)

    wire.on("POST", TOKENS, token)
    wire.on("POST", RIGHTS, right)


def reviewed_rights(wire: ScriptedWire) -> list[Any]:
    """Return the specs of all access reviews that the server received."""
    return [sent.json()["spec"] for sent in wire.sent("POST", RIGHTS)]


def access_by(wire: ScriptedWire) -> Access:
    """Return an `Access` that sends its TokenReviews and SubjectAccessReviews on this wire."""
    transport = Transport(wire, metrics=Metrics(), rng=random.Random(1), user_agent="test")
    return Access(transport, rng=random.Random(1))
