"""Rotation of the webhooks' certificates by the leader, and their CA bundles for the API server.

A step depends only on the stored material, the observed targets and the time. So a new leader continues where
the last one was killed. When another client changes the Secret or a bundle, the next steps restore it.

One invariant holds at every moment, also between two steps: every certificate that a replica may serve is
valid, and every bundle in use trusts it. The order of the rules ensures this. A new authority is added to the
stored bundle first, then to every target. Its certificate is served only when all targets have had the
authority for a while. The old authority is removed from the bundle long after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from manager.certificates.store import Changed, Material, Store, StoreUnusable
from manager.certificates.targets import Absent, Found, Target
from manager.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound
from manager.telemetry.logs import get_logger
from manager.tls.certificate import (
    CLOCK_SKEW,
    Authority,
    Certificate,
    Chance,
    bundled,
    certificates_in,
    keys_in,
    new_authority,
    public_key_of,
)
from manager.util import clock

_RENEWED_AFTER = 2 / 3

_MOST_FOREIGN = 64
"""The number of authorities above which a bundle is not ours, but contains the public ones, which are over a
hundred. Our bundle has two during a renewal, and one more each time that the stored ones are destroyed, until
the old ones are removed."""

_UNDERWAY = 1.0
_AFTER_FAILURE = 2.0

_log = get_logger("webhook.certificates")


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The lifetimes of new authorities and certificates; each is replaced after two thirds of its lifetime.

    So renewals may fail (no leader, no API server, missing rights) for a third of the lifetime. A
    serving certificate may live for at most a third of its authority's lifetime. `settle` must be less than
    `retire`, and their sum must be less than a third of the authority's lifetime: otherwise, a certificate
    would expire before its replacement.
    """

    authority: timedelta = timedelta(days=365)
    serving: timedelta = timedelta(days=90)

    settle: timedelta = timedelta(seconds=15)
    """How long every bundle must have been seen with a new authority before a certificate of it is served. An
    API server learns about a changed configuration by a watch: in milliseconds, or seconds if it is very
    busy."""

    retire: timedelta = timedelta(hours=1)
    """How long an old authority stays trusted after the first certificate of the new one. Replicas have the
    new certificate within seconds, unless one cannot reach the API server that calls it."""

    def is_due(self, certificate: Certificate, now: datetime) -> bool:
        """Return whether a certificate, ours or another issuer's, is due for replacement."""
        made = _issued(certificate)
        return now >= made + (certificate.until - made) * _RENEWED_AFTER


@dataclass(slots=True)
class _Watched:
    """A target, with the observations that this process has made of it."""

    target: Target
    found: Found | None = None
    """The target's state; None while it is missing or unknown."""

    since: float = 0.0
    """The loop time at which these bundles were first seen; clocks of other machines do not matter."""

    stuck: bool = False
    """Whether the last write of the target was refused."""

    complaint: str = ""

    async def look(self) -> None:
        """Read the target, and record since when it has had its current bundles."""
        try:
            found = await self.target.look()
        except (Absent, Forbidden) as error:
            # Rotation continues for all other targets, instead of stopping because of one.
            self.found = None
            self.complain(
                str(error) if isinstance(error, Absent) else f"{self.target} cannot be read: {error}"
            )
            return
        if self.found is None or self.found.bundles != found.bundles:
            self.since = clock.monotonic()
        self.found = found
        if not self.stuck:
            self.complaint = ""

    def complain(self, text: str) -> None:
        """Log the reason why the target cannot get our bundle, unless it was the last logged reason."""
        if text != self.complaint:
            self.complaint = text
            _log.warning("cannot maintain a webhook's CA bundle", reason=text)

    async def inject(self, bundle: bytes) -> None:
        """Write the bundle; raise `Changed` if the target has changed. A refusal is only logged."""
        target, found = self.target, self.found
        assert found is not None
        try:
            await target.inject(found, bundle)
        except (AlreadyExists, Conflict, NotFound):
            raise Changed(str(target)) from None
        except (Forbidden, Invalid) as error:
            # A patch whose JSON Patch `test` fails is `Invalid`, too, but then the object has changed.
            if isinstance(error, Invalid) and await self._has_changed():
                raise Changed(str(target)) from None
            self.stuck = True
            self.complain(f"{target} cannot be written: {error}")
        else:
            _log.info("the API server trusts the webhooks' CAs", target=str(target))

    async def _has_changed(self) -> bool:
        try:
            return await self.target.look() != self.found
        except Absent:
            return True

    @property
    def bundles(self) -> list[tuple[Certificate, ...]]:
        return [] if self.found is None else [certificates_in(each) for each in self.found.bundles]

    @property
    def authorities(self) -> tuple[Certificate, ...]:
        return tuple(dict.fromkeys(each for some in self.bundles for each in some if each.is_authority))

    def has_trusted(self, authority: Certificate, settle: timedelta) -> bool:
        """Return whether each of the target's webhooks has trusted the authority for at least `settle`."""
        seen_for = timedelta(seconds=clock.monotonic() - self.since)
        return bool(self.bundles) and all(authority in each for each in self.bundles) and seen_for >= settle


