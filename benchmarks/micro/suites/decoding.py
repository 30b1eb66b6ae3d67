"""Decoding of watches, metadata and whole objects, next to other libraries' decoders."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

import msgspec
import orjson

from apis.cache.v1.memcached import Memcached
from benchmarks.micro.benchmark import Benchmark, ready
from benchmarks.micro.documents import FIELD_MANAGER, pod, pod_metadata, sample
from manager.api import PartialObjectMetadata
from manager.cache.record import RecordDecoder
from manager.kube.decoding import decode_event, lines
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Pod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.micro.benchmark import Work
    from manager.api import Resource

EVENTS = 100
CHUNK = 64 * 1024


def chunks() -> Sequence[bytes]:
    """Return a watch of whole pods in the chunks in which it arrives."""
    stream = b"".join(b'{"type":"ADDED","object":%b}\n' % pod(index) for index in range(EVENTS))
    return [stream[start : start + CHUNK] for start in range(0, len(stream), CHUNK)]


async def _arriving(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def watch() -> Work:
    pieces = chunks()

    async def work() -> None:
        async for line in lines(_arriving(pieces)):
            decode_event(line)

    return work


def watch_into_dicts() -> Work:
    pieces = chunks()

    async def work() -> None:
        rest = b""
        async for piece in _arriving(pieces):
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                orjson.loads(line)

    return work


def ingested(raw: bytes, *, metadata_only: bool = False) -> Work:
    decoder = RecordDecoder(Pod.gvk, field_manager=FIELD_MANAGER, metadata_only=metadata_only)
    arriving = msgspec.Raw(raw)
    return lambda: decoder(arriving)


def metadata(raw: bytes) -> Work:
    record, _ = RecordDecoder(Pod.gvk, field_manager=FIELD_MANAGER)(raw)
    return record.meta


def model(kind: type[Resource], raw: bytes) -> Work:
    record, _ = RecordDecoder(kind.gvk, field_manager=FIELD_MANAGER)(raw)
    return partial(kind.decode, record.raw)


def into_dict(raw: bytes) -> Work:
    """Decode into a dict with all managedFields, the first step of an informer of dicts."""
    return partial(orjson.loads, raw)


def copied(raw: bytes) -> Work:
    """Copy an object, the cost of a read from a cache of decoded objects."""
    document = orjson.loads(raw)
    del document["metadata"]["managedFields"]
    return partial(copy.deepcopy, document)


@contextlib.asynccontextmanager
async def generated(kind: str, raw: bytes) -> AsyncIterator[Work]:
    """Decode into the models that kubernetes-asyncio generates, with its client."""
    # The import is delayed: it takes a second and tens of megabytes.
    from kubernetes_asyncio.client import ApiClient, Configuration  # noqa: PLC0415

    async with ApiClient(Configuration()) as client:
        yield partial(client.deserialize, SimpleNamespace(data=raw), kind)


def encoded(kind: type[Resource], raw: bytes) -> Work:
    obj = kind.decode(raw)
    return lambda: orjson.dumps(obj.to_wire())


def dict_encoded(raw: bytes) -> Work:
    return partial(orjson.dumps, orjson.loads(raw))


BENCHMARKS = (
    Benchmark(
        "decode.watch",
        "a watch event of a pod of 10 KB, cut out of the stream and split",
        ready(watch),
        units=EVENTS,
        against=("decode.watch-orjson",),
    ),
    Benchmark("decode.watch-orjson", "the same, decoded into dicts", ready(watch_into_dicts), units=EVENTS),
    Benchmark(
        "decode.ingest",
        "a pod of 10 KB made a record: metadata decoded, others' managedFields cut out",
        ready(lambda: ingested(pod())),
        against=("decode.pod-orjson",),
    ),
    Benchmark(
        "decode.ingest-metadata",
        "a pod's metadata, 5 KB, made a record",
        ready(lambda: ingested(pod_metadata(), metadata_only=True)),
        against=("decode.ingest",),
    ),
    Benchmark(
        "decode.metadata",
        "the metadata read from a pod's record",
        ready(lambda: metadata(pod())),
        against=("decode.pod-orjson",),
    ),
    Benchmark(
        "decode.pod",
        "a pod read from the cache as its model",
        ready(lambda: model(Pod, pod())),
        against=("decode.pod-orjson", "decode.pod-copy", "decode.pod-kubernetes-asyncio"),
    ),
    Benchmark("decode.pod-orjson", "a pod into a dict", ready(lambda: into_dict(pod()))),
    Benchmark("decode.pod-copy", "a copy of a pod that is a dict", ready(lambda: copied(pod()))),
    Benchmark(
        "decode.pod-kubernetes-asyncio",
        "a pod into kubernetes-asyncio's model",
        lambda: generated("V1Pod", pod()),
    ),
    Benchmark(
        "decode.deployment",
        "a Deployment read from the cache as its model",
        ready(lambda: model(Deployment, sample("deployment"))),
        against=("decode.deployment-orjson", "decode.deployment-kubernetes-asyncio"),
    ),
    Benchmark(
        "decode.deployment-orjson", "a Deployment into a dict", ready(lambda: into_dict(sample("deployment")))
    ),
    Benchmark(
        "decode.deployment-kubernetes-asyncio",
        "a Deployment into kubernetes-asyncio's model",
        lambda: generated("V1Deployment", sample("deployment")),
    ),
    Benchmark(
        "decode.memcached",
        "a Memcached read from the cache as its model",
        ready(lambda: model(Memcached, sample("memcached"))),
        against=("decode.memcached-orjson",),
    ),
    Benchmark(
        "decode.memcached-orjson", "a Memcached into a dict", ready(lambda: into_dict(sample("memcached")))
    ),
    Benchmark(
        "decode.partial",
        "a pod's metadata read from the cache as a model",
        ready(lambda: model(PartialObjectMetadata, pod_metadata())),
        against=("decode.partial-orjson",),
    ),
    Benchmark("decode.partial-orjson", "the same into a dict", ready(lambda: into_dict(pod_metadata()))),
    Benchmark(
        "decode.encode-memcached",
        "a Memcached encoded from its model",
        ready(lambda: encoded(Memcached, sample("memcached"))),
        against=("decode.encode-orjson",),
    ),
    Benchmark(
        "decode.encode-orjson",
        "a Memcached encoded from a dict",
        ready(lambda: dict_encoded(sample("memcached"))),
    ),
)
