"""The data that the demo displays: the samples, their workloads and the latest Events."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from demo.columns import Columns

__all__ = ["DEFAULT", "Answer", "Board", "Entry", "Note"]

EVENTS_KEPT = 200
DEFAULT = "default"
GOOD = frozenset({"Ready", "Available"})
WORKLOADS = ("deployments", "statefulsets", "jobs", "persistentvolumeclaims", "services", "pods")


@dataclasses.dataclass(slots=True)
class Entry:
    """A watched object, as the view shows it."""

    plural: str
    kind: str
    namespace: str
    name: str
    state: str
    """The state in one or two words: `3/3 ready`, `Running`, `Bound`, `happy`."""
    ready: bool
    conditions: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    """Type, status and message of each condition."""
    columns: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    """The custom resource's columns in `kubectl get`."""

    @property
    def because(self) -> str:
        """Return the message of the most important condition, which explains the object's state."""
        return next((message for _, _, message in sorted(self.conditions, key=_importance) if message), "")

    @property
    def title(self) -> str:
        """Return the object's name such as `memcached/memcached-sample`; it omits the namespace `default`."""
        where = f" in {self.namespace}" if self.namespace != DEFAULT else ""
        return f"{self.kind.lower()}/{self.name}{where}"


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """An Event to display."""

    time: str
    """The Event's local time of day."""
    warning: bool
    about: str
    reason: str
    message: str
    custom: bool = False
    """Whether the Event is about a custom resource."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """The API server's response to a write, after its webhooks have run."""

    about: str
    outcome: str
    message: str
    refused: bool = False

    @property
    def brief(self) -> str:
        """Return the message without its beginning, which repeats the object's kind and name."""
        return self.message.rpartition(" is invalid: ")[2]


class Board:
    """The state of the demo, updated with each watch event."""

    def __init__(self, samples: Iterable[tuple[str, str, str]], columns: Columns) -> None:
        """Set up the board; `samples` are the (kind, namespace, name) that must become ready."""
        self.expected = list(samples)
        self._columns = columns
        self.samples: dict[tuple[str, str, str], Entry] = {}
        self.workloads: dict[tuple[str, str, str], Entry] = {}
        self._notes: dict[tuple[str, str], Note] = {}
        self.answers: list[Answer] = []
        self._said: dict[str, int] = {}

    @property
    def notes(self) -> Collection[Note]:
        """Return the Events to display: those about custom resources, and all warnings."""
        return self._notes.values()

    @property
    def ready(self) -> bool:
        """Return whether every sample exists and is ready."""
        return all((entry := self.samples.get(key)) is not None and entry.ready for key in self.expected)

    def waiting_for(self) -> list[str]:
        """Return a line for each sample that is not ready, with the reason."""
        missing = []
        for kind, namespace, name in self.expected:
            entry = self.samples.get((kind, namespace, name))
            if entry is None:
                missing.append(f"{kind.lower()}/{name} is not there")
            elif not entry.ready:
                why = next(
                    (message for each, status, message in entry.conditions if each in GOOD and message), ""
                )
                missing.append(f"{entry.title} is not ready{': ' if why else ''}{why}")
        return missing

    def see(self, plural: str, obj: dict[str, Any], *, gone: bool = False) -> Entry | Note | None:
        """Update the board with an object (deleted if `gone`); return the Entry or Note to print, or None."""
        if plural == "events":
            if gone:
                self._said.pop(obj["metadata"]["uid"], None)
            return None if gone else self._hear(obj)
        kind, metadata = obj["kind"], obj["metadata"]
        if plural in WORKLOADS:
            key = (plural, metadata["namespace"], metadata["name"])
            return self._place(self.workloads, key, None if gone else _workload(plural, obj))
        if plural in self._columns:
            entry = None if gone else _sample(plural, obj, self._columns.read(plural, obj))
            return self._place(self.samples, (kind, metadata["namespace"], metadata["name"]), entry)
        return None

    def _place(self, board: dict[Any, Entry], key: Any, entry: Entry | None) -> Entry | None:
        known = board.get(key)
        if entry is None:
            board.pop(key, None)
            if known is not None:
                known.state, known.ready = "deleted", False
            return known
        board[key] = entry
        return entry if entry != known else None

    def _hear(self, event: dict[str, Any]) -> Note | None:
        uid, count = (
            event["metadata"]["uid"],
            event.get("count") or (event.get("series") or {}).get("count") or 1,
        )
        if self._said.get(uid) == count:
            return None
        self._said[uid] = count
        about = event.get("involvedObject") or event.get("regarding") or {}
        when = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
        note = Note(
            time=datetime.fromisoformat(when).astimezone().strftime("%H:%M:%S"),
            warning=event.get("type") == "Warning",
            about=f"{about.get('kind', '').lower()}/{about.get('name', '')}",
            reason=event.get("reason", ""),
            message=(event.get("message") or event.get("note") or "").strip(),
            custom=self._columns.defines(about.get("kind", "")),
        )
        self.keep(note)
        return note

    def keep(self, note: Note) -> None:
        """Keep the last Event per custom resource and reason, and the last warning per kind and reason."""
        if not (note.custom or note.warning):
            return
        key = (note.about if note.custom else note.about.partition("/")[0], note.reason)
        self._notes.pop(key, None)
        self._notes[key] = note
        if len(self._notes) > EVENTS_KEPT:
            del self._notes[next(iter(self._notes))]


