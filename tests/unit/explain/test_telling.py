"""An explanation as text: whose an object is where replicas share the work."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from manager.explain.judging import FINE
from manager.explain.looking import Found, Node
from manager.explain.telling import explanation, text_of, told_by_manager
from manager.runs import CALLED

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


def test_told_names_shard_range_and_its_holder():
    assert "  For controller foo it is in range 5 of 16, which pod-b_1 holds\n" in told(OWNER)
    assert "which nobody holds" in told({**OWNER, "holder": ""})
    unknown = told({**OWNER, "holder": None, "problem": "you may not get its lease"})
    assert "range 5 of 16; who holds it is not known: you may not get its lease" in unknown
    assert "Whose it is" not in told()


def test_told_warns_when_the_asked_manager_is_another_replica():
    older = "The manager that was asked is another replica: what it tells may be older."
    assert older in told(OWNER, {**OWNER, "here": False})
    assert older not in told({**OWNER, "here": True})
    assert older not in told(OWNER)


def test_told_strips_control_characters_from_lease_fields():
    hostile = "\x1b[2J\x9b31m\u202e\n" * 1000
    text = told({**OWNER, "holder": hostile, "controller": hostile, "silent": True, "renewed": hostile})
    assert not {"\x1b", "\x9b", "\u202e"} & set(text)
    assert len(text) < 2000
    assert "has renewed last at some time: another replica takes it" in text


HOSTILE = "\x1b]0;owned\x07\nline of its own"
RUN: dict[str, Any] = {
    "outcome": "ok",
    "started": "2026-11-23T14:00:00Z",
    "seconds": 1.0,
    "why": "created",
    "requests": [{"verb": "GET", "path": "/api/v1/pods", "code": 200, "name": "web", "error": ""}],
    "spared": 0,
    "error": "none",
    "error_type": "Error",
    "failure": "",
    "awaits": "a change",
}
CONTROLLER: dict[str, Any] = {
    "controller": "foo",
    "state": "waits",
    "uid": None,
    "running": None,
    "next": {"at": "2026-11-23T14:00:00Z", "why": [{"text": "why"}]},
    "runs": [RUN, {**RUN, "requests": [{"verb": "a", "path": "/b", "code": CALLED, "error": "none"}]}],
}


def texts_in(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """Where there are texts."""
    if isinstance(value, str):
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in inside:
        yield from texts_in(inner, *path, name)


@pytest.mark.parametrize("path", list(texts_in([CONTROLLER])))
def test_explanation_text_strips_control_characters_from_manager_answer(path: tuple[str | int, ...]):
    answer = {"controllers": [copy.deepcopy(CONTROLLER)]}
    where: Any = answer["controllers"]
    for step in path[:-1]:
        where = where[step]
    where[path[-1]] = HOSTILE
    controllers, _ = told_by_manager(json.dumps(answer).encode())
    found = Found({}, Node("Foo", "default", "web", "a-uid", FINE), [], [], {})
    text = text_of(explanation(found, controllers, says=True, manager=""))
    assert not {"\x1b", "\x07"} & set(text)
    assert "\nline of" not in text


@pytest.mark.parametrize("name", ["name", "error"])
def test_told_by_manager_raises_value_error_for_malformed_run(name: str):
    run = {**RUN, "requests": [{**RUN["requests"][0], name: {"a": 1}}]}
    with pytest.raises(ValueError, match=name):
        told_by_manager(json.dumps({"controllers": [{**CONTROLLER, "runs": [run]}]}).encode())
