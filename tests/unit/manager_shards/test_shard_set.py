"""Shard of an object, by the hash function of the API server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.client.child_label import hash_of, label_of
from manager_shards.shard_set import ShardSet, check_count
from tests.recordings.shards import recorded_uids

UIDS = st.uuids(version=4).map(str)
COUNTS = [2**power for power in range(9)]


def test_shard_number_of_a_uid_equals_the_number_recorded_from_a_real_server():
    found = recorded_uids()
    assert len({number for _, number in found}) == 16, "the recording has objects in all shards"
    for uid, number in found:
        assert ShardSet.of(16, ()).number_of(uid) == number


@pytest.mark.parametrize("count", COUNTS)
@given(uid=UIDS)
def test_object_is_in_exactly_one_shard_whose_labels_include_the_label_of_its_children(uid: str, count: int):
    inside = [number for number in range(count) if uid in ShardSet.of(count, {number})]
    assert inside == [ShardSet.of(count, ()).number_of(uid)]
    assert [
        number for number in range(count) if label_of(uid) in ShardSet.of(count, {number}).labels
    ] == inside


@given(st.sampled_from(COUNTS), st.data(), UIDS)
def test_shard_selector_selects_only_objects_of_its_shards(count: int, data: st.DataObject, uid: str):
    shards = ShardSet.of(count, data.draw(st.sets(st.integers(0, count - 1), min_size=1)))
    bounds = [int(text, 16) for text in shards.selector.split("'")[1::2]]
    pairs = list(zip(bounds[::2], bounds[1::2], strict=True))
    within = not pairs or any(start <= hash_of(uid) < end for start, end in pairs)
    assert within == (uid in shards)


def test_shard_selector_merges_adjacent_ranges_and_is_empty_for_all_shards():
    def text(*numbers: int) -> str:
        return ShardSet.of(4, numbers).selector.replace("0" * 15, "...").replace("object.metadata.uid", "uid")

    assert text(0, 1, 2, 3) == ""
    assert text(1, 2) == "shardRange(uid, '0x4...', '0xc...')"
    assert text(3, 0) == "shardRange(uid, '0x...0', '0x4...') || shardRange(uid, '0xc...', '0x1...0')"


@pytest.mark.parametrize("count", [-1, 0, 3, 12, 512])
def test_shard_count_is_refused_when_too_large_or_not_a_power_of_two(count: int):
    with pytest.raises(ValueError, match=f"must be a power of two from 1 to 256, not {count}"):
        check_count(count)


def test_shard_set_refuses_a_shard_number_beyond_the_shard_count():
    with pytest.raises(ValueError, match="there is no shard 4 among 4"):
        ShardSet.of(4, {1, 4})
