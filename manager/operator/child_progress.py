"""The progress of children: writes that never end, rollouts, and Events of pods."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import orjson

from manager.api import ConditionType, ObjectKey, Resource
from manager.client import Outcome
from manager.client.reader import LiveReader
from manager.client.write import SECRET, fold_string_data, plain_fields
from manager.kube.errors import KubeError
from manager.telemetry.logs import reconcile_log
from manager.telemetry.runs import ReconcileRecord, Trigger
from manager.util import clock
from manager.util.backoff import Backoff
from manager_kinds.pod_health import PodHealth, Problem, warning_of

MOST_WRITES, WITHIN = 10, 60.0
"""So many changes of a child within so many seconds are too many, while the object's spec is unchanged."""

MOST_LOOPS = 300
"""So many reconciles that create children of one kind, or patches of the object, in `WITHIN` seconds are too
many. An operator that starts each Job when the previous one ends stays below if Jobs take over 0.25 s."""

PAUSES = (1.0, 60.0)
"""The first and the longest pause, in seconds, between two changes of a child that changes too often."""

CONDITION = ConditionType("ChildrenStable")
"""The condition that is false if a child of the object changes too often; most objects do not have it."""

REASONS = {
    Outcome.UPDATED: "WantedDifferently",
    Outcome.RESTORED: "ChangedInTurn",
    Outcome.CREATED: "CreatedWithoutEnd",
}

Child = tuple[type[Resource], ObjectKey]


@dataclass(slots=True)
class _Writes:
    most: int
    times: deque[float]
    pauses: Backoff | None = None
    """The growing pauses between changes; set after too many changes."""
    until: float = 0.0
    reason: str = ""
    message: str = ""


class ChildWrites:
    """Counters of the changes of each child; the runtime slows down children that change all the time."""

    def __init__(self, rng: Random, gauge: Callable[[str], Any]) -> None:
        """Create the counters; `gauge(reason)` returns the gauge of children that change too often."""
        self._rng = rng
        self._of: OrderedDict[tuple[str, str], tuple[int, dict[Child, _Writes]]] = OrderedDict()
        """By owner: the generation of its spec, and the writes of each child since that generation."""
        for reason in REASONS.values():
            gauge(reason).set_function(partial(self._unstable, reason))

    def _unstable(self, reason: str) -> int:
        return sum(each.reason == reason for _, writes in self._of.values() for each in writes.values())

    def of(self, owner: Resource) -> Mapping[Child, _Writes]:
        """Return the writes of the object's children since the last change of its spec."""
        metadata = owner.metadata
        if (known := self._of.get(key := (metadata.namespace, metadata.name))) is None:
            return {}
        generation, writes = known
        if generation != metadata.generation:
            del self._of[key]
            return {}
        return writes

    def pause(self, owner: Resource, child: Child) -> float:
        """Return for how many seconds the runtime must not write the child."""
        found = self.of(owner).get(child)
        return 0.0 if found is None else max(0.0, found.until - clock.monotonic())

    def loop_pause(self, owner: Resource, child: Child) -> float:
        """Return the seconds until a create of `child`'s kind (for the owner itself: a patch) is allowed."""
        found = self.of(owner).get(child)
        if found is None or found.pauses is None:
            return 0.0
        now = clock.monotonic()
        if now > max(found.until, found.times[-1] + WITHIN):
            self._forget(owner.key, child)
        return max(0.0, found.until - now)

    def wrote(
        self,
        owner: Resource,
        child: Child,
        outcome: Outcome,
        run: ReconcileRecord | None,
        why: Callable[[], str],
        *,
        most: int = MOST_WRITES,
    ) -> tuple[str, str] | None:
        """Record a change of a child; return a reason and message if the child changes too often."""
        if outcome is not Outcome.RESTORED and run is not None:
            for each in run.triggers:
                if _is_news(each, child):
                    return None  # the other change may explain why the operator wants another child
        now = clock.monotonic()
        while self._of:  # forget objects whose children last changed long ago and never too often
            key, (_, children) = next(iter(self._of.items()))
            if any(each.times[-1] >= now - WITHIN for each in children.values()):
                break
            if any(each.pauses is not None for each in children.values()):
                self._of.move_to_end(key)
                break
            del self._of[key]
        found = self.of(owner).get(child)
        if found is None:
            found = _Writes(most, deque(maxlen=most))
            self._of.setdefault(owner.key, (owner.metadata.generation, {}))[1][child] = found
        self._of.move_to_end(owner.key)
        found.times.append(now)
        if found.pauses is None:
            if len(found.times) < found.most or found.times[0] < now - WITHIN:
                return None
            first, last = PAUSES
            found.pauses = Backoff(base=first, cap=last, rng=self._rng)
            found.reason, found.message = REASONS[outcome], why()
        found.until = now + found.pauses.next()
        return found.reason, found.message

    def held(self, owner: Resource, child: Child) -> float | None:
        """Record that the child needs no change; return the seconds until it is stable, None if it is."""
        found = self.of(owner).get(child)
        if found is None or found.pauses is None:
            return None
        left = max(found.until, found.times[-1] + WITHIN) - clock.monotonic()
        if left > 0:
            return left
        self._forget(owner.key, child)
        return None

    def unstable_children(self, owner: Resource, applied: set[Child]) -> list[tuple[str, str]]:
        """Return reason and message of each applied child that changes too often; forget others that do."""
        unstable = []
        for child, found in [*self.of(owner).items()]:
            if found.pauses is None or found.most == MOST_LOOPS:
                continue
            if child in applied:
                unstable.append((found.reason, found.message))
            else:
                self._forget(owner.key, child)
        return unstable

    def forget(self, owner: ObjectKey) -> None:
        """Forget an object that is gone or that another replica owns."""
        self._of.pop(owner, None)

    def _forget(self, owner: ObjectKey, child: Child) -> None:
        _, children = self._of[owner]
        del children[child]
        if not children:
            del self._of[owner]


