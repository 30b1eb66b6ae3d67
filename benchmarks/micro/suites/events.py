"""Kubernetes Events: recording one within a reconcile."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import orjson

from apis.cache.v1.memcached import Memcached
from benchmarks.micro.benchmark import Benchmark, ready
from benchmarks.micro.documents import sample
from benchmarks.micro.world import World

if TYPE_CHECKING:
    from benchmarks.micro.benchmark import Work

OBJECTS = 5_000
"""More than are remembered, so that each round's are new."""


def objects(count: int) -> list[Memcached]:
    found = []
    for index in range(count):
        document = orjson.loads(sample("memcached"))
        document["metadata"].update(name=f"sample-{index}", uid=f"uid-{index}")
        found.append(Memcached.model_validate(document))
    return found


def first() -> Work:
    """Record an Event about another object each time, as after a cold start."""
    events, about = World().manager.events, itertools.cycle(objects(OBJECTS))
    return lambda: events.event(next(about), "Normal", "Created", "Created Deployment sample with 3 replicas")


def repeated() -> Work:
    """Record a repeated Event about the same object."""
    events, [about] = World().manager.events, objects(1)
    return lambda: events.event(about, "Warning", "Failed", "the store cannot be reached")


def naive() -> Work:
    """Append an Event as a dict to a list."""
    about, rng = itertools.cycle(objects(OBJECTS)), random.Random(1)
    waiting: list[dict[str, object]] = []

    def work() -> None:
        obj = next(about)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        meta = obj.metadata
        event = {
            "metadata": {"name": f"{meta.name}.{rng.getrandbits(64):x}", "namespace": meta.namespace},
            "involvedObject": {
                "apiVersion": obj.api_version,
                "kind": obj.kind,
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
            },
            "type": "Normal",
            "reason": "Created",
            "message": "Created Deployment sample with 3 replicas",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        waiting.append(event)
        if len(waiting) > OBJECTS:
            waiting.clear()

    return work


BENCHMARKS = (
    Benchmark(
        "event.first", "an Event about an object that had none", ready(first), against=("event.naive",)
    ),
    Benchmark("event.repeated", "the same Event again", ready(repeated), against=("event.naive",)),
    Benchmark("event.naive", "an Event as a dict in a list", ready(naive)),
)
