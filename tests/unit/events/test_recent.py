from __future__ import annotations

from manager.events.correlator import Recent


def test_recent_get_or_add_makes_a_value_once():
    recent: Recent[str, list[int]] = Recent(3)
    first = recent.get_or_add("a", list)
    assert recent.get_or_add("a", list) is first
    assert len(recent) == 1


def test_recent_forgets_the_least_recently_used_key():
    recent: Recent[str, list[str]] = Recent(3)
    for key in "abca":
        recent.get_or_add(key, list).append(key)
    recent.get_or_add("d", list)
    assert len(recent) == 3
    assert recent.get_or_add("a", list) == ["a", "a"]
    assert recent.get_or_add("b", list) == []
