from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from manager.election.lease import Lease, Leases, LeaseTiming
from manager.election.lease_watch import LeaseObservation, LeaseWatcher
from manager.kube.errors import KubeError
from tests.support.scripted_wire import LostAfter
from tests.unit.election.conftest import LEASE, NAME, NAMESPACE, Election

CLOCK = "pod-1/boot"


def view() -> LeaseObservation:
    return LeaseObservation(identity="me", timing=LeaseTiming(clock=CLOCK))


def lease(version: int = 1, *, uid: str = "u", holder: str = "other", **spec: Any) -> Lease:
    return Lease({"uid": uid, "resourceVersion": str(version)}, {"holderIdentity": holder, **spec})


def stamped(holder: str = "pod-1_old", clock: str = CLOCK, at: float = 90.0) -> Lease:
    return lease(holder=holder, leaseDurationSeconds=15).sent(clock, at)


def foreign() -> list[Lease]:
    """Return Leases of holders on another host, or without a valid host clock."""
    renewed = stamped()
    taken = Lease(renewed.metadata, {**renewed.spec, "holderIdentity": "pod-2_new"})
    annotations = [
        *("", "x", "pod-1_old", f"pod-1_old {CLOCK}", f"pod-1_old {CLOCK} x", f"pod-1_old {CLOCK} nan"),
        *(f"pod-1_old {CLOCK} inf", f"pod-1_old {CLOCK} -inf", f"pod-1_old  {CLOCK} 90", f" {CLOCK} 90"),
    ]
    wrong = [lease(holder="pod-1_old").annotated({"/sent": value}) for value in annotations]
    return [stamped(clock="pod-1/other-boot"), stamped(clock="pod-2/boot"), taken, *wrong]


NEVER, AT_ONCE = math.inf, -math.inf
LONG_HELD = lease(1, leaseDurationSeconds=2**31 - 1)


def gone(last: Lease) -> Callable[[LeaseObservation, float], object]:
    return lambda view, _: view.saw_none(last)


@pytest.mark.parametrize(
    ("sights", "claimable_at"),
    [
        ({}, NEVER),
        ({0: lambda view, _: view.saw_none()}, AT_ONCE),
        ({100: lease(holder="")}, AT_ONCE),
        ({100: lease(holder="me")}, AT_ONCE),
        ({100: lease()}, 115),
        ({100: lease(leaseDurationSeconds=20), 110: lease(leaseDurationSeconds=20)}, 120),
        ({100: lease(1, renewTime="a"), 110: lease(2, renewTime="b")}, 125),
        ({100: lease(renewTime="1970-01-01T00:00:00.000000Z")}, 115),
        ({100: lease(renewTime="2999-01-01T00:00:00.000000Z")}, 115),
        ({100: lease(renewTime=None)}, 115),
        ({100: lease(1), 110: lease(2)}, 115),
        ({100: lease(1), 110: lease(2, uid="v")}, 125),
        ({100: Lease({"resourceVersion": "b"}, {}), 110: Lease({"resourceVersion": "a"}, {})}, AT_ONCE),
        ({100: lease(1), 101: gone(lease(2))}, 115),
        ({100: LONG_HELD}, 100 + 2**31 - 1),
        ({100: LONG_HELD, 101: gone(lease(2))}, 160),
        ({100: lease(1, holder=""), 101: gone(lease(2))}, AT_ONCE),
        # The holder has not renewed since 100, although the observation was doubtful.
        ({100: lease(1), 150: lambda view, _: setattr(view, "doubtful", True), 201: lease(1)}, 115),
        ({100: lease(1), 150: lambda view, _: setattr(view, "doubtful", True)}, NEVER),
        # The holder has the same host clock, so the time in the annotation counts, if it is in the past.
        ({100: stamped(at=90.0)}, 105),
        ({100: stamped(at=70.0)}, 85),
        ({100: stamped(at=5000.0)}, 115),
        ({100: stamped(at=90.0), 101: stamped(at=70.0)}, 105),
        *(({100: each}, 115) for each in foreign()),
    ],
)
def test_lease_observation_computes_the_time_from_which_the_lease_can_be_acquired(
    sights: dict[float, Any], claimable_at: float
):
    seen = view()
    for now, sight in sights.items():
        if isinstance(sight, Lease):
            seen.saw(sight, now=now)
        else:
            sight(seen, now)
    assert seen.claimable_at() == claimable_at
    assert seen.claimable(claimable_at) or claimable_at == NEVER
    assert not seen.claimable(min(claimable_at - 0.1, 1e12)) or claimable_at == AT_ONCE


