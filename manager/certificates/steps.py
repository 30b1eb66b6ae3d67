"""The steps by which certificates come about and are renewed. Each is one write, or none."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from manager.certificates.lifetimes import Lifetimes
from manager.certificates.store import Material, Stored, bundled
from manager.tls.certificate import Certificate, certificates_in
from manager.tls.issue import Chance, new_authority


@dataclass(frozen=True, slots=True)
class Sighting:
    """Observed state of one object that tells the API server which CAs to trust: a configuration or a CRD."""

    target: str
    """Names the object."""

    bundles: tuple[bytes, ...]
    """The CA bundle of each of its webhooks, PEM or whatever is there."""

    intact: bool
    """Whether all else in it is as we want it; if not, it is to be written though its bundles are right."""

    unchanged_for: timedelta
    """How long the one who looks has seen these bundles there, without a break."""

    stuck: bool = False
    """Whether it has just refused to be written."""

    def trusts(self, authority: Certificate) -> bool:
        """Return whether each of its webhooks does."""
        bundles = [certificates_in(bundle) for bundle in self.bundles]
        return bool(bundles) and all(authority in bundle for bundle in bundles)

    @property
    def authorities(self) -> tuple[Certificate, ...]:
        """Return the CAs that at least one of its webhooks trusts."""
        found = (each for bundle in self.bundles for each in certificates_in(bundle))
        return tuple(dict.fromkeys(each for each in found if each.is_authority))


@dataclass(frozen=True, slots=True)
class Authorize:
    """Step that creates an authority and puts it before the kept ones in the bundle.

    It signs nothing yet, unless no target trusts another authority.
    """

    kept: tuple[Certificate, ...]
    names: tuple[str, ...]
    """Whom it signs a certificate for in the same step; empty for nobody."""

    why: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """Step that restores authorities to the stored bundle that targets still use."""

    authorities: tuple[Certificate, ...]
    """All that the bundle is to have."""


@dataclass(frozen=True, slots=True)
class Inject:
    """Write the bundle into one target."""

    target: str
    bundle: bytes


@dataclass(frozen=True, slots=True)
class Issue:
    """Make a serving certificate; the keys of authorities that are older than the signer are let go."""

    signer: Certificate
    names: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Retire:
    """Leave all authorities but one out of the bundle."""

    kept: Certificate


@dataclass(frozen=True, slots=True)
class Rest:
    """Write nothing for now."""

    underway: bool
    """Whether a renewal waits for its next step."""


Step = Authorize | Adopt | Inject | Issue | Retire | Rest


def after(
    step: Authorize | Adopt | Issue | Retire,
    stored: Stored,
    now: datetime,
    lifetimes: Lifetimes,
    *,
    authority: str,
    chance: Chance | None = None,
) -> Material:
    """Return the material that a step stores.

    `authority` names a new authority; `chance` is for simulations. It generates keys, and takes some
    milliseconds.
    """
    old = stored.material
    match step:
        case Authorize():
            made = new_authority(authority, now, lifetimes.authority, chance=chance)
            kept = [each for each in stored.signers if each in step.kept]
            pair = None
            if step.names:
                pair = made.issue(step.names, now, lifetimes.serving, chance=chance)
            return Material(
                certificate=old.certificate if pair is None else pair.certificates,
                key=old.key if pair is None else pair.key,
                bundle=made.certificate + bundled(step.kept),
                authority_keys=made.key + _keys(stored, kept),
            )
        case Adopt():
            return Material(
                old.certificate, old.key, bundled(step.authorities), _keys(stored, stored.signers)
            )
        case Issue():
            signer = stored.authority(step.signer)
            pair = signer.issue(step.names, now, lifetimes.serving, chance=chance)
            signers = stored.signers[: stored.signers.index(step.signer) + 1]
            return Material(pair.certificates, pair.key, bundled(stored.authorities), _keys(stored, signers))
        case Retire():
            return Material(old.certificate, old.key, step.kept.pem, _keys(stored, [step.kept]))


def _keys(stored: Stored, signers: list[Certificate] | tuple[Certificate, ...]) -> bytes:
    return b"".join(stored.authority(each).key for each in signers)
