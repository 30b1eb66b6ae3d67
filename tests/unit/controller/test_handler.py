from __future__ import annotations

from collections.abc import Iterable

from manager.cache import CacheEvent, Meta
from manager.controller.reconciler import Request
from manager.controller.source import Handler, enqueue_mapped, enqueue_object, enqueue_owner
from tests.unit.controller.objects import Change, Cluster, Foo, added, changed, owner, removed


def names(handler: Handler, event: CacheEvent) -> list[str]:
    return [str(request) for request in handler(event)]


def by_label(pod: Meta) -> Iterable[Request]:
    name = pod.labels.get("foo")
    return [Request(pod.namespace, name)] if name else []


def test_an_object_asks_for_itself():
    assert names(enqueue_object, added(name="a")) == ["ns/a"]
    assert names(enqueue_object, changed()) == ["ns/a"]
    assert names(enqueue_object, removed(name="b", namespace="")) == ["b"]


def test_an_object_asks_for_the_owner_that_controls_it():
    handler = enqueue_owner(Foo)
    assert names(handler, added(ownerReferences=[owner("foo-1")])) == ["ns/foo-1"]
    assert names(handler, removed(ownerReferences=[owner("foo-1")])) == ["ns/foo-1"]


def test_owners_of_another_kind_or_group_or_without_control_do_not_count():
    handler = enqueue_owner(Foo)
    references = [
        owner(controller=False),
        owner(kind="Bar"),
        owner(group="other.domain/"),
        owner(group=""),
    ]
    for reference in references:
        assert names(handler, added(ownerReferences=[reference])) == []
    assert names(handler, added()) == []


def test_the_version_of_the_owner_reference_does_not_matter():
    reference = {**owner("foo-1"), "apiVersion": "tutorial.my.domain/v1alpha1"}
    assert names(enqueue_owner(Foo), added(ownerReferences=[reference])) == ["ns/foo-1"]


def test_a_cluster_scoped_owner_is_asked_for_without_a_namespace():
    reference = owner("prod", kind="Cluster", group="example.com/")
    assert names(enqueue_owner(Cluster), added(ownerReferences=[reference])) == ["prod"]


def test_when_the_owner_changes_both_are_asked_for():
    handler = enqueue_owner(Foo)
    event = Change(ownerReferences=[owner("old")]).to(ownerReferences=[owner("new")])
    assert names(handler, event) == ["ns/new", "ns/old"]
    assert names(handler, Change(ownerReferences=[owner("old")]).to(ownerReferences=[])) == ["ns/old"]


def test_an_unchanged_owner_is_asked_for_once():
    event = Change(ownerReferences=[owner("foo-1")]).to(labels={"a": "b"})
    assert names(enqueue_owner(Foo), event) == ["ns/foo-1"]


def test_a_mapped_object_asks_for_what_its_metadata_stands_for_before_and_after():
    handler = enqueue_mapped(by_label)
    assert names(handler, added(labels={"foo": "x"})) == ["ns/x"]
    assert names(handler, removed(labels={"foo": "x"})) == ["ns/x"]
    assert names(handler, Change(labels={"foo": "x"}).to(labels={"foo": "y"})) == ["ns/y", "ns/x"]
    assert names(handler, Change(labels={"foo": "x"}).to(generation=2)) == ["ns/x"]
    assert names(handler, Change(labels={"foo": "x"}).to(labels={})) == ["ns/x"]
    assert names(handler, added()) == []


def test_a_mapping_may_be_a_generator_and_may_repeat_itself():
    def twice(meta: Meta) -> Iterable[Request]:
        yield Request("ns", "x")
        yield Request("ns", "x")

    assert names(enqueue_mapped(twice), changed(labels={"a": "b"})) == ["ns/x"]
