"""The declarations and the state of an operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from manager.api import DEGRADED, READY, ConditionType, ObjectKey, Resource, is_crd
from manager.api.rights import RbacRule, Undeclared
from manager.cache import WHOLE, CacheEvent, IndexFunction, Informer, Record, Selection
from manager.client import Client
from manager.client.reader import CachedReader
from manager.controller import ChannelSource, ControllerOptions, Predicate, Priority
from manager.controller.source import any_of, desired_state_changed, status_changed
from manager.operator.child_progress import CONDITION, Child, ChildWrites, PodEvents, Rollouts
from manager.operator.conditions import ConditionList, status_model, writes_status
from manager.operator.declaration import Daemon, Owns, Reads, Timer, Watch, WatchPods
from manager.settings import Setting, SettingValues
from manager.webhook import AdmissionOptions

if TYPE_CHECKING:
    from manager.process.manager import Manager


@dataclass(slots=True)
class Failing:
    """The failures of an object since its last successful reconcile."""

    terminal: bool = False
    """Whether a retry is useless: only a change of a watched object can help."""
    transient: int = 0
    """The number of consecutive transient failures."""
    reported: tuple[str, str] | None = None
    """The reason and message of the last report."""
    reported_at: float = 0.0


class OperatorBase:
    """The base of `Operator`, with the members that contexts, timers and long operations use."""

    kind: ClassVar[type[Resource]]
    name: ClassVar[str]
    versions: ClassVar[tuple[type[Resource], ...]] = ()
    on: ClassVar[Predicate] = any_of(desired_state_changed, status_changed)
    owns: ClassVar[tuple[type[Resource] | Owns, ...]] = ()
    watches: ClassVar[tuple[Watch, ...]] = ()
    reads: ClassVar[tuple[type[Resource] | Reads, ...]] = ()
    selection: ClassVar[Selection] = WHOLE
    indexes: ClassVar[Mapping[str, IndexFunction]] = {}
    conditions: ClassVar[tuple[ConditionType, ...]] = ()
    errors: ClassVar[Mapping[type[Exception], str]] = {}
    options: ClassVar[ControllerOptions] = ControllerOptions()
    rights: ClassVar[tuple[RbacRule, ...]] = ()
    extends_status: ClassVar[bool] = False
    admission: ClassVar[AdmissionOptions] = AdmissionOptions()
    finalizer: ClassVar[str] = ""
    former_finalizers: ClassVar[tuple[str, ...]] = ()
    former_managers: ClassVar[tuple[str, ...]] = ()
    finalizer_first: ClassVar[bool] = True
    skips_own_writes: ClassVar[bool] = False
    shared_out: ClassVar[bool] = True
    outside: ClassVar[str | type] = ""

    # Derived attributes
    sources: ClassVar[tuple[Owns | Watch | Reads, ...]] = ()
    finalizers: ClassVar[frozenset[str]] = frozenset()
    declared_settings: ClassVar[tuple[Setting[Any], ...]] = ()
    timers: ClassVar[tuple[Timer, ...]] = ()
    daemons: ClassVar[tuple[Daemon, ...]] = ()
    has_status: ClassVar[bool] = False
    condition_list: ClassVar[ConditionList | None] = None
    """The conditions in the kind's status; None if `ctx.condition` cannot set any there."""
    has_conditions: ClassVar[bool] = False
    tells_of_children: ClassVar[bool] = False
    """Whether the runtime sets the condition `ChildrenStable` in the kind's status."""
    pod_watch: ClassVar[WatchPods | None] = None
    has_observed_generation: ClassVar[bool] = False

    @classmethod
    def _declare_status(cls) -> None:
        """Set the attributes that say which status fields of its kind the operator writes."""
        kind = cls.kind
        if cls.extends_status and (is_crd(kind) or "status" not in kind.model_fields):
            own = "is its own kind, whose status it writes anyway"
            why = own if is_crd(kind) else "has no field `status`"
            raise TypeError(f"{cls.__name__}.extends_status: {kind.__name__} {why}")
        status = status_model(kind)
        cls.has_status = writes_status(kind, extends=cls.extends_status)
        cls.condition_list = held = ConditionList.of(kind) if cls.has_status else None
        cls.has_conditions = held is not None
        if held is not None and (refused := [each for each in cls.conditions if not held.takes(each)]):
            told = f"{kind.__name__} takes none of type {refused[0]}: {held.why_refused(refused[0])}"
            raise TypeError(f"{cls.__name__}.conditions: {told}")
        # On an object of a kind that others define, the runtime sets no condition unless the author names it.
        named = tuple(getattr(status, "meanings", ())) or ((READY,) if is_crd(kind) else ())
        default = tuple(each for each in named if held is None or held.takes(each))
        cls.conditions = cls.conditions or default
        cls.tells_of_children = held is not None and is_crd(kind) and held.takes(CONDITION)
        # In a kind that others define, this field belongs to their controller.
        cls.has_observed_generation = (
            is_crd(kind) and status is not None and "observed_generation" in status.model_fields
        )

    def __init__(self, manager: Manager) -> None:
        if not hasattr(type(self), "kind"):
            raise TypeError(f"{type(self).__name__} has no kind: class {type(self).__name__}(Operator[Kind])")
        self.manager = manager
        self.client: Client = manager.client.named(self.name, former_managers=self.former_managers)
        self.settings: SettingValues = manager.settings
        """The values of settings by key; a setting in a class attribute is read as the attribute."""
        self.channel = ChannelSource()
        self.waiting_for_names: defaultdict[Child, set[ObjectKey]] = defaultdict(set)
        """The objects that wait for the name of a child."""
        self.awaited_names: dict[ObjectKey, set[Child]] = {}
        """The names that each of these objects waits for."""
        self.told_blocked: dict[ObjectKey, tuple[str, str]] = {}
        """Reason and message of the last Event of a blocked object without conditions."""
        self.obstacles: dict[ObjectKey, dict[str, tuple[str, str]]] = {}
        """Reason and message of the conditions that were set because an object was blocked, by type."""
        self.reported_failures: dict[ObjectKey, Failing] = {}

    @cached_property
    def child_writes(self) -> ChildWrites:
        """Return the counter of changes of each child."""
        gauge = partial(self.manager.metrics.unstable_children.labels, self.name)
        return ChildWrites(self.manager.rng, gauge)

    @cached_property
    def rollouts(self) -> Rollouts:
        """Return the objects whose pods a rollout is replacing."""
        gauge = self.manager.metrics.rollouts_waiting.labels(self.name)
        return Rollouts(enqueue=partial(self.enqueue, priority=Priority.LOW), gauge=gauge)

    def forget(self, key: ObjectKey) -> None:
        """Forget the runtime's state of an object that is gone or that another replica owns."""
        self.told_blocked.pop(key, None)
        self.obstacles.pop(key, None)
        self.reported_failures.pop(key, None)
        self.waits_no_more(key)
        self.child_writes.forget(key)
        self.rollouts.end(key)

    @cached_property
    def informer(self) -> Informer:
        """Return the cache of the kind's objects; with `--shards`, it may lack other replicas' objects."""
        # An operator that reads other objects of its kind needs all of them in the cache.
        reads_all = any(each.kind is self.kind for each in self.sources)
        filtered = self.options.needs_leader_election and self.shared_out and not reads_all
        return self.manager.cache.informer(self.kind, filtered=filtered, **self.selection._asdict())

    @cached_property
    def pod_reader(self) -> CachedReader:
        """Return the reader of the pods that `WatchPods` declares."""
        assert self.pod_watch is not None
        return self.client.within(self.pod_watch.selection)

    @cached_property
    def pod_events(self) -> PodEvents:
        """Return the reader of Events about pods that do not start."""
        return PodEvents(self.client.uncached)

    @classmethod
    def kinds(cls) -> tuple[type[Resource], ...]:
        """Return all versions of the kind, the operator's version last; empty if the kind has no `@crd`."""
        return tuple(kind for kind in (*cls.versions, cls.kind) if is_crd(kind))

    def condition_of_failure(self) -> tuple[ConditionType, bool | Literal["Unknown"]]:
        """Return type and status of the condition that reports a failed reconcile."""
        if DEGRADED in self.conditions:
            return DEGRADED, True
        return (READY, False) if READY in self.conditions else (self.conditions[0], "Unknown")

    def enqueue(self, key: ObjectKey, *, priority: Priority = Priority.NORMAL) -> None:
        """Enqueue the object for a reconcile, without waiting."""
        self.channel.send(key, priority=priority)

    @classmethod
    def works_on_each(cls) -> bool:
        """Return whether the operator has a daemon, or a timer for each object."""
        return bool(cls.daemons) or any(each.for_each for each in cls.timers)

    @classmethod
    def counts(cls, event: CacheEvent) -> bool:
        """Return whether an event of the operator's kind requires a reconcile."""
        old, new = event.old, event.new
        if cls.daemons and new is None:
            return True  # without a reconcile, its daemons would never end
        begins = new is not None and new.deleting and (old is None or not old.deleting)
        if begins and (cls.finalizers or cls.daemons):
            return True  # without a reconcile, `cleanup` would never be called
        return cls.on(event)

    def counts_now(self, record: Record, before: Record | None = None) -> bool:
        """Return whether the state `record` of an object requires a reconcile, compared with `before`."""
        try:
            return self.counts(CacheEvent(before, record, initial=before is None))
        except Exception:  # noqa: BLE001 - the predicate may raise anything; event sources enqueue then, too
            return True

    def waits_for(self, kind: type[Resource], name: ObjectKey, key: ObjectKey) -> None:
        """Record that the object `key` waits until the name of the child is free."""
        self.waiting_for_names[kind, name].add(key)
        self.awaited_names.setdefault(key, set()).add((kind, name))

    def waits_no_more(self, key: ObjectKey) -> None:
        """Forget the child names for which the object waits."""
        for name in self.awaited_names.pop(key, ()):
            waiting = self.waiting_for_names[name]
            waiting.discard(key)
            if not waiting:
                del self.waiting_for_names[name]

    @classmethod
    def hint_of_status(cls) -> str:
        """Return the advice to declare `extends_status`, as error text; empty for a kind with `@crd`."""
        told = f"others define {cls.kind.__name__}, so {cls.__name__} writes its status only with"
        return "" if is_crd(cls.kind) else f": {told} `extends_status = True`"

    @classmethod
    def check_may_patch(cls) -> None:
        """Raise Undeclared if the operator's role does not allow `ctx.patch`."""
        group, resource = cls.kind.gvk.group, cls.kind.plural
        granted = any(
            {"patch", "*"} & {*rule.verbs}
            and {group, "*"} & {*rule.groups}
            and {resource, "*"} & {*rule.resources}
            for rule in cls.rights
        )
        if cls.finalizers or granted:
            return
        raise Undeclared(
            f"{cls.__name__} calls ctx.patch, and its role does not allow that: add "
            f'rbac(groups="{group}", resources="{resource}", verbs="patch") to `rights`'
        )
