from __future__ import annotations

import math
from typing import Any

from manager.election.lease import Lease, LeaseTiming
from manager.election.lease_watch import LeaseObservation

CLOCK = "pod-1/boot"


def view() -> LeaseObservation:
    return LeaseObservation(identity="me", timing=LeaseTiming(clock=CLOCK))


def lease(version: int = 1, *, uid: str = "u", holder: str = "other", **spec: Any) -> Lease:
    return Lease({"uid": uid, "resourceVersion": str(version)}, {"holderIdentity": holder, **spec})


def test_observation_is_not_claimable_before_the_lease_was_seen():
    assert view().claimable_at() == math.inf
    assert not view().claimable(1e9)


def test_missing_lease_can_be_claimed_at_once():
    seen = view()
    seen.saw_none()
    assert seen.claimable(0.0)
    assert seen.lease is None


def test_free_lease_and_own_lease_can_be_claimed_at_once():
    for holder in ("", "me"):
        seen = view()
        seen.saw(lease(holder=holder), now=100.0)
        assert seen.claimable(100.0)


def test_held_lease_can_be_claimed_when_it_has_not_changed_for_its_duration():
    seen = view()
    seen.saw(lease(leaseDurationSeconds=20), now=100.0)
    seen.saw(lease(leaseDurationSeconds=20), now=110.0)
    assert not seen.claimable(119.9)
    assert seen.claimable(120.0)


def test_lease_watcher_restarts_its_wait_after_a_renewal():
    seen = view()
    seen.saw(lease(1, renewTime="a"), now=100.0)
    seen.saw(lease(2, renewTime="b"), now=110.0)
    assert seen.claimable_at() == 125.0


def test_lease_without_a_duration_expires_after_our_own_duration():
    seen = view()
    seen.saw(lease(), now=100.0)
    assert seen.claimable_at() == 115.0


def test_observation_ignores_the_renew_time_of_the_record():
    for renewed in ("1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z", "rubbish", None):
        seen = view()
        seen.saw(lease(renewTime=renewed), now=100.0)
        assert seen.claimable_at() == 115.0


def test_lease_with_changed_metadata_only_counts_as_unchanged():
    seen = view()
    seen.saw(lease(1), now=100.0)
    seen.saw(lease(2), now=110.0)
    assert seen.claimable_at() == 115.0
    assert seen.lease is not None
    assert seen.lease.version == 2


def test_lease_watcher_treats_a_recreated_lease_as_a_new_one():
    seen = view()
    seen.saw(lease(1), now=100.0)
    seen.saw(lease(2, uid="v"), now=110.0)
    assert seen.claimable_at() == 125.0


def test_news_that_come_late_are_ignored_and_a_reason_to_look():
    seen = view()
    seen.saw(lease(5, holder="other"), now=100.0)
    for late in (lambda: seen.saw(lease(4, holder=""), now=101.0), lambda: seen.saw_none(lease(3))):
        late()
        assert seen.doubtful
        seen.saw(lease(5, holder="other"), now=102.0)
        assert seen.claimable_at() == 115.0
        assert seen.holder == "other"


def test_versions_that_cannot_be_ordered_are_taken_as_they_come():
    seen = view()
    for version in ("b", "a"):
        seen.saw(Lease({"resourceVersion": version}, {"holderIdentity": version}), now=100.0)
    assert seen.holder == "a"


def test_observation_takes_an_older_version_after_a_rewound_history():
    seen = view()
    seen.saw(lease(500, renewTime="a"), now=100.0)
    seen.newest = None
    seen.saw(lease(20, renewTime="b"), now=110.0)
    assert seen.claimable_at() == 125.0
    assert seen.newest == 20


def test_deleted_lease_cannot_be_claimed_until_its_expiry():
    seen = view()
    seen.saw(lease(1), now=100.0)
    seen.saw_none(lease(2))
    assert seen.lease is None
    assert not seen.claimable(114.9)
    assert seen.claimable(115.0)


def test_deleted_lease_with_a_huge_duration_blocks_claims_for_four_lease_durations():
    seen = view()
    seen.saw(lease(1, leaseDurationSeconds=2**31 - 1), now=100.0)
    assert not seen.claimable(1e8)
    seen.saw_none(lease(2))
    assert not seen.claimable(159.9)
    assert seen.claimable(160.0)


def test_lease_deleted_after_its_release_can_be_claimed_at_once():
    seen = view()
    seen.saw(lease(1, holder=""), now=100.0)
    seen.saw_none()
    assert seen.claimable(100.0)


def test_observation_is_not_claimable_after_a_doubt_until_the_lease_is_seen():
    seen = view()
    seen.saw(lease(1), now=100.0)
    seen.doubtful = True
    assert not seen.claimable(200.0)
    assert seen.claimable_at() == math.inf
    seen.saw(lease(1), now=201.0)
    assert seen.claimable(201.0), "the holder has been silent since 100"


def stamped(holder: str = "pod-1_old", clock: str = CLOCK, at: float = 90.0) -> Lease:
    return lease(holder=holder, leaseDurationSeconds=15).sent(clock, at)


def test_lease_age_uses_the_renewal_time_when_the_holder_has_the_same_clock():
    seen = view()
    seen.saw(stamped(at=90.0), now=100.0)
    assert seen.claimable_at() == 105.0
    seen.saw(stamped(at=70.0), now=100.0)
    assert not seen.claimable(104.9), "the spec is what tells a renewal, and it is the same"
    seen = view()
    seen.saw(stamped(at=70.0), now=100.0)
    assert seen.claimable(100.0)


def test_lease_age_starts_now_when_the_holder_has_another_clock_or_none():
    renewed = stamped()
    taken = Lease(renewed.metadata, {**renewed.spec, "holderIdentity": "pod-2_new"})
    annotations = [
        *("", "x", "pod-1_old", f"pod-1_old {CLOCK}", f"pod-1_old {CLOCK} x", f"pod-1_old {CLOCK} nan"),
        *(f"pod-1_old {CLOCK} inf", f"pod-1_old {CLOCK} -inf", f"pod-1_old  {CLOCK} 90", f" {CLOCK} 90"),
    ]
    wrong = [lease(holder="pod-1_old").annotated({"/sent": value}) for value in annotations]
    others = [stamped(clock="pod-1/other-boot"), stamped(clock="pod-2/boot"), taken, *wrong]
    for other in others:
        seen = view()
        seen.saw(other, now=100.0)
        assert seen.claimable_at() == 115.0, other.annotations


def test_observation_counts_from_now_when_the_record_says_a_time_to_come():
    seen = view()
    seen.saw(stamped(at=5000.0), now=100.0)
    assert seen.claimable_at() == 115.0


def test_observation_without_a_name_of_its_clock_believes_no_record():
    seen = LeaseObservation(identity="me", timing=LeaseTiming())
    seen.saw(lease(holder="pod-1_old").annotated({"/sent": "pod-1_old  90"}), now=100.0)
    assert seen.claimable_at() == 115.0


def test_lease_watcher_reports_no_change_for_a_plain_renewal():
    seen = view()
    assert seen.saw(stamped(at=90.0), now=90.0)
    later = Lease({**stamped().metadata, "resourceVersion": "2"}, {**stamped().spec, "renewTime": "b"})
    assert not seen.saw(later.sent(CLOCK, 92.0), now=92.1)
    assert seen.claimable_at() == 107.0
