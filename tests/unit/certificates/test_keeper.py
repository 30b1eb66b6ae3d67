"""What a keeper does when others get in its way."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from devcluster import DevCluster
from manager.certificates.keeper import Keeper
from manager.certificates.store import Material, Snapshot
from manager.certificates.targets import Absent, Found, InstalledConfiguration, WrittenConfiguration
from manager.kube.errors import Invalid
from manager.kube.transport import Transport
from manager.metrics import Metrics
from manager.testing import LocalWire
from tests.support.scripted_wire import Reply, ScriptedWire


class Store:
    def __init__(self) -> None:
        self.material = Material()

    async def read(self) -> Snapshot:
        await asyncio.sleep(0.001)
        return Snapshot(self.material, None)

    async def write(self, material: Material, instead_of: Snapshot) -> None:
        await asyncio.sleep(0.001)
        self.material = material


class Target:
    """One that somebody resets as soon as it is written, or does worse."""

    def __init__(self, *then: Exception) -> None:
        self.injected = 0
        self.looks = 0
        self._then = list(then)
        self._absent = False

    async def look(self) -> Found:
        await asyncio.sleep(0.001)
        self.looks += 1
        if self._absent:
            self._absent = False
            raise Absent("taken away")
        return Found((b"theirs",), ("a.b.svc",), intact=True, body={})

    async def inject(self, found: Found, bundle: bytes) -> None:
        await asyncio.sleep(0.001)
        self.injected += 1
        if self._then:
            error = self._then.pop()
            self._absent = isinstance(error, Invalid)
            raise error


async def a_minute_of(target: Target) -> None:
    keeping = asyncio.create_task(Keeper(Store(), [target], names=["a.b.svc"], authority="test").run())
    await asyncio.wait([keeping], timeout=60)
    assert not keeping.done(), keeping.exception()
    keeping.cancel()
    await asyncio.wait([keeping])


@pytest.mark.virtual_time
async def test_somebody_who_resets_a_bundle_at_once_is_not_outrun() -> None:
    target = Target()
    await a_minute_of(target)
    assert 20 < target.injected < 60


@pytest.mark.virtual_time
async def test_a_target_that_goes_while_it_is_written_is_no_failure() -> None:
    target = Target(Invalid(422, "Invalid", "the test of the patch failed"))
    await a_minute_of(target)
    assert target.looks > target.injected > 1


@pytest.mark.virtual_time
async def test_a_fault_of_ours_is_told_and_ends_nothing() -> None:
    target = Target(KeyError("webhooks"))
    await a_minute_of(target)
    assert target.injected > 1


async def test_webhooks_of_others_in_the_same_configuration_are_left_alone() -> None:
    def webhook(name: str, service: str) -> dict[str, Any]:
        config = {"service": {"name": service, "namespace": "ns"}, "caBundle": "b2xk"}
        return {"name": name, "clientConfig": config}

    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/x"
    both = [webhook("theirs.example.com", "theirs"), webhook("ours.kb.io", "ours")]
    wire = ScriptedWire()
    wire.on("GET", path, Reply.json({"webhooks": both}))
    wire.on("PATCH", path, Reply.json({}))
    transport = Transport(wire, metrics=Metrics(), rng=random.Random(1), user_agent="test")
    target = InstalledConfiguration(
        transport, "MutatingWebhookConfiguration", "x", ["ours.kb.io"], field_manager="test"
    )
    found = await target.look()
    assert found.hosts == ("ours.ns.svc", "ours.ns.svc.cluster.local")
    assert found.bundles == (b"old",)
    await target.inject(found, b"new")
    [sent] = wire.sent("PATCH", path)
    assert {each["path"].split("/")[2] for each in sent.json()} == {"1"}


@pytest.mark.parametrize("field", ["namespaceSelector", "objectSelector"])
async def test_a_configuration_that_leaves_out_what_it_should_not_is_written_anew(field: str):
    def configuration(**more: Any) -> dict[str, Any]:
        webhook = {"name": "v.kb.io", "clientConfig": {"url": "https://a.test/v"}, **more}
        return {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "c"}, "webhooks": [webhook]}

    async with DevCluster(port=None, controllers=False) as cluster:
        wire = LocalWire(cluster)
        transport = Transport(wire, metrics=Metrics(), rng=random.Random(1), user_agent="test")
        rest = {"sideEffects": "None", "admissionReviewVersions": ["v1"]}
        narrow = {**rest, field: {"matchLabels": {"a": "b"}}}
        made = {**configuration(**narrow), "apiVersion": "admissionregistration.k8s.io/v1"}
        await cluster.client.create("validatingwebhookconfigurations.admissionregistration.k8s.io", "", made)
        for wanted, intact in ((narrow, True), (rest, False)):
            target = WrittenConfiguration(transport, configuration(**wanted), field_manager="test")
            assert (await target.look()).intact is intact
        await wire.aclose()
