"""An explanation as text: whose an object is where replicas share the work."""

from __future__ import annotations

from typing import Any

from manager.explain.judging import FINE
from manager.explain.looking import Found, Node
from manager.explain.telling import explanation, text_of

OWNER = {
    "controller": "foo",
    "range": 5,
    "of": 16,
    "holder": "pod-b_1",
    "renewed": "",
    "silent": False,
    "here": None,
    "problem": "",
}


def told(*owners: dict[str, Any]) -> str:
    found = Found({}, Node("Foo", "default", "web", "a-uid", FINE), [], [], {})
    return text_of(explanation(found, [], says=True, manager="", owners=owners))


def test_the_range_is_told_with_who_holds_it():
    assert "  For controller foo it is in range 5 of 16, which pod-b_1 holds\n" in told(OWNER)
    assert "which nobody holds" in told({**OWNER, "holder": ""})
    unknown = told({**OWNER, "holder": None, "problem": "you may not get its lease"})
    assert "range 5 of 16; who holds it is not known: you may not get its lease" in unknown
    assert "Whose it is" not in told()


def test_a_manager_that_does_not_work_on_it_is_said_to_know_less():
    older = "The manager that was asked is another replica: what it tells may be older."
    assert older in told(OWNER, {**OWNER, "here": False})
    assert older not in told({**OWNER, "here": True})
    assert older not in told(OWNER)


def test_whoever_writes_a_lease_says_nothing_to_a_terminal():
    hostile = "\x1b[2J\x9b31m\u202e\n" * 1000
    text = told({**OWNER, "holder": hostile, "controller": hostile, "silent": True, "renewed": hostile})
    assert not {"\x1b", "\x9b", "\u202e"} & set(text)
    assert len(text) < 2000
    assert "has renewed last at some time: another replica takes it" in text
