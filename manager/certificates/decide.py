"""Decision on the next step, from the stored material, the observed targets and the time alone.

So a new leader continues where the last one was killed. When others change the Secret or a bundle, the same
rules repair it that create it in the first place.

One invariant holds at every moment, also between two steps: every certificate that may be served is valid,
and every bundle in use trusts it. The order of the rules ensures this. A new authority goes into the stored
bundle first, then into every target. Its certificate is served only when all targets have had the authority
for a while. The old authority leaves the bundle long after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from manager.certificates.lifetimes import Lifetimes, issued
from manager.certificates.steps import Adopt, Authorize, Inject, Issue, Rest, Retire, Sighting, Step
from manager.certificates.store import Stored, bundled
from manager.tls.certificate import Certificate

_MOST_FOREIGN = 64
"""A bundle with more authorities than this is not ours: somebody trusts the public ones, which are over a
hundred. Ours has two in a renewal, and one more for each time that somebody destroys what is stored, until an
old one may be retired."""


def next_step(
    stored: Stored, sightings: Sequence[Sighting], names: Sequence[str], now: datetime, lifetimes: Lifetimes
) -> Step:
    """Return the next step.

    Args:
        stored: the stored certificates; of an empty material when nothing is stored.
        sightings: the existing targets in their current state.
        names: host names and IP addresses that the serving certificate must cover; not empty.
        now: the time.
        lifetimes: of new authorities and certificates.
    """
    if not stored.signers:
        # Keep the authorities that are trusted now: any replica may serve a certificate of theirs.
        trusted = _known(stored, sightings, now)
        return Authorize(trusted, () if trusted else tuple(names), "there is no authority that could sign")
    known = _known(stored, sightings, now)
    if known != stored.authorities and not _is_all_in_use_stored(stored, now, lifetimes):
        return Adopt(known)
    bundle = bundled(stored.authorities)
    for each in sightings:
        if not each.stuck and (not each.intact or any(found != bundle for found in each.bundles)):
            return Inject(each.target, bundle)
    newest = stored.signers[0]
    signer = next(
        (each for each in stored.signers if _may_sign(each, stored, sightings, now, lifetimes)), None
    )
    if signer is not None and (why := _flaw(stored, signer, names, now, lifetimes)) is not None:
        return Issue(signer, tuple(names), why)
    if lifetimes.is_due(newest, now):
        return Authorize(stored.authorities, (), "two thirds of the authority's life are over")
    settled = signer == newest
    if settled and len(stored.authorities) > 1 and _is_old_enough(stored.serving, now, lifetimes):
        return Retire(newest)
    return Rest(underway=not settled)


def _known(stored: Stored, sightings: Sequence[Sighting], now: datetime) -> tuple[Certificate, ...]:
    """All authorities that anybody trusts."""
    seen = (each.authorities for each in sightings)
    found = [each for some in seen if len(some) <= _MOST_FOREIGN for each in some if each.valid_at(now)]
    return tuple(dict.fromkeys((*stored.authorities, *found)))


def _is_all_in_use_stored(stored: Stored, now: datetime, lifetimes: Lifetimes) -> bool:
    """Return whether what any replica may serve has been signed by an authority of the stored bundle."""
    serving = stored.serving
    return (
        serving is not None
        and any(serving.vouched_for_by(each) for each in stored.authorities)
        # Until then, some replica may serve the one before, which another authority may have signed.
        and now >= issued(serving) + lifetimes.settle
    )


def _may_sign(
    signer: Certificate,
    stored: Stored,
    sightings: Sequence[Sighting],
    now: datetime,
    lifetimes: Lifetimes,
) -> bool:
    """Return whether no target stops trusting what is served when that is a certificate of this authority."""
    serving = stored.serving
    if serving is not None and serving.vouched_for_by(signer):
        return True
    return all(
        (each.trusts(signer) and each.unchanged_for >= lifetimes.settle)
        or not _has_something_to_lose(each, serving, signer, now)
        for each in sightings
    )


def _has_something_to_lose(
    sighting: Sighting, serving: Certificate | None, signer: Certificate, now: datetime
) -> bool:
    """Return whether the target trusts what is served now."""
    trusted = [each for each in sighting.authorities if each.valid_at(now)]
    if serving is not None:
        return serving.valid_at(now) and any(serving.vouched_for_by(each) for each in trusted)
    # The stored certificate is gone, and replicas serve from memory whatever they had: perhaps one that is
    # trusted here. That is worth the wait, but not for one who refuses to be written: it would have no end.
    return not sighting.stuck and any(each != signer for each in trusted)


def _flaw(
    stored: Stored, signer: Certificate, names: Sequence[str], now: datetime, lifetimes: Lifetimes
) -> str | None:
    """Why the serving certificate has to be made anew, if it has to."""
    serving = stored.serving
    if serving is None:
        return "there is none with its key"
    if not serving.valid_at(now):
        return "it has expired" if now > serving.until else "it is not valid yet"
    if missing := sorted(set(names) - serving.names):
        return f"it is not for {', '.join(missing)}"
    if not serving.vouched_for_by(signer):
        return "another authority has taken over"
    # One that ends with its authority would not last longer if it were made again.
    if serving.until < signer.until and lifetimes.is_due(serving, now):
        return "two thirds of its life are over"
    return None


def _is_old_enough(serving: Certificate | None, now: datetime, lifetimes: Lifetimes) -> bool:
    """Return whether every replica serves it by now."""
    return serving is not None and now >= issued(serving) + lifetimes.retire
