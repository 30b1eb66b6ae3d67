"""Events, which two API groups serve in two forms of the same object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devcluster.builtin.base import Object, StoredStrategy, child, columns
from devcluster.builtin.checks import texts
from devcluster.errors import FieldError, field_invalid, field_required, invalid
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
"""The core group's fields with other names in the newer form."""


async def convert_events(events: list[Object], api_version: str) -> list[Object]:
    """Convert Events to `api_version`."""
    return [convert_event(each, api_version) for each in events]


def convert_event(event: Object, api_version: str) -> Object:
    """Convert an event to `api_version`."""
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
    """Events in the core group's form, in which they are stored."""

    create_on_update = True
    supports_propagation = False
    columns = columns(
        "Last Seen | Type | Reason | Object | Subobject* | Source* | Message | First Seen* | Count* | Name*"
    )

    def default(self, obj: Object) -> None:
        _default_core(obj)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        wrong = _namespaces(new, "involvedObject")
        return wrong + _said(new, "reportingComponent") if new.get("eventTime") else wrong

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

    def cells(self, obj: Object) -> list[Any]:
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
    """Events in the form of events.k8s.io."""

    def default(self, obj: Object) -> None:
        obj.setdefault("eventTime", None)
        child(obj, "regarding")
        child(obj, "deprecatedSource")
        obj.setdefault("deprecatedFirstTimestamp", None)
        obj.setdefault("deprecatedLastTimestamp", None)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        wrong = _namespaces(new, "regarding")
        if not new.get("eventTime"):
            wrong.append(field_required("eventTime"))
        else:
            wrong += _said(new)
        kind = new.get("type", "")
        if kind not in {"Normal", "Warning"}:
            wrong.append(field_invalid("type", "", f"has invalid value: {kind}"))
        for old, name in NAMES.items():
            if name.startswith("deprecated") and any(_values(new.get(name))):
                wrong.append(field_invalid(old, "", "needs to be unset"))
        if wrong:
            # The real server's error names the core group's kind, even for the other one.
            raise invalid("", "Event", new["metadata"].get("name", ""), wrong)
        return []

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        return _namespaces(new, "regarding")

    def fields(self, obj: Object) -> Mapping[str, str]:
        core = super().fields(convert_event(obj, CORE))
        renamed = {"involvedObject": "regarding", "reportingComponent": "reportingController"}
        return {
            f"{renamed.get(first, first)}{dot}{rest}": value
            for key, value in core.items()
            for first, dot, rest in [key.partition(".")]
        }

    def cells(self, obj: Object) -> list[Any]:
        return super().cells(convert_event(obj, CORE))


def _namespaces(event: Object, about: str) -> list[FieldError]:
    own = event["metadata"].get("namespace", "")
    other = (event.get(about) or {}).get("namespace", "")
    if own == other or (not other and own in {"default", "kube-system" if event.get("eventTime") else ""}):
        return []
    if other and event.get("eventTime"):
        return []
    return [field_invalid("involvedObject.namespace", other, "does not match event.namespace")]


def _said(event: Object, controller: str = "reportingController") -> list[FieldError]:
    """Check the reporting controller and the action."""
    name = event.get(controller) or ""
    wrong = texts(label_key(name), controller, name)
    missing = (each for each in (controller, *SAID) if not event.get(each))
    return wrong + [field_required(each) for each in missing]


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else [value]
