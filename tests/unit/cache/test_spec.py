from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.api import Resource
from manager.cache.spec import WHOLE, Selection, Selector, WatchSpec
from tests.unit.cache.objects import Node, Pod

WEB = {"app": "web", "tier": "front", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        (" app = web , tier = front ", True),
        ("app=web,tier=back", False),
        ("app!=web", False),
        ("app!=db", True),
        ("owner!=me", True),
        ("app in (web, db)", True),
        ("app in(db)", False),
        ("app notin (db,cache)", True),
        ("owner notin (me)", True),
        ("app", True),
        ("owner", False),
        ("!owner", True),
        ("empty=", True),
        ("app=web,tier in (front),!owner", True),
        ("in in (x)", False),
        ("example.com/app", False),
    ],
)
def test_selector_matches_labels_by_the_rules_of_kubectl(text: str, matches: bool):
    assert Selector.parse(text).matches(WEB) is matches


@pytest.mark.parametrize(
    "text",
    [
        *("app=web,", ",", "=web", "app in web", "app in (a", "appin (web)", "app=a=b", "app>3", "-x"),
        *("app in (a b)", "!", "a b"),
    ],
)
def test_selector_parse_refuses_an_invalid_label_selector(text: str):
    with pytest.raises(ValueError, match="not a label selector"):
        Selector.parse(text)


def test_selector_split_returns_one_required_value_for_each_label_and_the_remaining_requirements():
    equal, others = Selector.parse("app=web,tier in (front),app=db,!owner,env in (a,b)").split()
    assert equal == {"app": "web", "tier": "front"}
    assert [str(each) for each in others.requirements] == ["app=db", "!owner", "env in (a,b)"]


names = st.sampled_from(["a", "b-c", "example.com/d"])
values = st.sampled_from(["", "x", "y.z"])
requirements = st.one_of(
    st.builds("{}={}".format, names, values),
    st.builds("{} != {}".format, names, values),
    st.builds("{} in ({},{})".format, names, values, values),
    st.builds("{} notin ({})".format, names, values),
    st.builds("!{}".format, names),
    names,
)


@given(st.lists(requirements, max_size=4).map(",".join), st.dictionaries(names, values))
def test_selector_parsed_from_its_own_text_equals_the_original_selector(text: str, labels: dict[str, str]):
    selector = Selector.parse(text)
    again = Selector.parse(",".join(map(str, selector.requirements)))
    assert again == selector
    assert again.matches(labels) is selector.matches(labels)


@pytest.mark.parametrize(
    ("kind", "namespaces", "selected", "watched"),
    [
        (Pod, (), (), ("",)),
        (Pod, ("one", "two", "one"), (), ("one", "two")),
        (Pod, ("one", ""), (), ("",)),
        (Pod, ("one",), ("two",), ("two",)),
        (Pod, ("one",), ("",), ("",)),
        (Node, ("one",), (), ("",)),  # a cluster-scoped kind
        (Node, ("one",), ("two",), ("",)),
    ],
)
def test_watch_spec_prefers_explicitly_selected_namespaces_to_namespaces_of_the_manager(
    kind: type[Resource], namespaces: tuple[str, ...], selected: tuple[str, ...], watched: tuple[str, ...]
):
    selection = Selection.of(namespaces=selected)
    assert WatchSpec.of(kind, namespaces=namespaces, selection=selection).namespaces == watched


def test_selections_are_equal_when_they_select_the_same_objects():
    one = Selection.of(label_selector="app = web, tier!=db,app==web", namespaces=["b", "a", "b"])
    assert one == Selection.of(label_selector="tier!=db,app=web", namespaces=("a", "b"))
    assert one != Selection.of(label_selector="app=web", namespaces=("a", "b"))
    assert one != Selection.of(label_selector="tier!=db,app=web")
    assert Selection.of(namespaces=["a", ""]) == Selection.of(namespaces=[""])
    assert Selection.of() == WHOLE


def test_selection_refuses_an_invalid_label_selector_or_a_single_string_for_namespaces():
    with pytest.raises(ValueError, match="not a label selector"):
        Selection.of(label_selector="app in web")
    with pytest.raises(TypeError, match="a sequence of names, not 'one'"):
        Selection.of(namespaces="one")
