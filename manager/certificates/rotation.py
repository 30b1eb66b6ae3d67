"""Rules by which certificates come about and are renewed.

A decision depends on the stored material, the observed targets and the time alone. So a new leader continues
where the last one was killed. When others change the Secret or a bundle, the rules that create it repair it.

One invariant holds at every moment, also between two steps: every certificate that may be served is valid,
and every bundle in use trusts it. The order of the rules ensures this. A new authority goes into the stored
bundle first, then into every target. Its certificate is served only when all targets have had the authority
for a while. The old authority leaves the bundle long after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from manager.certificates.store import Material
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

_RENEWED_AFTER = 2 / 3

_MOST_FOREIGN = 64
"""A bundle with more authorities than this is not ours: somebody trusts the public ones, which are over a
hundred. Ours has two in a renewal, and one more for each time that somebody destroys what is stored, until an
old one may be retired."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Lifetimes of new authorities and certificates; each is replaced after two thirds of its lifetime.

    So an obstacle to the renewal (no leader, no API server, missing rights) may last for a third.
    """

    authority: timedelta = timedelta(days=365)
    serving: timedelta = timedelta(days=90)

    settle: timedelta = timedelta(seconds=15)
    """How long every bundle has to be seen with a new authority before a certificate of it is served. An API
    server hears of a changed configuration by a watch: in milliseconds, or seconds if it is very busy."""

    retire: timedelta = timedelta(hours=1)
    """How long an old authority stays trusted after the first certificate of the new one. Replicas have the
    new certificate within seconds, unless one cannot reach the API server that its callers come from."""

    def __post_init__(self) -> None:
        """Raise ValueError for durations with which a certificate would end before it can be replaced."""
        if self.serving > self.authority / 3:
            # A new authority exists for the last third of the old one's life. In that time it must renew
            # every certificate of the old one on schedule.
            raise ValueError("a serving certificate may live for a third of its authority's time at most")
        if self.retire <= self.settle:
            # For so long after a new certificate, an authority that is still trusted counts as one in use.
            raise ValueError("an old authority must be retired later than a new one takes to settle")
        if self.settle + self.retire >= self.authority / 3:
            raise ValueError("an authority must be replaced and retired within a third of its life")

    def is_due(self, certificate: Certificate, now: datetime) -> bool:
        """Return whether the certificate, possibly from another issuer, is due for replacement."""
        made = _issued(certificate)
        return now >= made + (certificate.until - made) * _RENEWED_AFTER


class Stored:
    """Interpretation of a material at one moment. Each property takes some milliseconds to compute."""

    def __init__(self, material: Material, now: datetime) -> None:
        self.material = material
        self._now = now

    @cached_property
    def authorities(self) -> tuple[Certificate, ...]:
        """Return the valid authorities of the stored bundle."""
        found = certificates_in(self.material.bundle)
        return tuple(each for each in found if each.is_authority and each.valid_at(self._now))

    @cached_property
    def signers(self) -> tuple[Certificate, ...]:
        """Return the authorities with a stored key, the newest first."""
        able = [each for each in self.authorities if each.public_key in self._keys]
        # Of two of the same second, the one that stands first was made later.
        return tuple(sorted(able, key=lambda each: each.since, reverse=True))

    @cached_property
    def serving(self) -> Certificate | None:
        """Return the stored certificate that has its key; it may be invalid, or of any issuer."""
        found = certificates_in(self.material.certificate)
        if not found or public_key_of(self.material.key) != found[0].public_key:
            return None
        return found[0]

    def authority(self, signer: Certificate) -> Authority:
        """Return one of `signers` as an authority that can sign."""
        return Authority(signer.pem, self._keys[signer.public_key])

    @cached_property
    def _keys(self) -> dict[bytes, bytes]:
        keys = keys_in(self.material.authority_keys)
        return {public: key for key in keys if (public := public_key_of(key)) is not None}


@dataclass(frozen=True, slots=True)
class Sighting:
    """Observed state of one object that tells the API server which CAs to trust: a configuration or a CRD."""

    target: str
    """Names the object."""

    bundles: tuple[bytes, ...]
    """The CA bundle of each of its webhooks, PEM or whatever is there."""

    intact: bool
    """Whether all else in it is as we want it; if not, it has to be written though its bundles are right."""

    unchanged_for: timedelta
    """How long this process has seen these bundles there, without a break."""

    stuck: bool = False
    """Whether it has just refused to be written."""

    def trusts(self, authority: Certificate) -> bool:
        """Return whether each of its webhooks trusts the authority."""
        bundles = [certificates_in(bundle) for bundle in self.bundles]
        return bool(bundles) and all(authority in bundle for bundle in bundles)

    @property
    def authorities(self) -> tuple[Certificate, ...]:
        """Return the CAs that at least one of its webhooks trusts."""
        found = (each for bundle in self.bundles for each in certificates_in(bundle))
        return tuple(dict.fromkeys(each for each in found if each.is_authority))


@dataclass(frozen=True, slots=True)
class Save:
    """Step that writes new material into the store."""

    event: str
    """What happens, for the log."""

    make: Callable[[], Material]
    """Generates the keys; takes some milliseconds."""

    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inject:
    """Step that writes the bundle into one target."""

    target: str
    bundle: bytes


@dataclass(frozen=True, slots=True)
class Rest:
    """Step that writes nothing."""

    underway: bool
    """Whether a renewal waits for its next step."""


Step = Save | Inject | Rest


@dataclass(frozen=True)
class Rotation:
    """State of all certificates at one moment, and the rules for the next step."""

    stored: Stored
    sightings: Sequence[Sighting]
    """The existing targets."""

    names: Sequence[str]
    """Host names and IP addresses that the serving certificate must cover; not empty."""

    now: datetime
    lifetimes: Lifetimes
    authority: str
    """The name of a new authority."""

    chance: Chance | None = None
    """Source of keys in a simulation."""

    def next_step(self) -> Step:
        """Return the step of the first rule that has one."""
        for rule in (self._begin, self._adopt, self._inject, self._issue, self._succeed, self._retire):
            if (step := rule()) is not None:
                return step
        return Rest(underway=not self._is_settled)

    def _begin(self) -> Step | None:
        if self.stored.signers:
            return None
        # Keep the authorities that are trusted now: any replica may serve a certificate of theirs.
        trusted = self._known
        return self._authorize(
            trusted, () if trusted else self.names, "there is no authority that could sign"
        )

    def _adopt(self) -> Step | None:
        """Restore authorities to the stored bundle that targets still use."""
        known = self._known
        if known == self.stored.authorities or self._is_all_in_use_stored():
            return None
        return Save(
            "the stored bundle has every CA in use again",
            lambda: self._with_authorities(bundled(known), self.stored.signers),
        )

    def _inject(self) -> Step | None:
        bundle = bundled(self.stored.authorities)
        for each in self.sightings:
            if not each.stuck and (not each.intact or any(found != bundle for found in each.bundles)):
                return Inject(each.target, bundle)
        return None

    def _issue(self) -> Step | None:
        """Make a serving certificate, and drop the keys of authorities that are older than its signer."""
        stored, signer = self.stored, self._signer
        if signer is None or (why := self._flaw(signer)) is None:
            return None

        def make() -> Material:
            made = stored.authority(signer).issue(
                self.names, self.now, self.lifetimes.serving, chance=self.chance
            )
            signers = stored.signers[: stored.signers.index(signer) + 1]
            return Material(made.certificates, made.key, bundled(stored.authorities), self._keys(signers))

        return Save("made a certificate for webhooks", make, {"why": why, "names": list(self.names)})

    def _succeed(self) -> Step | None:
        if not self.lifetimes.is_due(self.stored.signers[0], self.now):
            return None
        return self._authorize(self.stored.authorities, (), "two thirds of the authority's life are over")

    def _retire(self) -> Step | None:
        """Leave all authorities but the newest out of the bundle, once all replicas serve its certificate."""
        newest = self.stored.signers[0]
        if len(self.stored.authorities) == 1 or not self._is_settled or not self._is_old_enough():
            return None
        return Save(
            "removed the old CA of the webhooks", lambda: self._with_authorities(newest.pem, [newest])
        )

    def _authorize(self, kept: Sequence[Certificate], names: Sequence[str], why: str) -> Save:
        """Create an authority and put it before the `kept` ones in the bundle.

        It signs a certificate for `names` in the same step, if there are any.
        """
        old = self.stored.material

        def make() -> Material:
            made = new_authority(self.authority, self.now, self.lifetimes.authority, chance=self.chance)
            certificate, key = old.certificate, old.key
            if names:
                pair = made.issue(names, self.now, self.lifetimes.serving, chance=self.chance)
                certificate, key = pair.certificates, pair.key
            keys = made.key + self._keys(each for each in self.stored.signers if each in kept)
            return Material(certificate, key, made.certificate + bundled(kept), keys)

        details = {"why": why, **({"names": list(names)} if names else {})}
        return Save("made a CA for webhooks", make, details)

    def _with_authorities(self, bundle: bytes, signers: Iterable[Certificate]) -> Material:
        old = self.stored.material
        return Material(old.certificate, old.key, bundle, self._keys(signers))

    def _keys(self, signers: Iterable[Certificate]) -> bytes:
        return b"".join(self.stored.authority(each).key for each in signers)

    @cached_property
    def _known(self) -> tuple[Certificate, ...]:
        seen = (each.authorities for each in self.sightings)
        found = [
            each for some in seen if len(some) <= _MOST_FOREIGN for each in some if each.valid_at(self.now)
        ]
        return tuple(dict.fromkeys((*self.stored.authorities, *found)))

    @cached_property
    def _signer(self) -> Certificate | None:
        return next((each for each in self.stored.signers if self._may_sign(each)), None)

    @property
    def _is_settled(self) -> bool:
        return self._signer == self.stored.signers[0]

    def _is_all_in_use_stored(self) -> bool:
        """Return whether an authority of the stored bundle signed whatever any replica may serve."""
        serving = self.stored.serving
        return (
            serving is not None
            and any(serving.vouched_for_by(each) for each in self.stored.authorities)
            # Until then, some replica may serve the one before, which another authority may have signed.
            and self.now >= _issued(serving) + self.lifetimes.settle
        )

    def _may_sign(self, signer: Certificate) -> bool:
        """Return whether all targets that trust the served certificate would trust one of this authority."""
        serving = self.stored.serving
        if serving is not None and serving.vouched_for_by(signer):
            return True
        return all(
            (each.trusts(signer) and each.unchanged_for >= self.lifetimes.settle)
            or not self._has_something_to_lose(each, signer)
            for each in self.sightings
        )

    def _has_something_to_lose(self, sighting: Sighting, signer: Certificate) -> bool:
        """Return whether the target trusts the certificate that is served now."""
        serving = self.stored.serving
        trusted = [each for each in sighting.authorities if each.valid_at(self.now)]
        if serving is not None:
            return serving.valid_at(self.now) and any(serving.vouched_for_by(each) for each in trusted)
        # The stored certificate is gone, and replicas serve from memory whatever they had: perhaps one that
        # is trusted here. That is worth the wait, but a target that refuses to be written would never end it.
        return not sighting.stuck and any(each != signer for each in trusted)

    def _flaw(self, signer: Certificate) -> str | None:
        serving = self.stored.serving
        if serving is None:
            return "there is none with its key"
        if not serving.valid_at(self.now):
            return "it has expired" if self.now > serving.until else "it is not valid yet"
        if missing := sorted(set(self.names) - serving.names):
            return f"it is not for {', '.join(missing)}"
        if not serving.vouched_for_by(signer):
            return "another authority has taken over"
        # One that ends with its authority would not last longer if it were made again.
        if serving.until < signer.until and self.lifetimes.is_due(serving, self.now):
            return "two thirds of its life are over"
        return None

    def _is_old_enough(self) -> bool:
        """Return whether every replica serves the stored certificate by now."""
        serving = self.stored.serving
        return serving is not None and self.now >= _issued(serving) + self.lifetimes.retire


def _issued(certificate: Certificate) -> datetime:
    """Return when we issued the certificate; for another issuer's, the approximate time."""
    return certificate.since + CLOCK_SKEW
