from __future__ import annotations

import math
from typing import Any

from manager.leader.lease import Lease
from manager.leader.lookout import Observation


def view() -> Observation:
    return Observation(identity="me", lease_duration=15.0)


def lease(version: int = 1, *, uid: str = "u", holder: str = "other", **spec: Any) -> Lease:
    return Lease({"uid": uid, "resourceVersion": str(version)}, {"holderIdentity": holder, **spec})


def test_nothing_is_claimed_before_anything_was_seen():
    assert view().claimable_at() == math.inf
    assert not view().claimable(1e9)


def test_a_lease_that_does_not_exist_can_be_claimed_at_once():
    seen = view()
    seen.saw_none()
    assert seen.claimable(0.0)
    assert seen.lease is None


def test_a_free_lease_and_our_own_can_be_claimed_at_once():
    for holder in ("", "me"):
        seen = view()
        seen.saw(lease(holder=holder), now=100.0)
        assert seen.claimable(100.0)


def test_a_held_lease_can_be_claimed_when_it_has_not_changed_for_its_duration():
    seen = view()
    seen.saw(lease(leaseDurationSeconds=20), now=100.0)
    seen.saw(lease(leaseDurationSeconds=20), now=110.0)
    assert not seen.claimable(119.9)
    assert seen.claimable(120.0)


def test_a_renewal_starts_the_wait_anew():
    seen = view()
    seen.saw(lease(1, renewTime="a"), now=100.0)
    seen.saw(lease(2, renewTime="b"), now=110.0)
    assert seen.claimable_at() == 125.0


def test_a_record_without_a_duration_is_waited_for_as_long_as_ours_would_last():
    seen = view()
    seen.saw(lease(), now=100.0)
    assert seen.claimable_at() == 115.0


def test_what_the_record_says_about_time_does_not_matter():
    for renewed in ("1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z", "rubbish", None):
        seen = view()
        seen.saw(lease(renewTime=renewed), now=100.0)
        assert seen.claimable_at() == 115.0


def test_a_change_of_metadata_is_no_sign_of_life():
    seen = view()
    seen.saw(lease(1), now=100.0)
    seen.saw(lease(2), now=110.0)
    assert seen.claimable_at() == 115.0
    assert seen.lease is not None
    assert seen.lease.version == 2


def test_a_lease_created_anew_with_the_same_content_is_another_one():
    seen = view()
    seen.saw(lease(1), now=100.0)
    seen.saw(lease(2, uid="v"), now=110.0)
    assert seen.claimable_at() == 125.0


def test_news_that_come_late_are_ignored_and_a_reason_to_look():
    seen = view()
    seen.saw(lease(5, holder="other"), now=100.0)
    for late in (lambda: seen.saw(lease(4, holder=""), now=101.0), lambda: seen.saw_deletion(lease(3))):
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


def test_after_a_rewound_history_older_versions_are_news_again():
    seen = view()
    seen.saw(lease(500, renewTime="a"), now=100.0)
    seen.history_was_rewound()
    seen.saw(lease(20, renewTime="b"), now=110.0)
    assert seen.claimable_at() == 125.0
    assert seen.version == 20


def test_a_deleted_lease_is_still_its_holders_until_it_would_have_expired():
    seen = view()
    seen.saw(lease(1), now=100.0)
    seen.saw_deletion(lease(2))
    assert seen.lease is None
    assert not seen.claimable(114.9)
    assert seen.claimable(115.0)


def test_a_deleted_lease_that_claimed_to_last_for_years_is_its_holders_for_four_lease_durations():
    seen = view()
    seen.saw(lease(1, leaseDurationSeconds=2**31 - 1), now=100.0)
    assert not seen.claimable(1e8)
    seen.saw_deletion(lease(2))
    assert not seen.claimable(159.9)
    assert seen.claimable(160.0)


def test_a_lease_deleted_after_its_release_can_be_claimed_at_once():
    seen = view()
    seen.saw(lease(1, holder=""), now=100.0)
    seen.saw_none()
    assert seen.claimable(100.0)


def test_after_a_doubt_the_lease_has_to_be_seen_again_before_a_claim():
    seen = view()
    seen.saw(lease(1), now=100.0)
    seen.doubt()
    assert not seen.claimable(200.0)
    assert seen.claimable_at() == math.inf
    seen.saw(lease(1), now=201.0)
    assert seen.claimable(201.0), "the holder has been silent since 100"
