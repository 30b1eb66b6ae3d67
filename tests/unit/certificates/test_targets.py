from __future__ import annotations

from typing import Any

import pytest

from controllers.main import PROGRAM
from devcluster import DevCluster
from manager.certificates.targets import Target
from manager_tools.testing import LocalWire
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.unit.connected import connected


async def test_ca_bundle_write_leaves_other_webhooks_of_the_configuration_unchanged():
    def webhook(name: str, service: str) -> dict[str, Any]:
        config = {"service": {"name": service, "namespace": "ns"}, "caBundle": "b2xk"}
        return {"name": name, "clientConfig": config}

    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/x"
    both = [webhook("theirs.example.com", "theirs"), webhook("ours.kb.io", "ours")]
    wire = ScriptedWire()
    wire.on("GET", path, Reply.json({"webhooks": both}))
    wire.on("PATCH", path, Reply.json({}))
    transport = connected(wire).transport
    target = Target(transport, PROGRAM, "MutatingWebhookConfiguration", "x", [{"name": "ours.kb.io"}])
    found = await target.look()
    assert found.hosts == ("ours.ns.svc", "ours.ns.svc.cluster.local")
    assert found.bundles == (b"old",)
    await target.inject(found, b"new")
    [sent] = wire.sent("PATCH", path)
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
