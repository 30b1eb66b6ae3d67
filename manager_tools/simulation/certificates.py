"""Webhook certificates in a simulation: replicas rotate them, API servers trust the CA bundles.

Lifetimes are short, so that certificates and CA are renewed within a run. The manager's own code renews them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import orjson

from devcluster.storage import Change, Key
from manager.certificates.factory import Certificates, secret_certificates
from manager.certificates.rotation import Lifetimes  # no simulated leader waits for this import
from manager.certificates.targets import bundle_of, hosts_of
from manager.kube.transport import Transport
from manager.tls.certificate import Chance, certificates_in
from manager.util.program import Program
from manager.webhook.configurations import SECRET
from manager.webhook.registration import Webhooks
from manager_tools.simulation.loop import EPOCH
from manager_tools.simulation.scene import Scene, Sent

Object = dict[str, Any]

LIFETIMES = Lifetimes(
    authority=timedelta(minutes=36),
    serving=timedelta(minutes=12),
    settle=timedelta(seconds=8),
    retire=timedelta(minutes=5),
)
"""Lifetimes; a third of the shorter one is longer than the difference of two clocks, except after a jump."""

# Durations in virtual seconds.
LOOK_EVERY, READ_EVERY = 60.0, 30.0
"""Longer intervals than the defaults, because most of a run is 42 minutes without events."""
HEARD_WITHIN = 4.0
"""Seconds within which every API server knows a new CA bundle."""
TRUSTED_WITHIN = 240.0
"""Seconds after the last fault until each replica has a certificate that each API server trusts."""
CHECKED_EVERY = 5.0
_RENEWED_AT_MOST = 240.0
"""Seconds for each write of the Secret: a certificate every 8 minutes, a CA every 24 (two more writes)."""
_TOGETHER = 60.0
"""Seconds for which writes of a second certificate rotator may still arrive."""

_TARGETS = {
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
}
_PRIVATE = (b"PRIVATE KEY", base64.b64encode(b"-----BEGIN PRIVATE KEY")[:28])
"""Parts of a private key's first line, as plain text and as in a Secret."""

_Span = tuple[float, float]


