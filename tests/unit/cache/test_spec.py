from __future__ import annotations

import pytest

from manager.api import Resource
from manager.cache.spec import WHOLE, Selection, WatchSpec
from tests.unit.cache.objects import Node, Pod, Widget


def test_everything_is_watched_unless_told_otherwise():
    spec = WatchSpec.of(Pod)
    assert spec.namespaces == ("",)
    assert spec.covers("any")
    assert spec.covers("")


def test_namespaces_are_watched_each_on_its_own_and_once():
    spec = WatchSpec.of(Pod, namespaces=("one", "two", "one"))
    assert spec.namespaces == ("one", "two")
    assert spec.covers("one")
    assert not spec.covers("three")


def test_all_namespaces_and_one_more_are_all():
    assert WatchSpec.of(Pod, namespaces=("one", "")).namespaces == ("",)


def test_cluster_scoped_kinds_are_not_narrowed_to_namespaces():
    spec = WatchSpec.of(Node, namespaces=("one",))
    assert spec.namespaces == ("",)
    assert spec.covers("")


def test_namespaces_of_a_selection_take_precedence():
    def watched(kind: type[Resource], *selected: str) -> tuple[str, ...]:
        selection = Selection.of(namespaces=selected)
        return WatchSpec.of(kind, namespaces=("one",), selection=selection).namespaces

    assert watched(Pod, "two") == ("two",)
    assert watched(Pod, "") == ("",)
    assert watched(Node, "two") == ("",)


def test_what_selects_the_same_is_the_same_selection():
    one = Selection.of(label_selector="app = web, tier!=db,app==web", namespaces=["b", "a", "b"])
    assert one == Selection.of(label_selector="tier!=db,app=web", namespaces=("a", "b"))
    assert one != Selection.of(label_selector="app=web", namespaces=("a", "b"))
    assert one != Selection.of(label_selector="tier!=db,app=web")
    assert Selection.of(namespaces=["a", ""]) == Selection.of(namespaces=[""])
    assert Selection.of() == WHOLE


def test_a_bad_selection_is_found_early():
    with pytest.raises(ValueError, match="not a label selector"):
        Selection.of(label_selector="app in web")
    with pytest.raises(TypeError, match="a sequence of names, not 'one'"):
        Selection.of(namespaces="one")


def test_a_resource_is_named_as_people_do():
    assert WatchSpec.of(Pod).resource == "pods"
    assert WatchSpec.of(Widget).resource == "widgets.example.com"
