"""Resources of the metrics API (metrics.k8s.io); annotations of pods and nodes define their usage.

docs/devcluster.md lists the annotations. Autoscalers read the same annotations.
"""

from __future__ import annotations

from fractions import Fraction

from devcluster.builtin.base import BuiltinStrategy, Object, at, columns
from devcluster.builtin.checks import value_of
from devcluster.clock import Clock
from devcluster.kinds.registry import Registry
from devcluster.kinds.resource import Resource
from devcluster.schema.node import Schema
from devcluster.storage.records import Change, Stored
from devcluster.storage.store import Store

PREFIX = "devcluster.local/"
"""The prefix of devcluster's own annotations."""
GROUP, VERSION = "metrics.k8s.io", "v1beta1"
USAGE = ("cpu", "memory")
MARKS = tuple(f'"{PREFIX}{name}":'.encode() for name in USAGE)
KINDS = {("", "pods"): "PodMetrics", ("", "nodes"): "NodeMetrics"}
WINDOW = "15s"


def metric_of(obj: Object | None, name: str) -> Fraction | None:
    """Return the metric from the object's annotation, or None if it has no such annotation."""
    text = (at(obj, "metadata.annotations") or {}).get(PREFIX + name)
    return None if text is None else value_of(text)


class MetricsStrategy(BuiltinStrategy):
    """Strategy of PodMetrics and NodeMetrics, which defines only their table columns."""

    columns = columns("Name | CPU | Memory | Window")

    def cells(self, obj: Object, spec: Object, status: Object) -> list[str]:
        usage: Object = obj.get("usage") or next((each["usage"] for each in obj.get("containers") or ()), {})
        return [*(usage.get(name, "0") for name in USAGE), obj["window"]]


class MetricsApi:
    """Both resources of metrics.k8s.io, which are served once a pod or node has usage annotations."""

    def __init__(self, store: Store, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._served = False
        for place in KINDS:
            for stored in store.select(*place):
                self._follow(Change(stored.version, stored.key, None, stored))
        store.subscribe(self._follow)

    def _follow(self, change: Change) -> None:
        if not self._served and change.key[:2] in KINDS and change.new is not None and has_usage(change.new):
            self._served = True
            for place, kind in KINDS.items():
                self._registry.add(self._resource(place, kind))

    def _resource(self, place: tuple[str, str], kind: str) -> Resource:
        return Resource(
            group=GROUP,
            version=VERSION,
            kind=kind,
            plural=place[1],
            singular="",
            list_kind=f"{kind}List",
            namespaced=kind == "PodMetrics",
            verbs=("get", "list"),
            schema=Schema(type="object"),
            strategy=MetricsStrategy(self._clock),
            columns=MetricsStrategy.columns,
            storage_version="v1",
            store_as=place,
            shows=has_usage,
            convert=self._convert,
        )

    async def _convert(self, objects: list[Object], api_version: str) -> list[Object]:
        now = self._clock.timestamp()
        return [
            {**_usage(each), "apiVersion": api_version, "timestamp": now, "window": WINDOW}
            for each in objects
        ]


def has_usage(stored: Stored) -> bool:
    """Return whether the annotations of a pod or node define its usage."""
    return any(mark in stored.data for mark in MARKS)


def _usage(obj: Object) -> Object:
    metadata, annotations = obj["metadata"], obj["metadata"].get("annotations") or {}
    usage = {name: annotations.get(PREFIX + name, "0") for name in USAGE}
    shown = {
        name: metadata[name]
        for name in ("name", "namespace", "labels", "creationTimestamp")
        if name in metadata
    }
    if obj["kind"] == "Node":
        return {"kind": "NodeMetrics", "metadata": shown, "usage": usage}
    containers = [{"name": each["name"], "usage": usage} for each in obj["spec"]["containers"]]
    return {"kind": "PodMetrics", "metadata": shown, "containers": containers}
