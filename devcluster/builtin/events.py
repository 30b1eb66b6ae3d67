"""Defaults, validation and tables of Events in the core group and events.k8s.io, and their conversion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devcluster.builtin.base import Object, StoredStrategy, child, columns
from devcluster.errors import FieldError, invalid
from devcluster.kinds.field import Field
from devcluster.kinds.strategy import Context
from devcluster.names import label_key

SAID = ("reportingInstance", "action", "reason")
CORE, NEW = "v1", "events.k8s.io/v1"
NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
"""Fields of the core group's form that have other names in the newer form."""


async def convert_events(events: list[Object], api_version: str) -> list[Object]:
    """Convert Events to the form of `api_version`."""
    return [convert_event(each, api_version) for each in events]


def convert_event(event: Object, api_version: str) -> Object:
    """Convert one Event to the form of `api_version`."""
    if event.get("apiVersion") == api_version:
        return event
    names = NAMES if api_version == NEW else {new: old for old, new in NAMES.items()}
    converted = {names.get(key, key): value for key, value in event.items()}
    converted["apiVersion"] = api_version
    if api_version == NEW:
        for name in ("reportingController", "reportingInstance"):
            if not converted.get(name):
                converted.pop(name, None)
    else:
        _default_core(converted)
    return converted


def _default_core(event: Object) -> None:
    child(event, "involvedObject")
    child(event, "source")
    for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
        event.setdefault(name, None)
    for name in ("reportingComponent", "reportingInstance"):
        event.setdefault(name, "")


class CoreEventStrategy(StoredStrategy):
    """Strategy (defaults, validation, columns) of Events in the stored form, which is the core group's."""

    create_on_update = True
    supports_propagation = False
    columns = columns(
        "Last Seen | Type | Reason | Object | Subobject* | Source* | Message | First Seen* | Count* | Name*"
    )

    def default(self, obj: Object) -> None:
        _default_core(obj)

    def check(self, obj: Field) -> None:
        _check_namespaces(obj, "involvedObject")
        if obj["eventTime"]:
            _check_reporter(obj, "reportingComponent")

    def fields(self, obj: Object) -> Mapping[str, str]:
        about = obj.get("involvedObject") or {}
        source = obj.get("source") or {}
        names = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        return {
            **{f"involvedObject.{name}": about.get(name, "") for name in names},
            "reason": obj.get("reason", ""),
            "reportingComponent": obj.get("reportingComponent", ""),
            "source": source.get("component") or obj.get("reportingComponent", ""),
            "type": obj.get("type", ""),
        }

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        about, source = obj.get("involvedObject") or {}, obj.get("source") or {}
        series = obj.get("series")
        first = self.since(obj.get("firstTimestamp") or obj.get("eventTime"))
        last = self.since(obj["lastTimestamp"]) if obj.get("lastTimestamp") else first
        count = obj.get("count") or 1
        if series:
            last, count = self.since(series.get("lastObservedTime")), series.get("count", 0)
        target = about.get("kind", "").lower()
        component = source.get("component") or obj.get("reportingComponent") or ""
        instance = source.get("host") or obj.get("reportingInstance") or ""
        return [
            last,
            obj.get("type", ""),
            obj.get("reason", ""),
            f"{target}/{about['name']}" if about.get("name") else target,
            about.get("fieldPath", ""),
            f"{component}, {instance}" if instance else component,
            (obj.get("message") or "").strip(),
            first,
            count,
        ]


class NewEventStrategy(CoreEventStrategy):
    """Strategy (defaults, validation, table columns) of Events in the form of events.k8s.io."""

    def default(self, obj: Object) -> None:
        obj.setdefault("eventTime", None)
        child(obj, "regarding")
        child(obj, "deprecatedSource")
        obj.setdefault("deprecatedFirstTimestamp", None)
        obj.setdefault("deprecatedLastTimestamp", None)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        wrong = super().validate_create(new, context)
        if wrong:
            # The real server's error names the core group's kind, even in the newer group.
            raise invalid("", "Event", new["metadata"].get("name", ""), wrong)
        return wrong

    def check(self, obj: Field) -> None:
        _check_namespaces(obj, "regarding")
        if obj["eventTime"]:
            _check_reporter(obj, "reportingController")
        else:
            obj["eventTime"].required()
        kind = obj.get("type", "")
        if kind not in {"Normal", "Warning"}:
            obj["type"].invalid(f"has invalid value: {kind}", "")
        for old, name in NAMES.items():
            if name.startswith("deprecated") and any(_values(obj.get(name))):
                obj[old].invalid("needs to be unset", "")

    def check_update(self, obj: Field, old: Field) -> None:
        _check_namespaces(obj, "regarding")

    def fields(self, obj: Object) -> Mapping[str, str]:
        core = super().fields(convert_event(obj, CORE))
        renamed = {"involvedObject": "regarding", "reportingComponent": "reportingController"}
        return {
            f"{renamed.get(first, first)}{dot}{rest}": value
            for key, value in core.items()
            for first, dot, rest in [key.partition(".")]
        }

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return super().cells(convert_event(obj, CORE), spec, status)


def _check_namespaces(event: Field, about: str) -> None:
    own, other = event["metadata"].get("namespace", ""), event[about].get("namespace", "")
    if own == other or (not other and own in {"default", "kube-system" if event["eventTime"] else ""}):
        return
    if not (other and event["eventTime"]):
        event["involvedObject"]["namespace"].invalid("does not match event.namespace", other)


def _check_reporter(event: Field, controller: str) -> None:
    """Check the fields that name the reporting controller and the action of an Event."""
    event.at(controller, "").check(label_key)
    for name in (controller, *SAID):
        if not event[name]:
            event[name].required()


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else [value]