class Save(NamedTuple):
    """The step that writes new material into the store; `event` and `details` are for the log."""

    event: str
    material: Material
    details: Mapping[str, object] = {}


class Inject(NamedTuple):
    """The step that writes the bundle into one target."""

    target: _Watched
    bundle: bytes


@dataclass(frozen=True)
class Rotation:
    """The state of all certificates at one moment, and the rules for the next step.

    Each property takes some milliseconds to compute.
    """

    material: Material
    """The stored certificates and keys."""

    now: datetime
    targets: Sequence[_Watched] = ()
    """The existing targets."""

    default_names: Sequence[str] = ()
    """Host names and IP addresses of a first certificate while no target has a host name."""

    lifetimes: Lifetimes = Lifetimes()
    authority: str = ""
    """The name of a new authority."""

    chance: Chance | None = None
    """The source of keys in a simulation."""

    @cached_property
    def authorities(self) -> tuple[Certificate, ...]:
        """Return the valid authorities of the stored bundle."""
        found = certificates_in(self.material.bundle)
        return tuple(each for each in found if each.is_authority and each.valid_at(self.now))

    @cached_property
    def signers(self) -> tuple[Certificate, ...]:
        """Return the authorities with a stored key, the newest first."""
        able = [each for each in self.authorities if each.public_key in self.keys]
        # Of two authorities from the same second, the first one in the bundle is newer.
        return tuple(sorted(able, key=lambda each: each.since, reverse=True))

    @cached_property
    def serving(self) -> Certificate | None:
        """Return the stored certificate that matches its key; it may be invalid, or from any issuer."""
        found = certificates_in(self.material.certificate)
        if not found or public_key_of(self.material.key) != found[0].public_key:
            return None
        return found[0]

    @cached_property
    def names(self) -> Sequence[str]:
        """Return the host names and IP addresses that the serving certificate must contain."""
        hosts = tuple(dict.fromkeys(host for each in self.targets if each.found for host in each.found.hosts))
        # Do not renew an existing certificate for names that no target uses.
        return hosts or (sorted(self.serving.names) if self.serving else ()) or self.default_names

    @cached_property
    def keys(self) -> dict[bytes, bytes]:
        """Return the stored private keys of authorities, by their public keys."""
        keys = keys_in(self.material.authority_keys)
        return {public: key for key in keys if (public := public_key_of(key)) is not None}

    def next_step(self) -> Save | Inject | None:
        """Return the first step that a rule requires; None if no write is needed now."""
        rules = (self._begin, self._adopt, self._issue, self._inject, self._succeed, self._retire)
        steps: Iterator[Save | Inject | None] = (rule() for rule in rules)
        return next((step for step in steps if step is not None), None)

    @property
    def is_settled(self) -> bool:
        """Return whether the newest authority may sign."""
        return self._signer == self.signers[0]

    def _begin(self) -> Save | None:
        if self.signers:
            return None
        # Keep the trusted authorities: any replica may serve one of their certificates.
        return self._authorize(self._known, "there is no authority that could sign")

    def _adopt(self) -> Save | None:
        """Put authorities that targets still use back into the stored bundle."""
        known = self._known
        if known == self.authorities or self._is_all_in_use_stored():
            return None
        material = replace(self.material, bundle=bundled(known), authority_keys=self._keys_of(self.signers))
        return Save("the stored bundle has every CA in use again", material)

    def _inject(self) -> Inject | None:
        bundle = bundled(self.authorities)
        for each in self.targets:
            found = each.found
            if found is None or each.stuck:
                continue
            if not found.intact or any(there != bundle for there in found.bundles):
                return Inject(each, bundle)
        return None

    def _issue(self) -> Save | None:
        """Create a serving certificate, and delete the keys of authorities older than its signer."""
        signer = self._signer
        if signer is None or (why := self._flaw(signer)) is None:
            return None
        authority = Authority(signer.pem, self.keys[signer.public_key])
        made = authority.issue(self.names, self.now, self.lifetimes.serving, chance=self.chance)
        keys = self._keys_of(self.signers[: self.signers.index(signer) + 1])
        material = Material(made.certificates, made.key, bundled(self.authorities), keys)
        return Save("made a certificate for webhooks", material, {"why": why, "names": list(self.names)})

    def _succeed(self) -> Save | None:
        if not self.lifetimes.is_due(self.signers[0], self.now):
            return None
        return self._authorize(self.authorities, "two thirds of the authority's life are over")

    def _retire(self) -> Save | None:
        """Remove old authorities from the bundle when all replicas serve a certificate of the newest one."""
        newest, serving = self.signers[0], self.serving
        if len(self.authorities) == 1 or not self.is_settled or serving is None:
            return None
        if self.now < _issued(serving) + self.lifetimes.retire:
            return None
        material = replace(self.material, bundle=newest.pem, authority_keys=self._keys_of([newest]))
        return Save("removed the old CA of the webhooks", material)

    def _authorize(self, kept: Sequence[Certificate], why: str) -> Save:
        made = new_authority(self.authority, self.now, self.lifetimes.authority, chance=self.chance)
        keys = made.key + self._keys_of(each for each in self.signers if each in kept)
        material = replace(self.material, bundle=made.certificate + bundled(kept), authority_keys=keys)
        return Save("made a CA for webhooks", material, {"why": why})

    def _keys_of(self, signers: Iterable[Certificate]) -> bytes:
        return b"".join(self.keys[each.public_key] for each in signers)

    @cached_property
    def _known(self) -> tuple[Certificate, ...]:
        seen = (each.authorities for each in self.targets)
        found = [
            each for some in seen if len(some) <= _MOST_FOREIGN for each in some if each.valid_at(self.now)
        ]
        return tuple(dict.fromkeys((*self.authorities, *found)))

    @cached_property
    def _signer(self) -> Certificate | None:
        return next((each for each in self.signers if self._may_sign(each)), None)

    def _is_all_in_use_stored(self) -> bool:
        """Return whether the stored bundle has the authority of every certificate that replicas may serve."""
        serving = self.serving
        return (
            serving is not None
            and any(serving.vouched_for_by(each) for each in self.authorities)
            # Until then, a replica may still serve the previous certificate, from another authority.
            and self.now >= _issued(serving) + self.lifetimes.settle
        )

    def _may_sign(self, signer: Certificate) -> bool:
        """Return whether all targets that trust the served certificate would trust one issued by `signer`."""
        serving = self.serving
        if serving is not None and serving.vouched_for_by(signer):
            return True
        return all(
            each.has_trusted(signer, self.lifetimes.settle) or not self._has_something_to_lose(each, signer)
            for each in self.targets
        )

    def _has_something_to_lose(self, target: _Watched, signer: Certificate) -> bool:
        """Return whether the target's CA bundle makes it trust the certificate that replicas serve now."""
        serving = self.serving
        trusted = [each for each in target.authorities if each.valid_at(self.now)]
        if serving is not None:
            return serving.valid_at(self.now) and any(serving.vouched_for_by(each) for each in trusted)
        # The stored certificate is gone, and replicas serve an earlier one from memory, which this target may
        # trust. So it is worth waiting, but not for a target whose writes are refused, because that would
        # take for ever.
        return not target.stuck and any(each != signer for each in trusted)

    def _flaw(self, signer: Certificate) -> str | None:
        serving = self.serving
        if serving is None:
            return "no stored certificate matches its key"
        if not serving.valid_at(self.now):
            return "it has expired" if self.now > serving.until else "it is not valid yet"
        if missing := sorted(set(self.names) - serving.names):
            return f"it is not for {', '.join(missing)}"
        if not serving.vouched_for_by(signer):
            return "another authority signs now"
        # A certificate that ends with its authority would not last longer if it were issued again.
        if serving.until < signer.until and self.lifetimes.is_due(serving, self.now):
            return "two thirds of its life are over"
        return None


