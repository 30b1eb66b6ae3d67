"""The report of a running manager about one object: the console serves it as JSON, `explain` reads it."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from manager.kube.decoding import shallow_at_once
from manager.telemetry.runs import EventRecord, ReconcileRecord, RequestRecord, Trigger


class NextReconcile(msgspec.Struct):
    """The next reconcile of an object."""

    at: float | None
    """Unix time; None is as soon as a worker is free."""

    triggers: tuple[Trigger, ...]


class ControllerReport(msgspec.Struct):
    """The past, running and next reconciles of an object by one controller. All times are Unix time."""

    controller: str
    state: str
    paused: bool
    uid: str | None
    """The object's UID in the cache, by which a reader finds out whether it is the same object."""

    running: ReconcileRecord | None
    next: NextReconcile | None
    runs: list[ReconcileRecord]
    """The last reconciles, the oldest first."""


class ShardOwner(msgspec.Struct):
    """The replica that works on an object, for one controller."""

    controller: str
    shard: int
    shards: int
    holder: str | None = None
    """The replica; empty if the shard has none, None if it is not known, for a `problem`."""

    renewed: str = ""
    """The last renewal of the lease, by the holder's clock; empty if unknown."""

    silent: bool = False
    """Whether the lease has expired, by our clock."""

    here: bool | None = None
    """Whether the replica that reports is the owner; None if no replica does."""

    problem: str = ""


class ManagerReport(msgspec.Struct):
    """A manager's answer about an object."""

    controllers: list[ControllerReport]
    owners: list[ShardOwner] = []
    """Empty where replicas do not share the work."""


_NESTED: dict[str, type[msgspec.Struct]] = {
    "triggers": Trigger,
    "requests": RequestRecord,
    "events": EventRecord,
}


def to_objects(value: Any) -> Any:
    """Return a report or an explanation as JSON has it: each struct as a map of its fields."""
    if isinstance(value, msgspec.Struct):
        return {name: to_objects(getattr(value, name)) for name in value.__struct_fields__}
    return [to_objects(each) for each in value] if isinstance(value, list | tuple) else value


def decode_report(answer: bytes) -> ManagerReport:
    """Decode a manager's answer. Raises `ValueError` for anything else: any program may answer."""
    try:
        report = orjson.loads(shallow_at_once(answer))
        for each in report["controllers"]:
            each["runs"] = [_values_of(ReconcileRecord, run) for run in each["runs"]]
            if each["running"] is not None:
                each["running"] = _values_of(ReconcileRecord, each["running"])
            if each["next"] is not None:
                each["next"]["triggers"] = [_values_of(Trigger, one) for one in each["next"]["triggers"]]
        return msgspec.convert(report, ManagerReport)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"not a report: {error!r}") from None


def _values_of(kind: type[msgspec.Struct], fields: dict[str, Any]) -> list[Any]:
    """Return the values of a record that is stored without field names."""
    return [
        [_values_of(nested, each) for each in fields.get(field.name, ())]
        if (nested := _NESTED.get(field.name)) is not None
        else fields[field.name]
        if field.required
        else fields.get(field.name, field.default)
        for field in msgspec.structs.fields(kind)
    ]