class WebhookCertificates:
    """An observer of the webhook certificates of all replicas in a simulation."""

    def __init__(self, world: Scene, webhooks: Webhooks, program: Program, namespace: str) -> None:
        self.namespace, self.name = namespace, f"{program.prefix}{SECRET}"
        self.spoilt_with: list[bytes] = []
        """Earlier CA bundles, which simulated users write back."""
        self.two_keep_until = 0.0
        """Until this time two replicas may write certificates, whichever of them has the Lease."""
        self._world, self._webhooks, self._program = world, webhooks, program
        self._bundles: dict[Key, list[tuple[float, frozenset[tuple[bytes, str]]]]] = {}
        """The CA bundles that API servers may know, by object; the current bundle is last."""
        self._stored: list[float] = []
        """The times at which managers have written the Secret."""
        self._spans: dict[tuple[bytes, bytes, str], Sequence[_Span]] = {}

    @property
    def converted(self) -> Sequence[str]:
        """Return the names of the CRDs with a conversion webhook."""
        return [f"{each.hub.plural}.{each.hub.gvk.group}" for each in self._webhooks.conversions]

    def certificates_for(self, transport: Transport, webhooks: Webhooks, chance: Chance) -> Certificates:
        """Return the runnables and the certificate source of a replica."""
        return secret_certificates(
            transport,
            webhooks,
            self._program,
            namespace=self.namespace,
            prefix=self._program.prefix,
            lifetimes=LIFETIMES,
            look_every=LOOK_EVERY,
            read_every=READ_EVERY,
            chance=chance,
        )

    @property
    def targets(self) -> list[Key]:
        """Return the keys of the objects that have, or should have, a CA bundle."""
        return list(self._bundles)

    # Observations

    def seen(self, change: Change, sent: Sent | None) -> bool:
        """Observe a write as it happens; return whether it changes the Secret or a kind with CA bundles."""
        key, kept = change.key, change.new
        if (key.group, key.plural, key.namespace, key.name) == ("", "secrets", self.namespace, self.name):
            if sent is not None:
                self._stored.append(self._world.now)
            return True
        if kept is not None and any(each in kept.data for each in _PRIVATE):
            self._world.violated(f"{sent or 'the cluster'} puts a private key into {key.plural} {key.name}")
        if (key.group, key.plural) not in _TARGETS:
            return False
        found = frozenset(_bundles_in(orjson.loads(kept.data))) if kept is not None else frozenset()
        if not found:
            self._bundles.pop(key, None)
            return True
        known = self._bundles.setdefault(key, [])
        if not known or known[-1][1] != found:
            known.append((self._world.now, found))
            self.spoilt_with += [bundle for bundle, _ in found if bundle not in self.spoilt_with]
        return True

    def started(self) -> None:
        """Read the CA bundles after a restart of the cluster, which may have lost some changes."""
        self._bundles.clear()
        for group, plural in sorted(_TARGETS):
            for kept in self._world.cluster.store.select(group, plural):
                if found := frozenset(_bundles_in(orjson.loads(kept.data))):
                    self._bundles[kept.key] = [(self._world.now, found)]

    def may_be_written_by_two(self, path: str) -> bool:
        """Return whether a second certificate rotator may also write the path now."""
        path = path.partition("?")[0]
        return self._world.now < self.two_keep_until and (
            path.endswith((f"/{self.name}", f"/namespaces/{self.namespace}/secrets"))
            or any(f"/{plural}/" in path for _, plural in _TARGETS)
        )

    def keep_twice(self, seconds: float) -> None:
        """Allow a second certificate rotator to write for `seconds`, and shortly afterwards."""
        self.two_keep_until = max(self.two_keep_until, self._world.now + seconds + _TOGETHER)

    # Invariants

    def why_untrusted(self, served: bytes | None, bundle: bytes, host: str) -> str | None:
        """Return why an API server with this bundle does not trust the certificate `served`, or None."""
        if served is None:
            return "connection refused"
        now = EPOCH + self._world.now + self._world.plane.skew
        wrong = "tls: failed to verify certificate: x509: "
        spans = self._spans.get((served, bundle, host))
        if spans is None:
            spans = self._spans[served, bundle, host] = _spans(served, bundle, host)
        if not spans:
            return f"{wrong}certificate signed by unknown authority"
        if not any(since <= now <= until for since, until in spans):
            return f"{wrong}certificate has expired or is not yet valid"
        return None

    def problems(self, served: bytes | None) -> Iterator[str]:
        """Yield why webhook calls to a replica with the certificate `served` would fail.

        Each API server may still use any CA bundle that was valid a short time ago.
        """
        now = self._world.now
        for key, known in self._bundles.items():
            while len(known) > 1 and known[1][0] <= now - HEARD_WITHIN:
                known.pop(0)
            for bundle, host in {each for _, found in known for each in found}:
                if (why := self.why_untrusted(served, bundle, host)) is not None:
                    yield f"for {key.plural} {key.name}: {why}"

    def check_renewals(self, since: float) -> None:
        """Record a violation if there were too many renewals after the time `since`."""
        count = sum(each > since for each in self._stored)
        most = 4 + (self._world.now - since) / _RENEWED_AT_MOST
        if count > most:
            self._world.violated(f"{count} renewals of certificates since {since:.0f} s: {most:.0f} at most")


def tells_a_key(text: bytes) -> bool:
    """Return whether the text contains a private key."""
    return any(each in text for each in _PRIVATE)


def _spans(served: bytes, bundle: bytes, host: str) -> list[_Span]:
    """Return the times (from, to), in Unix time, at which a client with the bundle trusts the certificate."""
    first = certificates_in(served)[0]
    if host not in first.names:
        return []
    return [
        (max(first.since, each.since).timestamp(), min(first.until, each.until).timestamp())
        for each in certificates_in(bundle)
        if first.vouched_for_by(each)
    ]


def _bundles_in(obj: Object) -> Iterator[tuple[bytes, str]]:
    configs = [each["clientConfig"] for each in obj.get("webhooks") or ()]
    conversion = (obj.get("spec") or {}).get("conversion") or {}
    if conversion.get("strategy") == "Webhook":
        configs.append(conversion["webhook"]["clientConfig"])
    for each in configs:
        yield bundle_of(each), hosts_of(each)[0]