def _is_news(trigger: Trigger, child: Child) -> bool:
    """Return whether the trigger surely has another cause than the object's previous reconcile."""
    if trigger.source == "for":
        return trigger.change == "ADDED"
    kind, key = child
    if trigger.source == "watches":
        same_name = not key.name or trigger.name == key.name
        return not same_name or (trigger.kind, trigger.namespace) != (kind.gvk.kind, key.namespace)
    own = {"requeue", "timer", "resync", "back-off"}
    return trigger.source != "owns" and trigger.why not in own


_SHOWN = 8


def changed_fields(before: Resource, after: Resource, wanted: Resource) -> list[str]:
    """Return the paths of the differing fields with the server's names, such as `.spec.replicas`.

    The result omits values (which may be secret), the status, and fields from other clients that `wanted`
    lacks. After the first few paths, the last entry is the number of further paths.
    """
    extra = {**(before.model_extra or {}), **(after.model_extra or {})}
    fields = {*type(after).model_fields, *extra} - {"metadata", "status"}
    # Serialising the whole object would cost more than the rest of the comparison.
    differing = {name for name in fields if getattr(before, name, None) != getattr(after, name, None)}
    plain = differing & (plain_fields(type(after)) or {}).keys()
    ours = _content(wanted, differing | {"string_data", "stringData"}, set())
    if wanted.gvk == SECRET:
        fold_string_data(ours)
    # `apply` adds the owner to the wanted fields.
    ours["metadata"].setdefault("ownerReferences", [])
    found = list(
        _differences("", _content(before, differing, plain), _content(after, differing, plain), ours)
    )
    if len(found) > _SHOWN:
        found[_SHOWN:] = [f"{len(found) - _SHOWN} more"]
    return found


def _content(obj: Resource, fields: set[str], plain: set[str]) -> dict[str, Any]:
    metadata = obj.metadata
    kept = {
        "labels": metadata.labels,
        "annotations": metadata.annotations,
        "ownerReferences": [each.to_wire() for each in metadata.owner_references],
        "finalizers": metadata.finalizers,
    }
    # The server itself sets the other metadata.
    content = {"metadata": {name: value for name, value in kept.items() if value}}
    kind = type(obj)
    content |= {kind.model_fields[name].alias or name: getattr(obj, name) for name in plain}
    return content | obj.to_wire(only=fields - plain)


