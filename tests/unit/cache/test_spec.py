from __future__ import annotations

import pytest

from manager.cache.spec import CacheOptions, KindOptions, WatchSpec
from tests.unit.cache.objects import Node, Pod, Widget


def test_everything_is_watched_unless_told_otherwise():
    spec = WatchSpec.of(Pod, CacheOptions())
    assert spec.namespaces == ("",)
    assert spec.covers("any")
    assert spec.covers("")


def test_namespaces_are_watched_each_on_its_own_and_once():
    spec = WatchSpec.of(Pod, CacheOptions(namespaces=("one", "two", "one")))
    assert spec.namespaces == ("one", "two")
    assert spec.covers("one")
    assert not spec.covers("three")


def test_all_namespaces_and_one_more_are_all():
    assert WatchSpec.of(Pod, CacheOptions(namespaces=("one", ""))).namespaces == ("",)


def test_cluster_scoped_kinds_are_not_narrowed_to_namespaces():
    spec = WatchSpec.of(Node, CacheOptions(namespaces=("one",)))
    assert spec.namespaces == ("",)
    assert spec.covers("")


def test_what_is_said_for_a_kind_takes_precedence():
    options = CacheOptions(namespaces=("one",), by_kind={Pod: KindOptions(namespaces=("two",))})
    assert WatchSpec.of(Pod, options).namespaces == ("two",)
    assert WatchSpec.of(Widget, options).namespaces == ("one",)


def test_a_kind_can_be_watched_everywhere_although_others_are_not():
    options = CacheOptions(namespaces=("one",), by_kind={Pod: KindOptions(namespaces=())})
    assert WatchSpec.of(Pod, options).namespaces == ("",)


def test_two_models_of_one_kind_have_the_same_options():
    class OtherPod(Pod, version="v1", kind="Pod", plural="pods"):
        pass

    options = CacheOptions(by_kind={Pod: KindOptions(label_selector="app=web")})
    assert WatchSpec.of(OtherPod, options) == WatchSpec.of(Pod, options)


def test_a_bad_label_selector_is_found_early():
    with pytest.raises(ValueError, match="not a label selector"):
        WatchSpec.of(Pod, CacheOptions(by_kind={Pod: KindOptions(label_selector="app in web")}))


def test_a_resource_is_named_as_people_do():
    assert WatchSpec.of(Pod, CacheOptions()).resource == "pods"
    assert WatchSpec.of(Widget, CacheOptions()).resource == "widgets.example.com"
