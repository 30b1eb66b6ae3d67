"""What is stored after a step."""

from __future__ import annotations

from datetime import datetime

from manager.tls import Certificate, new_authority
from manager.webhook.certificates.lifetimes import Lifetimes
from manager.webhook.certificates.material import Material, Stored, bundled
from manager.webhook.certificates.steps import Adopt, Authorize, Issue, Retire

__all__ = ["after"]


def after(
    step: Authorize | Adopt | Issue | Retire,
    stored: Stored,
    now: datetime,
    lifetimes: Lifetimes,
    *,
    authority: str,
) -> Material:
    """What is to be stored instead; `authority` names one that is made.

    Makes keys, and computes for some milliseconds.
    """
    old = stored.material
    match step:
        case Authorize():
            made = new_authority(authority, now, lifetimes.authority)
            kept = [each for each in stored.signers if each in step.kept]
            pair = made.issue(step.names, now, lifetimes.serving) if step.names else None
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
            pair = stored.authority(step.signer).issue(step.names, now, lifetimes.serving)
            signers = stored.signers[: stored.signers.index(step.signer) + 1]
            return Material(pair.certificates, pair.key, bundled(stored.authorities), _keys(stored, signers))
        case Retire():
            return Material(old.certificate, old.key, step.kept.pem, _keys(stored, [step.kept]))


def _keys(stored: Stored, signers: list[Certificate] | tuple[Certificate, ...]) -> bytes:
    return b"".join(stored.authority(each).key for each in signers)
