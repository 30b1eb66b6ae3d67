"""Cache without a server: the test delivers the watch events."""

from __future__ import annotations

import random
from typing import Any, cast

import msgspec

from manager.api import ObjectKey, Resource
from manager.cache import Cache, Informer
from manager.telemetry.metrics import Metrics
from tests.unit.controller.objects import raw


def offline_cache(metrics: Metrics) -> Cache:
    return Cache(
        cast("Any", None), cast("Any", None), field_manager="test", metrics=metrics, rng=random.Random(1)
    )


class Watched:
    """One kind in a cache without a server."""

    def __init__(
        self,
        cache: Cache,
        kind: type[Resource],
        *,
        metadata_only: bool = False,
        informer: Informer | None = None,
    ) -> None:
        self.kind = kind
        self.informer: Informer = (
            cache.informer(kind, metadata_only=metadata_only) if informer is None else informer
        )
        self._sink = self.informer._sinks[0]
        self._version = 1
        self._sink.begin_list()

    def listed(self, *names: str, **metadata: Any) -> None:
        """Deliver these objects as part of the first list, which stays incomplete."""
        for name in names:
            self._sink.list_item(msgspec.Raw(self._object(name, metadata)))

    def synced(self) -> None:
        """Complete the first list."""
        self._version += 1
        self._sink.finish_list(self._version)

    def put(self, name: str, **metadata: Any) -> None:
        """Deliver the creation or change of an object."""
        self._sink.event("MODIFIED", msgspec.Raw(self._object(name, metadata)))

    def delete(self, name: str) -> None:
        """Deliver the deletion of an object."""
        record = self.informer.get(ObjectKey("ns", name))
        assert record is not None
        self.informer.observe_delete(record.key, record.uid, b'{"kind":"Status","apiVersion":"v1"}')

    def _object(self, name: str, metadata: dict[str, Any]) -> bytes:
        self._version += 1
        return raw(name, version=self._version, kind=self.kind, **metadata)
