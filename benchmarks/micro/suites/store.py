"""The cache's store: an event, a list, and whether their cost grows with the number of objects."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec
import orjson

from benchmarks.micro.benchmark import Benchmark, ready
from benchmarks.micro.documents import FIELD_MANAGER, pod, pod_metadata, template
from manager.api import ObjectKey
from manager.cache.record import RecordDecoder
from manager.cache.sink import Sink
from manager.cache.store import Store
from manager_kinds.core_v1 import Pod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.micro.benchmark import Work
    from manager.cache import CacheEvent

SIZES = (100, 10_000, 100_000)
SMALLEST = SIZES[0]
PER_OWNER = 3
FIRST_NEW_VERSION = 10_000_000


# Benchmarks that run at the same time share these stores, whose largest has about 200 MB.
_filled: WeakValueDictionary[int, Store] = WeakValueDictionary()


def small(index: int) -> bytes:
    """Return a pod's metadata without large fields that do not matter here; an owner's pods share a label."""
    owner = f"sample-{index // PER_OWNER}"
    metadata = {
        "name": f"{owner}-7cf59d949b-{index}",
        "namespace": "default",
        "uid": f"00000000-0000-0000-0000-{index:012}",
        "resourceVersion": str(index + 1),
        "labels": {"app": "memcached", "memcached_cr": owner},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        ],
    }
    return orjson.dumps(
        {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    )


def filled(count: int) -> Store:
    """Return a store of `count` small pods, with its indexes by namespace, label and owner built."""
    store = _filled.get(count)
    if store is not None:
        return store
    store = _filled[count] = Store()
    decoder = _decoder(metadata_only=True)
    for index in range(count):
        store.put(*decoder(small(index)))
    select(store)
    store.select(owner_uid="sample-0")
    return store


def select(store: Store) -> Sequence[object]:
    """Select pods as the Memcached operator does."""
    return store.select(namespace="default", labels={"app": "memcached", "memcached_cr": "sample-7"})


def event_among(count: int) -> Work:
    """Change one of many small pods."""
    sink = Sink(filled(count), _decoder(metadata_only=True), "", publish=_nobody)
    return _changing(sink, small(count // 2))


def event(raw: bytes, *, metadata_only: bool) -> Work:
    """Change a pod that is alone in its store."""
    store = Store()
    sink = Sink(store, _decoder(metadata_only=metadata_only), "", publish=_nobody)
    work = _changing(sink, raw)
    work()
    select(store)
    store.select(owner_uid="somebody")
    return work


def naive_event(raw: bytes) -> Work:
    """Do what a cache of decoded objects does: decode, drop managedFields, index by label and owner."""
    before, after = template(raw)
    versions = itertools.count(FIRST_NEW_VERSION)
    held: dict[ObjectKey, dict[str, Any]] = {}
    index: dict[tuple[str, str], set[ObjectKey]] = {}

    def entries(document: dict[str, Any]) -> set[tuple[str, str]]:
        metadata = document["metadata"]
        labels = set(metadata["labels"].items())
        return labels | {("owner", each["uid"]) for each in metadata["ownerReferences"]}

    def work() -> None:
        document = orjson.loads(b"%b%d%b" % (before, next(versions), after))
        metadata = document["metadata"]
        metadata.pop("managedFields", None)
        key = ObjectKey(metadata["namespace"], metadata["name"])
        old = held.get(key)
        if old is not None and int(old["metadata"]["resourceVersion"]) >= int(metadata["resourceVersion"]):
            return
        held[key] = document
        was, now = entries(old) if old else set(), entries(document)
        for each in was - now:
            index[each].discard(key)
        for each in now - was:
            index.setdefault(each, set()).add(key)

    return work


def list_by_label(count: int) -> Work:
    store = filled(count)
    return lambda: select(store)


def list_by_owner(count: int) -> Work:
    store = filled(count)
    return lambda: store.select(owner_uid="sample-7")


def naive_list() -> Work:
    """Select from a dict by label and a dict of objects."""
    store = filled(SMALLEST)
    held = {record.key: record for record in store}
    index: dict[str, set[ObjectKey]] = {}
    for record in store:
        index.setdefault(record.meta().labels["memcached_cr"], set()).add(record.key)
    return lambda: [held[key] for key in sorted(index["sample-7"])]


def list_all(count: int) -> Work:
    store = filled(count)
    return store.select


def _decoder(*, metadata_only: bool) -> RecordDecoder:
    return RecordDecoder(Pod.gvk, field_manager=FIELD_MANAGER, metadata_only=metadata_only)


def _changing(sink: Sink, raw: bytes) -> Work:
    before, after = template(raw)
    versions = itertools.count(FIRST_NEW_VERSION)

    def work() -> None:
        sink.event("MODIFIED", msgspec.Raw(b"%b%d%b" % (before, next(versions), after)))

    return work


def _nobody(events: Sequence[CacheEvent]) -> None:
    assert events


BENCHMARKS = (
    Benchmark(
        "store.event-whole",
        "a changed pod of 10 KB taken in whole",
        ready(lambda: event(pod(), metadata_only=False)),
        against=("store.event-naive",),
    ),
    Benchmark("store.event-naive", "the same kept as a dict", ready(lambda: naive_event(pod()))),
    Benchmark(
        "store.event-metadata",
        "a changed pod's metadata, 5 KB, taken in",
        ready(lambda: event(pod_metadata(), metadata_only=True)),
        against=("store.event-metadata-naive",),
    ),
    Benchmark(
        "store.event-metadata-naive", "the same kept as a dict", ready(lambda: naive_event(pod_metadata()))
    ),
    *(
        Benchmark(
            f"store.event-among-{count}",
            f"a small object of {count} changes",
            ready(partial(event_among, count)),
            against=() if count == SMALLEST else (f"store.event-among-{SMALLEST}",),
        )
        for count in SIZES
    ),
    *(
        Benchmark(
            f"store.list-label-{count}",
            f"a list of {PER_OWNER} by namespace and two labels, one of which all {count} have",
            ready(partial(list_by_label, count)),
            against=("store.list-naive",) if count == SMALLEST else (f"store.list-label-{SMALLEST}",),
        )
        for count in SIZES
    ),
    *(
        Benchmark(
            f"store.list-owner-{count}",
            f"a list of {PER_OWNER} by owner among {count}",
            ready(partial(list_by_owner, count)),
            against=("store.list-naive",) if count == SMALLEST else (f"store.list-owner-{SMALLEST}",),
        )
        for count in SIZES[:2]
    ),
    Benchmark("store.list-naive", f"a list of {PER_OWNER} out of two dicts", ready(naive_list)),
    *(
        Benchmark(
            f"store.list-all-{count}",
            f"each object of a list of all {count}",
            ready(partial(list_all, count)),
            units=count,
            against=() if count == SMALLEST else (f"store.list-all-{SMALLEST}",),
        )
        for count in SIZES[:2]
    ),
)