def _importance(condition: tuple[str, str, str]) -> int:
    name, status, _ = condition
    match name, status == "True":
        case "Degraded", True:
            return 0
        case "Progressing", True:
            return 1
        case _, on if name in GOOD:
            return 3 if on else 2
    return 4


def _state(ready: bool, conditions: list[tuple[str, str, str]]) -> str:
    """Return an object's state in one word or two, from its conditions.

    For example, an object with the single condition Happy is `happy` or `not happy`.
    """
    match conditions:
        case [(name, status, _)] if name not in GOOD and ready:
            return name.lower() if status == "True" else f"not {name.lower()}"
    return "ready" if ready else "not ready"


def _sample(plural: str, obj: dict[str, Any], columns: list[tuple[str, str]]) -> Entry:
    status = obj.get("status") or {}
    conditions = [
        (each["type"], each["status"], each.get("message", "")) for each in status.get("conditions") or ()
    ]
    current = status.get("observedGeneration", obj["metadata"].get("generation")) == obj["metadata"].get(
        "generation"
    )
    good = [value == "True" for name, value, _ in conditions if name in GOOD]
    ready = current and (all(good) if good else bool(status))
    state = _state(ready, conditions)
    if obj["metadata"].get("deletionTimestamp"):
        state, ready = "terminating", False
    return Entry(
        plural,
        obj["kind"],
        obj["metadata"].get("namespace", ""),
        obj["metadata"]["name"],
        state,
        ready,
        conditions,
        columns,
    )


def _workload(plural: str, obj: dict[str, Any]) -> Entry:
    spec, status, metadata = obj.get("spec") or {}, obj.get("status") or {}, obj["metadata"]
    state, ready = "", True
    match plural:
        case "deployments" | "statefulsets":
            wanted, have = spec.get("replicas", 1), status.get("readyReplicas", 0)
            state, ready = f"{have}/{wanted} ready", have >= wanted
        case "jobs":
            wanted, have = spec.get("completions", 1), status.get("succeeded", 0)
            state, ready = f"{have}/{wanted} done", have >= wanted
        case "pods":
            ready = any(
                each["type"] == "Ready" and each["status"] == "True"
                for each in status.get("conditions") or ()
            )
            state = status.get("phase", "Pending") + (", ready" if ready else "")
            if metadata.get("deletionTimestamp"):
                state, ready = "terminating", False
        case "persistentvolumeclaims":
            state = status.get("phase", "Pending")
            ready = state == "Bound"
        case "services":
            ports = ",".join(str(port.get("nodePort") or port["port"]) for port in spec.get("ports") or ())
            state = f"{spec.get('type', 'ClusterIP')} {spec.get('clusterIP', '')} {ports}".strip()
    return Entry(plural, obj["kind"], metadata.get("namespace", ""), metadata["name"], state, ready)
