"""The objects that are decoded, kept and compared."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import orjson

from benchmarks.pod_store import encode_pod

FIELD_MANAGER = "operator-manager"

_SAMPLES = Path(__file__).parent / "samples"


@cache
def sample(kind: str) -> bytes:
    """A `memcached` or its `deployment`, converged, as a real API server and its controllers left it."""
    return orjson.dumps(orjson.loads((_SAMPLES / f"{kind}.json").read_bytes()))


@cache
def pod(index: int = 0) -> bytes:
    """A pod of some 10 KB as the API server sends it; 45 % are managedFields."""
    return at_version(encode_pod(index), index + 1)


@cache
def pod_metadata(index: int = 0) -> bytes:
    """The same pod as PartialObjectMetadata."""
    metadata = orjson.loads(pod(index))["metadata"]
    return orjson.dumps(
        {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    )


def at_version(raw: bytes, version: int) -> bytes:
    """The object with another resourceVersion."""
    document: dict[str, Any] = orjson.loads(raw)
    document["metadata"]["resourceVersion"] = str(version)
    return orjson.dumps(document)


def template(raw: bytes) -> tuple[bytes, bytes]:
    """What comes before and after the resourceVersion of an object."""
    mark = 987_654_321
    before, after = at_version(raw, mark).split(str(mark).encode())
    return before, after
