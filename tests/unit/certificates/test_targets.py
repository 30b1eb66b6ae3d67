from __future__ import annotations

from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from controllers.main import PROGRAM
from devcluster import DevCluster
from manager.certificates.local_registration import take_away
from manager.certificates.targets import Target
from manager.kube.transport import Transport
from manager.webhook import JsonObject
from manager_tools.testing import LocalWire
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.unit.connected import connected

PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/x"


async def test_ca_bundle_write_leaves_other_webhooks_of_the_configuration_unchanged(
    wire: ScriptedWire, transport: Transport
):
    def webhook(name: str, service: str) -> dict[str, Any]:
        config = {"service": {"name": service, "namespace": "ns"}, "caBundle": "b2xk"}
        return {"name": name, "clientConfig": config}

    both = [webhook("theirs.example.com", "theirs"), webhook("ours.kb.io", "ours")]
    wire.on("GET", PATH, Reply.json({"webhooks": both}))
    wire.on("PATCH", PATH, Reply.json({}))
    target = Target(transport, PROGRAM, "MutatingWebhookConfiguration", "x", [{"name": "ours.kb.io"}])
    found = await target.look()
    assert found.hosts == ("ours.ns.svc", "ours.ns.svc.cluster.local")
    assert found.bundles == (b"old",)
    await target.inject(found, b"new")
    [sent] = wire.sent("PATCH", PATH)
    assert {each["path"].split("/")[2] for each in sent.json()} == {"1"}


@pytest.mark.parametrize("field", ["namespaceSelector", "objectSelector"])
async def test_webhook_configuration_counts_as_changed_when_it_has_an_unexpected_selector(field: str):
    rest = {"sideEffects": "None", "admissionReviewVersions": ["v1"]}

    def webhooks(**more: Any) -> list[dict[str, Any]]:
        return [{"name": "v.kb.io", "clientConfig": {"url": "https://a.test/v"}, **rest, **more}]

    kind, selector = "ValidatingWebhookConfiguration", {field: {"matchLabels": {"a": "b"}}}
    made = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "c"}}
    async with DevCluster(port=None, controllers=False) as cluster:
        transport = connected(LocalWire(cluster)).transport
        resource = "validatingwebhookconfigurations.admissionregistration.k8s.io"
        await cluster.client.create(resource, "", {**made, "webhooks": webhooks(**selector)})
        for wanted, intact in ((webhooks(**selector), True), (webhooks(), False)):
            target = Target(transport, PROGRAM, kind, "c", wanted, whole=True)
            assert (await target.look()).intact is intact
        await transport.aclose()


OURS, THEIRS = "https://127.0.0.1:1", "https://127.0.0.1:2"


def at_url(base: str) -> list[JsonObject]:
    return [{"name": "ours.kb.io", "clientConfig": {"url": f"{base}/x"}}]


def local_target(wire: ScriptedWire, name: str = "x") -> Target:
    kind, how = "MutatingWebhookConfiguration", {"whole": True, "until_stopped": True}
    return Target(connected(wire).transport, PROGRAM, kind, name, at_url(OURS), **how)


async def test_removal_of_a_local_registration_skips_unreadable_and_missing_notes(wire: ScriptedWire):
    metadata = {"uid": "u", "resourceVersion": "1"}
    notes = {"first": {f"{PROGRAM.name}/before": "{"}, "second": {}, "x": {f"{PROGRAM.name}/before": "null"}}
    for name, noted in notes.items():
        body = {"metadata": {**metadata, "annotations": noted}, "webhooks": at_url(OURS)}
        wire.on("GET", PATH.replace("/x", f"/{name}"), Reply.json(body))
    wire.on("DELETE", PATH, Reply.json({}))
    with capture_logs() as lines:
        await take_away([local_target(wire, name) for name in notes], OURS)
    assert [(line["log_level"], line["object"]) for line in lines] == [("warning", "first")]
    assert [sent.method for sent in wire.sent("DELETE", PATH)] == ["DELETE"]


@pytest.mark.parametrize(("base", "note"), [(OURS, None), (THEIRS, at_url(THEIRS))])
async def test_local_registration_notes_the_replaced_url_unless_it_is_its_own(
    wire: ScriptedWire, base: str, note: Any
):
    body = {"metadata": {"resourceVersion": "1"}, "webhooks": at_url(base)}
    wire.on("GET", PATH, Reply.json(body))
    wire.on("PATCH", PATH, Reply.json({}))
    target = local_target(wire)
    await target.inject(await target.look(), b"new")
    [sent] = wire.sent("PATCH", PATH)
    [annotations] = [each["value"] for each in sent.json() if each["path"] == "/metadata/annotations"]
    assert orjson.loads(annotations[f"{PROGRAM.name}/before"]) == note
