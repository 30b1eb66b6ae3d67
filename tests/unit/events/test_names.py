from __future__ import annotations

import random
import re

import pytest

from manager.events import ObjectReference
from manager.events.correlator import EventNames

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def name_of(name: str, names: EventNames | None = None) -> str:
    return (names or EventNames(random.Random(1))).next(ObjectReference("v1", "ClusterRole", "", name))


def test_names_are_the_objects_name_and_the_time():
    base, _, time = name_of("my.object").rpartition(".")
    assert base == "my.object"
    assert int(time, 16) > 1_700_000_000 * 10**9


def test_names_are_never_given_twice_within_the_clocks_resolution():
    names = EventNames(random.Random(1))
    given = [name_of("x", names) for _ in range(5000)]
    assert len(set(given)) == len(given)


@pytest.mark.parametrize("name", ["x" * 253, "x" * 200 + "." * 5 + "y" * 48, "a" * 235 + "-." + "b" * 16])
def test_names_are_never_longer_than_a_name_may_be(name: str):
    given = name_of(name)
    assert len(given) <= 253
    assert SUBDOMAIN.fullmatch(given)


@pytest.mark.parametrize("name", ["system:node", "Capital", "", "a_b", "..."])
def test_an_object_whose_name_an_event_may_not_have_lends_its_kind(name: str):
    assert name_of(name).startswith("clusterrole.")
