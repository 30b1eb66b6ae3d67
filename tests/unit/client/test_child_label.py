"""Hash by which the label of children divides objects."""

from __future__ import annotations

import pytest

from manager.client.child_label import hash_of


@pytest.mark.parametrize(
    ("text", "hashed"),
    # Values by the authors of the hash.
    [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
)
def test_child_label_hash_of_a_uid_is_fnv_1a(text: str, hashed: int):
    assert hash_of(text) == hashed
