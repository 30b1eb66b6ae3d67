from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from devcluster.clock import Clock
from devcluster.crd.definition import DefinitionStrategy
from devcluster.crd.establish import GROUP, PLURAL, Establisher
from devcluster.kinds.registry import Registry
from devcluster.kinds.strategy import Context
from devcluster.storage.records import Key, Stored
from devcluster.storage.store import Store

Object = dict[str, Any]
STRATEGY = DefinitionStrategy()


class Cluster:
    """Store and registry of CRDs, without an API server."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = store or Store()
        self.registry = Registry()
        self.establisher = Establisher(self.store, self.registry, Clock(lambda: 1e9))
        self.context = Context(store=self.store, now="2026-01-01T00:00:00Z", user=None)  # type: ignore[arg-type]

    def define(self, group: str = "example.com") -> None:
        definition: Object = {
            "kind": "CustomResourceDefinition",
            "apiVersion": "apiextensions.k8s.io/v1",
            "metadata": {"name": f"widgets.{group}", "uid": group},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [version("v1", storage=True), version("v1beta1")],
            },
        }
        STRATEGY.prepare_create(definition, self.context)
        STRATEGY.default(definition)
        self.store.create(key(group), definition)

    def add(self, name: str, finalizers: list[str] | None = None) -> Key:
        where = Key("example.com", "widgets", "default", name)
        metadata: Object = {"name": name, "namespace": "default"}
        if finalizers:
            metadata["finalizers"] = finalizers
        obj = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": metadata}
        self.store.create(where, obj)
        return where

    def establish(self, group: str = "example.com") -> None:
        self.define(group)
        self.establisher.settle()

    def versions(self, group: str = "example.com") -> list[str]:
        return [each.version for each in self.registry.versions(group, "widgets")]

    def mark(self) -> None:
        definition = self.store.get(key()).decode()
        assert STRATEGY.prepare_delete(definition, self.context)
        self.store.update(key(), definition)

    def delete(self) -> None:
        self.mark()
        self.establisher.settle()


def version(name: str, *, storage: bool = False) -> Object:
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}}


def key(group: str = "example.com") -> Key:
    return Key(GROUP, PLURAL, "", f"widgets.{group}")


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.establisher.start()
    return made


def test_establisher_serves_crds_that_were_established_before_a_restart():
    first = Cluster()
    first.establisher.start()
    first.establish()
    second = Cluster(first.store)
    second.establisher.start()
    assert len(second.versions()) == 2


async def test_crd_deletion_with_many_objects_yields_to_other_tasks(cluster: Cluster):
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


async def test_crd_deletion_deletes_an_object_created_during_the_deletion(cluster: Cluster):
    cluster.establish()
    held = cluster.add("one", ["example.com/wait"])
    cluster.delete()
    late = cluster.add("late")
    cluster.establisher.settle()
    assert cluster.store.get(late) is None
    cluster.store.delete(held)
    cluster.establisher.settle()
    assert cluster.store.get(key()) is None


def test_establisher_does_not_decode_existing_crds_when_it_establishes_a_new_crd(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
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


def test_establisher_establishes_the_remaining_crds_when_called_again_after_a_failure(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    cluster.define(group="one.example.com")
    cluster.define(group="two.example.com")
    with monkeypatch.context() as broken:
        broken.setattr(cluster.store, "update", Mock(side_effect=RuntimeError("full")))
        with pytest.raises(RuntimeError, match="full"):
            cluster.establisher.settle()
    cluster.establisher.settle()
    assert len(cluster.versions(group="two.example.com")) == 2
