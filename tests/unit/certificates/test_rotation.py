"""Moments at which the certificate rotator writes; simulations cover failures."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from manager.certificates.rotation import CertificateRotator, Lifetimes
from manager.certificates.store import Material, Snapshot
from manager.certificates.targets import Absent, Found
from manager.kube.errors import AlreadyExists, Invalid
from manager.tls.certificate import Certificate, certificates_in, new_authority
from manager.util import clock
from tests.unit.cache.objects import running

pytestmark = pytest.mark.virtual_time

LIFETIMES = Lifetimes(
    authority=timedelta(hours=1),
    serving=timedelta(minutes=15),
    settle=timedelta(seconds=15),
    retire=timedelta(minutes=2),
)


class Target:
    """Rotation target whose first writes raise `fails`; with `forgets`, no write stores the CA bundle."""

    def __init__(
        self, name: str, written: Callable[[str], None], *fails: Exception, forgets: bool = False
    ) -> None:
        self._name, self._written, self._fails, self._forgets = name, written, list(fails), forgets
        self.bundle = b""
        self.hosts = ("svc.ns.svc",)
        self.installed = True

    def __str__(self) -> str:
        return self._name

    async def look(self) -> Found:
        await asyncio.sleep(0.001)
        if not self.installed:
            raise Absent(f"{self} is not installed")
        return Found((self.bundle,), self.hosts, intact=True, body={})

    async def inject(self, found: Found, bundle: bytes) -> None:
        await asyncio.sleep(0.001)
        self._written(str(self))
        if self._fails:
            error = self._fails.pop()
            if isinstance(error, Invalid):
                self.installed = False
                asyncio.get_running_loop().call_later(5, setattr, self, "installed", True)
            raise error
        if not self._forgets:
            self.bundle = bundle


class Scene:
    """Certificate store with rotation targets."""

    def __init__(self, *fails: Exception, forgets: bool = False) -> None:
        self.material = Material()
        self.writes: list[str] = []
        self.targets = [
            Target(name, self.writes.append, *fails, forgets=forgets) for name in ("mutating", "pets")
        ]

    async def read(self) -> Snapshot:
        await asyncio.sleep(0.001)
        return Snapshot(self.material, None)

    async def write(self, material: Material, instead_of: Snapshot) -> None:
        await asyncio.sleep(0.001)
        self.writes.append("store")
        self.material = material

    @asynccontextmanager
    async def led(self) -> AsyncIterator[None]:
        """Run the rotator as the leader does; yield after a minute."""
        rotator = CertificateRotator(
            self, self.targets, names=["unused.ns.svc"], authority="test", lifetimes=LIFETIMES
        )
        async with running(rotator):
            await asyncio.sleep(60)
            yield

    @property
    def served(self) -> Certificate:
        """Return the served certificate; assert that every target trusts only its CA."""
        [served] = certificates_in(self.material.certificate)
        for target in self.targets:
            [authority] = certificates_in(target.bundle)
            assert served.vouched_for_by(authority)
        return served


async def test_certificate_rotator_writes_only_when_a_renewal_is_due():
    scene = Scene()
    async with scene.led():
        assert scene.writes == ["store", "store", "mutating", "pets"]
        first = scene.served
        await asyncio.sleep(LIFETIMES.serving.total_seconds() * 0.6 - 60)
        assert len(scene.writes) == 4
        await asyncio.sleep(LIFETIMES.serving.total_seconds() * 0.1)
        assert scene.writes[4:] == ["store"]
        assert scene.served.since > first.since


async def test_rotator_renews_certificate_when_service_name_changes():
    scene = Scene()
    async with scene.led():
        first = scene.served
        scene.targets[1].hosts = ("other.ns.svc",)
        await asyncio.sleep(30)
        assert scene.served != first
        assert scene.served.names >= {"svc.ns.svc", "other.ns.svc"}
        # A missing webhook configuration causes no certificate with other names.
        before = len(scene.writes)
        for target in scene.targets:
            target.installed = False
        await asyncio.sleep(60)
        assert len(scene.writes) == before


async def test_rotator_keeps_certificates_trusted_by_every_target_while_the_ca_is_replaced():
    scene = Scene()
    served, bundles = deque[Certificate](maxlen=20), deque[bytes](maxlen=6)
    async with scene.led():
        first = scene.served
        for _ in range(int(LIFETIMES.authority.total_seconds() / 3)):
            await asyncio.sleep(3)
            [now] = certificates_in(scene.material.certificate)
            served.append(now)
            bundles += (target.bundle for target in scene.targets)
            # API servers see a new bundle after some seconds, and replicas see a new certificate.
            for certificate, bundle in {
                *((now, each) for each in bundles),
                *((each, target.bundle) for each in served for target in scene.targets),
            }:
                assert any(certificate.vouched_for_by(each) for each in certificates_in(bundle))
        [authority] = certificates_in(scene.targets[0].bundle)
        assert not first.vouched_for_by(authority)


async def test_rotator_writes_bundles_that_keep_the_old_ca_when_another_program_replaces_the_stored_ca(
    monkeypatch: pytest.MonkeyPatch,
):
    scene, trusted, inject = Scene(), list[bool](), Target.inject

    async def checked(self: Target, found: Found, bundle: bytes) -> None:
        await inject(self, found, bundle)
        [served] = certificates_in(scene.material.certificate)
        trusted.append(any(map(served.vouched_for_by, certificates_in(bundle))))

    async with scene.led():
        monkeypatch.setattr(Target, "inject", checked)
        other = new_authority("another", clock.now(), LIFETIMES.authority)
        scene.material = replace(scene.material, bundle=other.certificate, authority_keys=other.key)
        await asyncio.sleep(60)
        [served] = certificates_in(scene.material.certificate)
        assert served.vouched_for_by(certificates_in(other.certificate)[0])
    assert trusted == [True, True]


async def test_started_rotator_issues_new_certificate_when_certificate_and_ca_have_expired():
    scene = Scene()
    async with scene.led():
        first = scene.served
    await asyncio.sleep(10 * LIFETIMES.authority.total_seconds())
    async with scene.led():
        assert scene.served.since > first.until


async def test_rotator_limits_its_writes_when_another_program_resets_each_ca_bundle():
    scene = Scene(forgets=True)
    async with scene.led():
        assert 20 < len(scene.writes) < 60


@pytest.mark.parametrize("fault", [Invalid(422, "Invalid", "the test of the patch failed"), KeyError("x")])
async def test_rotator_retries_a_failed_ca_bundle_write(fault: Exception):
    scene = Scene(fault)
    async with scene.led():
        assert scene.served
        assert scene.writes.count("mutating") == 2


async def test_rotator_logs_no_failure_when_another_client_creates_the_target_first():
    scene = Scene(AlreadyExists(409, "AlreadyExists"))
    with capture_logs() as lines:
        async with scene.led():
            assert scene.served
    assert {line["log_level"] for line in lines} == {"info"}
