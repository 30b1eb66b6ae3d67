"""Objects that are decoded and kept, and the Memcached operator."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from benchmarks.pod_store import encode_pod
from controllers.cache.memcached import MemcachedOperator
from manager.kube.transport import Transport
from manager.process.manager import Manager
from manager.settings import SettingValues
from manager.telemetry.metrics import Metrics
from manager.util.program import Program

if TYPE_CHECKING:
    from manager.kube.wire import Wire

FIELD_MANAGER = "operator-manager"

_SAMPLES = Path(__file__).parent / "samples"


@cache
def sample(kind: str) -> bytes:
    """Return a converged `memcached` or its `deployment`, as a real API server and controllers left it."""
    return orjson.dumps(orjson.loads((_SAMPLES / f"{kind}.json").read_bytes()))


@cache
def pod(index: int = 0) -> bytes:
    """Return a pod of about 10 KB as the API server sends it; 45 % are managedFields."""
    return at_version(encode_pod(index), index + 1)


@cache
def pod_metadata(index: int = 0) -> bytes:
    """Return the same pod as PartialObjectMetadata."""
    metadata = orjson.loads(pod(index))["metadata"]
    return orjson.dumps(
        {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    )


def at_version(raw: bytes, version: int) -> bytes:
    """Return the object with another resourceVersion."""
    document: dict[str, Any] = orjson.loads(raw)
    document["metadata"]["resourceVersion"] = str(version)
    return orjson.dumps(document)


def template(raw: bytes) -> tuple[bytes, bytes]:
    """Return an object's JSON before and after its resourceVersion."""
    mark = 987_654_321
    before, after = at_version(raw, mark).split(str(mark).encode())
    return before, after


class World:
    """The Memcached operator in a manager that does not run yet."""

    def __init__(self, wire: Wire) -> None:
        metrics, rng = Metrics(), random.Random(1)
        self.transport = Transport(wire, metrics=metrics, rng=rng, user_agent="benchmark")
        settings = {key: key.default_value() for key in MemcachedOperator.declared_settings}
        self.manager = Manager(
            self.transport,
            program=Program(FIELD_MANAGER, "0"),
            metrics=metrics,
            rng=rng,
            identity="benchmark",
            settings=SettingValues(settings),
        )
        self.cache = self.manager.cache
        self.operator = MemcachedOperator(self.manager)
        self.operator.proxy = []
        self.client = self.operator.client