def _differences(path: str, before: Any, after: Any, wanted: Any) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        ours = wanted if isinstance(wanted, Mapping) else {}
        for name in dict.fromkeys((*before, *after)):
            if name in ours or name not in after:
                yield from _differences(f"{path}.{name}", before.get(name), after.get(name), ours.get(name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        # Items of other clients may stand between ours.
        each = wanted if isinstance(wanted, list) and len(wanted) == len(after) else after
        for number, (one, other, ours) in enumerate(zip(before, after, each, strict=True)):
            yield from _differences(f"{path}[{number}]", one, other, ours)
    else:
        yield path


# The status fields for the numbers of existing, updated and available pods, and of wanted pods (empty:
# `spec.replicas` has the wanted number).
_STATUS = {
    "Deployment": ("replicas", "updatedReplicas", "availableReplicas", ""),
    "StatefulSet": ("replicas", "updatedReplicas", "availableReplicas", ""),
    "DaemonSet": (
        "currentNumberScheduled",
        "updatedNumberScheduled",
        "numberAvailable",
        "desiredNumberScheduled",
    ),
}


def is_workload(child: Resource) -> bool:
    """Return whether a change of the child's pod template replaces its pods."""
    return child.gvk.group == "apps" and child.gvk.kind in _STATUS


def is_rolled_out(child: Resource) -> bool:
    """Return whether all pods of a workload are available and have its current template."""
    wire: dict[str, Any] = child.to_wire()
    status, metadata = wire.get("status") or {}, wire["metadata"]
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        return False
    *counted, wanted = _STATUS[child.gvk.kind]
    size = status.get(wanted, 0) if wanted else (wire.get("spec") or {}).get("replicas", 1)
    return all(status.get(name, 0) == size for name in counted)


class Rollouts:
    """Objects that roll out workloads while their own spec is unchanged, and objects that wait to do so."""

    def __init__(self, *, enqueue: Callable[[ObjectKey], None], gauge: Any) -> None:
        """Create an empty set. `enqueue` enqueues a waiting object when its rollout may begin."""
        self.limited = False
        self._most = 0
        self._enqueue = enqueue
        self._under_way: dict[ObjectKey, set[Child]] = {}
        self._waiting: dict[ObjectKey, None] = {}
        gauge.set_function(self._waiting.__len__)

    def limit(self, most: int | None) -> None:
        """Set how many objects may roll out at once; None for no limit."""
        self.limited = most is not None
        self._most = most or 0

    def may_begin(self, key: ObjectKey, child: Child) -> bool:
        """Return whether the object's child may roll out now; if not, the object is enqueued when it may."""
        if key not in self._under_way and len(self._under_way) >= self._most:
            self._waiting[key] = None
            return False
        self._waiting.pop(key, None)
        self._under_way.setdefault(key, set()).add(child)
        return True

    def complete(self, key: ObjectKey, child: Child) -> None:
        """Record that the child is rolled out."""
        self._under_way.get(key, set()).discard(child)

    def end_if_complete(self, key: ObjectKey, wanted: set[Child] | None) -> None:
        """End the object's rollout if no child still rolls out; with `wanted`, only these children count."""
        if (children := self._under_way.get(key)) and wanted is not None:
            children &= wanted
        if not children:
            self.end(key)

    def end(self, key: ObjectKey) -> None:
        """Remove the object from the rollouts under way and from the waiting ones."""
        self._waiting.pop(key, None)
        self._under_way.pop(key, None)
        free = self._most - len(self._under_way)
        for waiting in list(self._waiting)[: max(free, 0)]:
            self._enqueue(waiting)


ASK_AGAIN_AFTER = 30.0
"""Seconds until the reader asks for a pod's Events again."""

_MOST_KNOWN = 1000
_MOST_READ = 100


class _Event(Resource, group="", version="v1", kind="Event", plural="events"):
    pass


class PodEvents:
    """Reader of the Events of one pod at a time, at most every 30 seconds for each pod."""

    def __init__(self, reader: LiveReader) -> None:
        self._reader = reader
        self._known: OrderedDict[str, tuple[Problem | None, float]] = OrderedDict()
        """By UID: the pod's problem, and the end of its validity."""

    async def problem_of(self, pod: PodHealth) -> Problem | None:
        """Return the pod's last warning, or None; if the Events cannot be read, return the earlier answer."""
        problem, until = self._known.pop(pod.uid, (None, 0.0))
        if clock.monotonic() >= until:
            until = clock.monotonic() + ASK_AGAIN_AFTER
            try:
                problem = await self._read(pod)
            except KubeError as error:
                reconcile_log().debug("cannot read the Events of a pod", pod=pod.name, error=str(error))
        self._known[pod.uid] = problem, until
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return problem

    async def _read(self, pod: PodHealth) -> Problem | None:
        pages = self._reader.raw_pages(
            _Event, namespace=pod.namespace, field_selector=f"involvedObject.uid={pod.uid}", limit=_MOST_READ
        )
        async for page in pages:
            return warning_of(orjson.loads(memoryview(raw)) for raw in page)
        return None