def test_lease_observation_sees_no_renewal_between_a_lease_and_its_shortened_outline():
    record = {"leaseDurationSeconds": 15, "renewTime": "a", "acquireTime": "a", "leaseTransitions": 3}
    whole = lease(1, holder="y" * 5_000, **record, strategy="x")
    assert len(whole.outline("").encode()) < 5_000
    for first, second in ((whole, whole.outline("")), (whole.outline(""), whole)):
        seen = view()
        seen.saw(first, now=100.0)
        seen.saw(second, now=110.0)
        assert seen.claimable_at() == 115.0
    renewed = Lease(whole.metadata, {**whole.spec, "renewTime": "b"})
    seen.saw(renewed.outline(""), now=112.0)
    assert seen.claimable_at() == 127.0


def test_lease_observation_ignores_a_not_found_response_when_the_watch_showed_a_newer_lease():
    seen = view()
    seen.saw(lease(5), now=100.0)
    seen.was_read(None, before=4)
    assert seen.lease is not None
    seen.was_read(None, before=5)
    assert seen.lease is None


def test_lease_observation_ignores_an_outdated_event_and_requests_a_read():
    seen = view()
    seen.saw(lease(5, holder="other"), now=100.0)
    for late in (lambda: seen.saw(lease(4, holder=""), now=101.0), lambda: seen.saw_none(lease(3))):
        late()
        assert seen.doubtful
        seen.saw(lease(5, holder="other"), now=102.0)
        assert seen.claimable_at() == 115.0
        assert seen.holder == "other"


def test_lease_observation_accepts_a_lower_resource_version_after_it_forgot_the_newest_one():
    seen = view()
    seen.saw(lease(500, renewTime="a"), now=100.0)
    seen.newest = None
    seen.saw(lease(20, renewTime="b"), now=110.0)
    assert seen.claimable_at() == 125.0
    assert seen.newest == 20


def test_lease_observation_ignores_the_annotated_send_time_when_this_replica_has_no_host_clock():
    seen = LeaseObservation(identity="me", timing=LeaseTiming())
    seen.saw(lease(holder="pod-1_old").annotated({"/sent": "pod-1_old  90"}), now=100.0)
    assert seen.claimable_at() == 115.0


def test_lease_observation_does_not_call_its_listener_for_a_renewal():
    changes: list[None] = []
    timing = LeaseTiming(clock=CLOCK)
    seen = LeaseObservation(identity="me", timing=timing, changed=lambda: changes.append(None))
    seen.saw(stamped(at=90.0), now=90.0)
    assert len(changes) == 1
    later = Lease({**stamped().metadata, "resourceVersion": "2"}, {**stamped().spec, "renewTime": "b"})
    seen.saw(later.sent(CLOCK, 92.0), now=92.1)
    assert len(changes) == 1
    assert seen.claimable_at() == 107.0
    seen.saw_none()
    assert len(changes) == 2


@pytest.mark.virtual_time
async def test_lease_observation_requires_a_new_read_after_a_write_without_a_response(election: Election):
    first, changes = election.candidate("first"), list[None]()
    leases = Leases(first.transport, namespace=NAMESPACE, name=NAME)
    watcher = LeaseWatcher(first.config, leases)
    watcher.listen(lambda: changes.append(None))
    seen = watcher.of(NAME)

    async def claim() -> None:
        await seen.claim(leases, await seen.base(leases, timeout=1.0), timeout=1.0)

    await claim()
    assert len(changes) == 2, "first there was no Lease, and then this replica holds it"
    await claim()
    assert (len(changes), seen.doubtful) == (2, False)
    first.wire.on("PUT", LEASE, LostAfter(election.server.answer), election.server.answer)
    with pytest.raises(KubeError):
        await claim()
    assert seen.doubtful
    await claim()
    assert len(first.wire.sent("GET", LEASE)) == 2, "before the first acquisition, and when doubtful"
    assert not seen.doubtful
