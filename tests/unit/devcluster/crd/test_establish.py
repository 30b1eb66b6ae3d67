from __future__ import annotations

import asyncio
from typing import Any

import pytest

from devcluster.clock import Clock
from devcluster.crd.definition import CLEANUP_FINALIZER, DefinitionStrategy
from devcluster.crd.establish import GROUP, PLURAL, Establisher
from devcluster.kinds.registry import Registry
from devcluster.kinds.resource import Resource
from devcluster.kinds.strategy import Context
from devcluster.storage.records import Key, Stored
from devcluster.storage.store import Store

Object = dict[str, Any]
STRATEGY = DefinitionStrategy()


class Cluster:
    """A store whose definitions are established, without a server around it."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = store or Store()
        self.registry = Registry()
        self.establisher = Establisher(self.store, self.registry, Clock(lambda: 1e9))
        self.context = Context(store=self.store, now="2026-01-01T00:00:00Z", user=None)  # type: ignore[arg-type]

    def define(self, plural: str = "widgets", group: str = "example.com", **names: Any) -> Object:
        definition: Object = {
            "kind": "CustomResourceDefinition",
            "apiVersion": "apiextensions.k8s.io/v1",
            "metadata": {"name": f"{plural}.{group}", "uid": plural},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": plural, "kind": "Widget", **names},
                "versions": [
                    version("v1", storage=True),
                    version("v2", served=False),
                    version("v1beta1", deprecated=True),
                ],
            },
        }
        STRATEGY.prepare_create(definition, self.context)
        STRATEGY.default(definition)
        self.store.create(key(plural, group), definition)
        return definition

    def definition(self, plural: str = "widgets", group: str = "example.com") -> Object:
        stored = self.store.get(key(plural, group))
        assert stored is not None
        return stored.decode()

    def conditions(self, plural: str = "widgets") -> dict[str, tuple[str, str]]:
        definition = self.definition(plural)
        return {each["type"]: (each["status"], each["reason"]) for each in definition["status"]["conditions"]}

    def add(self, name: str, finalizers: list[str] | None = None) -> Key:
        where = Key("example.com", "widgets", "default", name)
        metadata: Object = {"name": name, "namespace": "default"}
        if finalizers:
            metadata["finalizers"] = finalizers
        obj = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": metadata}
        self.store.create(where, obj)
        return where

    def establish(self, plural: str = "widgets", group: str = "example.com", **names: Any) -> None:
        self.define(plural, group, **names)
        self.establisher.settle()

    def resource(self, version: str = "v1") -> Resource:
        found = self.registry.find("example.com", version, "widgets")
        assert found is not None
        return found

    def versions(self, plural: str = "widgets", group: str = "example.com") -> list[str]:
        return [each.version for each in self.registry.versions(group, plural)]

    def mark(self, plural: str = "widgets") -> None:
        definition = self.definition(plural)
        assert STRATEGY.prepare_delete(definition, self.context)
        self.store.update(key(plural), definition)

    def delete(self) -> None:
        self.mark()
        self.establisher.settle()


def version(name: str, *, storage: bool = False, served: bool = True, **more: Any) -> Object:
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def key(plural: str = "widgets", group: str = "example.com") -> Key:
    return Key(GROUP, PLURAL, "", f"{plural}.{group}")


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.establisher.start()
    return made


def test_definition_is_established_with_its_served_versions(cluster: Cluster):
    cluster.establish(shortNames=["wd"], categories=["all"])
    assert cluster.conditions() == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert cluster.versions() == ["v1", "v1beta1"]
    resource = cluster.resource()
    assert (resource.kind, resource.list_kind, resource.singular) == ("Widget", "WidgetList", "widget")
    assert (resource.short_names, resource.categories) == (("wd",), ("all",))
    assert resource.storage_version == "v1"
    old = cluster.resource("v1beta1")
    assert old.deprecation == "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget"


def test_establisher_serves_definitions_established_before_a_restart():
    first = Cluster()
    first.establisher.start()
    first.establish()
    second = Cluster(first.store)
    second.establisher.start()
    assert len(second.versions()) == 2


def test_names_that_another_has_are_refused_until_they_are_free(cluster: Cluster):
    cluster.establish()
    cluster.establish("gadgets", singular="gadget")
    assert cluster.conditions("gadgets") == {
        "NamesAccepted": ("False", "ListKindConflict"),
        "Established": ("False", "NotAccepted"),
    }
    assert cluster.versions("gadgets") == []
    cluster.delete()
    cluster.establisher.settle()
    assert cluster.conditions("gadgets")["Established"] == ("True", "InitialNamesAccepted")
    assert len(cluster.versions("gadgets")) == 2


def test_definition_may_repeat_the_names_of_another_group(cluster: Cluster):
    cluster.define()
    cluster.establish(group="example.org")
    assert len(cluster.versions(group="example.org")) == 2


def test_deleted_definition_deletes_its_objects(cluster: Cluster):
    cluster.establish()
    where = cluster.add("one")
    cluster.delete()
    assert cluster.store.get(where) is None
    assert cluster.store.get(key()) is None
    assert cluster.versions() == []


async def test_deletion_of_many_objects_lets_others_run(cluster: Cluster):
    cluster.establish()
    for number in range(1000):
        cluster.add(f"w{number}", ["example.com/wait"] if number % 2 else None)
    cluster.mark()
    counts = set()
    while (count := cluster.store.count("example.com", "widgets")) > 500:
        counts.add(count)
        await asyncio.sleep(0)
    assert len(counts) >= 4
    await asyncio.sleep(0)
    left = [each.decode()["metadata"] for each in cluster.store.select("example.com", "widgets")]
    assert len(left) == 500
    assert all("deletionTimestamp" in each for each in left)


async def test_deletion_reaches_an_object_that_is_created_meanwhile(cluster: Cluster):
    cluster.establish()
    held = cluster.add("one", ["example.com/wait"])
    cluster.delete()
    late = cluster.add("late")
    cluster.establisher.settle()
    assert cluster.store.get(late) is None
    cluster.store.delete(held)
    cluster.establisher.settle()
    assert cluster.store.get(key()) is None


def test_deleted_definition_waits_for_finalizers_and_refuses_new_objects(cluster: Cluster):
    cluster.establish()
    where = cluster.add("one", ["example.com/wait"])
    cluster.delete()
    definition = cluster.definition()
    assert definition["metadata"]["finalizers"] == [CLEANUP_FINALIZER]
    assert cluster.conditions()["Terminating"] == ("True", "InstanceDeletionInProgress")
    stored = cluster.store.get(where)
    assert stored is not None
    assert "deletionTimestamp" in stored.decode()["metadata"]
    assert cluster.resource().closing
    cluster.store.delete(where)
    cluster.establisher.settle()
    assert cluster.store.get(key()) is None


def test_changed_schema_is_in_force_at_once(cluster: Cluster):
    cluster.establish()
    definition = cluster.definition()
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["required"] = ["spec"]
    cluster.store.update(key(), definition)
    resource = cluster.resource()
    new = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "a"}}
    (error,) = resource.strategy.validate_create(new, cluster.context)
    assert str(error) == "spec: Required value"


def test_definition_keeps_a_version_in_which_objects_were_stored(cluster: Cluster):
    old = cluster.define()
    new = {**old, "spec": {**old["spec"], "versions": [version("v3", storage=True)]}}
    STRATEGY.prepare_update(new, old, cluster.context)
    assert new["status"]["storedVersions"] == ["v1", "v3"]
    (error,) = STRATEGY.validate_update(new, old, cluster.context)
    assert str(error).startswith(
        'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was'
    )


def test_settle_decodes_no_definitions_of_other_groups(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    for group in ("one.example.com", "two.example.com"):
        cluster.establish(group=group)
    decoded: list[str] = []
    decode = Stored.decode

    def counted(stored: Stored) -> Object:
        decoded.append(stored.key.name)
        return decode(stored)

    monkeypatch.setattr(Stored, "decode", counted)
    cluster.establish(group="three.example.com")
    assert set(decoded) == {"widgets.three.example.com"}


def test_settle_continues_with_the_other_definitions_after_a_failure(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    cluster.define(group="one.example.com")
    cluster.define(group="two.example.com")
    with monkeypatch.context() as broken:
        broken.setattr(cluster.store, "update", fail)
        with pytest.raises(RuntimeError, match="full"):
            cluster.establisher.settle()
    cluster.establisher.settle()
    assert len(cluster.versions(group="two.example.com")) == 2


def fail(*_: object) -> None:
    raise RuntimeError("full")