def _issued(certificate: Certificate) -> datetime:
    """Return when we issued the certificate; for another issuer's certificate, the approximate time."""
    return certificate.since + CLOCK_SKEW


@dataclass(eq=False)
class CertificateRotator:
    """The control loop that reads the store and all targets, and performs the next step.

    After a crash at any point, another rotator continues. Two rotators at the same time do no harm, because
    every write is conditional.
    """

    store: Store
    targets: Sequence[Target]
    _: KW_ONLY
    names: Sequence[str]
    """Host names of the certificate while no target has a host name."""

    authority: str
    """The name of a new authority."""

    lifetimes: Lifetimes = Lifetimes()
    look_every: float = 10.0
    """Seconds between two reads of the store and of each target while no step is needed. For at most this
    time, a bundle stays wrong after `kubectl apply` or an upgrade of a chart has reset it."""

    chance: Chance | None = None
    """The source of keys in a simulation."""

    def __post_init__(self) -> None:
        self._watched = [_Watched(each) for each in self.targets]
        self._complaint = ""
        self._steps = 0  # the number of steps since no step was needed
        self._most_steps = 8 + 2 * len(self.targets)
        """A renewal needs fewer steps. After more, another program keeps reverting our writes, and we
        pause."""

    async def run(self) -> None:
        """Perform steps until cancelled. A failure is logged once, and retried."""
        while True:
            try:
                pause = await self._turn()
                self._complaint = ""
            except Changed:
                pause = _UNDERWAY
            except Exception as error:  # noqa: BLE001 - the served certificate is good for weeks
                pause = _AFTER_FAILURE
                if repr(error) != self._complaint:
                    self._complaint = repr(error)
                    if isinstance(error, KubeError | StoreUnusable):
                        _log.warning("cannot maintain the webhooks' certificate", error=str(error))
                    else:
                        _log.error("maintaining the webhooks' certificate failed", exc_info=error)
            await asyncio.sleep(pause)

    async def _turn(self) -> float:
        """Read everything, perform one step and return the seconds until the next read."""
        snapshot = await self.store.read()
        for each in self._watched:
            await each.look()
        rotation = Rotation(
            snapshot.material,
            clock.now(),
            [each for each in self._watched if each.found is not None],
            self.names,
            self.lifetimes,
            self.authority,
            self.chance,
        )
        match rotation.next_step():
            case None:
                for each in self._watched:
                    each.stuck = False
                self._steps = 0
                return self.look_every if rotation.is_settled else min(_UNDERWAY, self.look_every)
            case Inject(watched, bundle):
                await watched.inject(bundle)
            case Save(event, material, details):
                await self.store.write(material, snapshot)
                _log.info("stored certificates of webhooks", change=event, **details, store=str(self.store))
        self._steps += 1
        return 0.0 if self._steps <= self._most_steps else _AFTER_FAILURE
