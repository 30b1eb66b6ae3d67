"""An operator: one class with its declarations and its reconcile method."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar, get_args

from manager.api import ObjectKey, Resource, is_crd
from manager.api.rights import RbacRule, Undeclared
from manager.cache import WHOLE, CacheEvent, IndexFunction, Informer, Record, Selection
from manager.client import Client
from manager.client.reader import CachedReader
from manager.controller import ChannelSource, ControllerOptions, Predicate, Priority, Result
from manager.controller.predicate import any_of, desired_state_changed, status_changed
from manager.operator.checks import check_declarations
from manager.operator.children import CONDITION, ChildWrites
from manager.operator.conditions import ConditionList, status_model, writes_status
from manager.operator.context import CLEANUP_WAITS, FAILURES, Blocked, Context, is_of_failure
from manager.operator.daemons import Daemon, daemons_of
from manager.operator.declaration import (
    Owns,
    Reads,
    Watch,
    WatchPods,
    check_indexes,
    check_sources,
    check_spelling,
)
from manager.operator.failure_reports import FailureReports
from manager.operator.pod_events import PodEvents
from manager.operator.rollouts import Rollouts
from manager.operator.steps import check_steps
from manager.operator.timers import Timer, timers_of
from manager.settings import Setting, SettingValues
from manager.webhook import AdmissionOptions
from manager.webhook.methods import check_methods

if TYPE_CHECKING:
    from manager.process.manager import Manager

T = TypeVar("T", bound=Resource)

_HOOKS = ("reconcile", "reconcile_key", "cleanup", "on_error", "setup")
"""What an operator writes for the runtime to call."""


class Operator(Generic[T]):
    '''Operator of a kind: it makes the cluster match each spec, and each status match the cluster.

        class MemcachedOperator(Operator[Memcached]):
            """Keeps a Deployment of memcached servers at the wanted size."""

            owns = (Deployment,)
            image = Setting("memcached-image", default="memcached:1.6", description="…")

            async def reconcile(self, memcached: Memcached, ctx: Context) -> None:
                deployment = await ctx.apply(self.deployment(memcached))
                memcached.status.ready_replicas = deployment.ready_replicas
                ctx.condition("Available", deployment.is_available, …)

    Flags, definitions, roles and webhooks are generated from the class without running anything. A manager
    makes one instance of it. `reconcile` is called when something that the class declares has changed, any
    number of times, but never twice at once for one object. It looks at what exists and does what is missing.

    Attributes that may be set:
        name: of the controller, in `--controllers`, metrics and logs; default the kind in lower case.
        versions: other versions of the kind, which are served and converted.
        on: which events of the objects themselves count; by default all changes of the desired state
            (`desired_state_changed`), and of a status that another client has written (`status_changed`).
            With a `cleanup`, the beginning of a deletion always counts.
        owns, watches, reads: other kinds; `Kind` alone means the default `Owns(Kind)`, and so on.
        selection: which objects it reconciles; default all.
        indexes: index functions over the objects themselves, by name; `indexes: ClassVar = {...}`, as linters
            want of what can be changed.
        conditions: the condition types that are set when an object is blocked (see `blocked`); default those
            that its `Status` names, or else Ready, if the model of its conditions takes that type.
        errors: the reason, in conditions and Events, of each type of exception that `reconcile` and `cleanup`
            raise, such as `{PaymentRefused: "PaymentRefused"}`. Its text is shown to all who may read the
            object. Without that, the reason is the name of the type.
        options: limits, back-off, resync; flags take precedence.
        rights: rights beyond those that follow from the above.
        extends_status: whether it writes the status of a kind that others define (a kind without `@crd`):
            a condition of its own on a Deployment, say. Without that it writes no status of theirs, and has
            no right to. `observedGeneration` is never written there: it speaks for their controller.
        admission: options of its webhooks (`manager.webhook`). A webhook for another kind is an attribute of
            any name: a `webhook.Admission`.
        finalizer: the name of the finalizer that keeps an object until `cleanup` is done.
        former_finalizers: earlier names of it, or those of a former operator. They are removed
            with `cleanup` and without, also from objects that are being deleted. With `cleanup`, `finalizer`
            replaces them.
        former_managers: field managers by which an earlier operator has written the children: `apply` takes
            their fields over, and removes those that are no longer wanted.
        finalizer_first: add it before `reconcile`; False if `reconcile` calls `ensure_finalizer`.
        skips_own_writes: do not reconcile again because of the reconcile's own writes. For operators that
            use what their writes return. An operator that creates something, returns, and expects to be
            called again, would not be called.
        shared_out: whether, with `--shards`, replicas share its objects. Then each has only its own in the
            cache, unless the operator's `reads` or `watches` have its own kind as well. False is for an
            operator that has to know in memory what it does with others of them: then one replica works on
            all.
        outside: `module:Class` of an `Outside`. In simulations it replaces what the operator keeps outside of
            the cluster.
    '''

    kind: ClassVar[type[Resource]]
    name: ClassVar[str]
    versions: ClassVar[tuple[type[Resource], ...]] = ()
    on: ClassVar[Predicate] = any_of(desired_state_changed, status_changed)
    owns: ClassVar[tuple[type[Resource] | Owns, ...]] = ()
    watches: ClassVar[tuple[Watch, ...]] = ()
    reads: ClassVar[tuple[type[Resource] | Reads, ...]] = ()
    selection: ClassVar[Selection] = WHOLE
    indexes: ClassVar[Mapping[str, IndexFunction]] = {}
    conditions: ClassVar[tuple[str, ...]] = ()
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
    outside: ClassVar[str] = ""

    # Derived attributes
    sources: ClassVar[tuple[Owns | Watch | Reads, ...]] = ()
    finalizers: ClassVar[frozenset[str]] = frozenset()
    declared_settings: ClassVar[tuple[Setting[Any], ...]] = ()
    timers: ClassVar[tuple[Timer, ...]] = ()
    daemons: ClassVar[tuple[Daemon, ...]] = ()
    has_status: ClassVar[bool] = False
    condition_list: ClassVar[ConditionList | None] = None
    """How its kind's status holds conditions; None where there are none that `ctx.condition` can set."""
    has_conditions: ClassVar[bool] = False
    tells_of_children: ClassVar[bool] = False
    """Whether its kind takes the condition that says whether the children are stable."""
    pod_watch: ClassVar[WatchPods | None] = None
    has_observed_generation: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        kind = vars(cls).get("kind") or _kind_of(cls)
        if kind is None:
            return  # a base class for operators of several kinds
        cls.kind = kind
        check_spelling(cls, Operator, _HOOKS)
        if "name" not in vars(cls):
            cls.name = kind.gvk.kind.lower()
        check_declarations(cls)
        cls.sources = (
            *(each if isinstance(each, Owns) else Owns(each) for each in cls.owns),
            *cls.watches,
            *(each if isinstance(each, Reads) else Reads(each) for each in cls.reads),
        )
        cls.pod_watch = next((each for each in cls.sources if isinstance(each, WatchPods)), None)
        check_indexes(f"{cls.__name__}.indexes", kind, cls.indexes)
        check_sources(cls.__name__, cls.sources)
        _set_finalizers(cls)
        members = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
        settings = (value for value in members.values() if isinstance(value, Setting))
        cls.declared_settings = tuple(dict.fromkeys(settings))
        cls.timers = tuple(timers_of(cls, members))
        cls.daemons = tuple(daemons_of(cls, members))
        if cls.reconcile_key is not Operator.reconcile_key:
            cls.shared_out = False  # a key does not tell the shard of a deleted object
        if cls.reconcile_key is not Operator.reconcile_key and cls.works_on_each():
            what = "a daemon" if cls.daemons else "a timer for each object"
            raise TypeError(f"{cls.__name__} has {what}, for which it needs `reconcile`")
        check_steps(cls, members.values())
        cls._declare_status()
        check_methods(cls)

    @classmethod
    def _declare_status(cls) -> None:
        """Find out what of the kind's status the operator writes."""
        kind = cls.kind
        if cls.extends_status and (is_crd(kind) or "status" not in kind.model_fields):
            why = (
                "is its own kind, whose status it writes anyway" if is_crd(kind) else "has no field `status`"
            )
            raise TypeError(f"{cls.__name__}.extends_status: {kind.__name__} {why}")
        status = status_model(kind)
        cls.has_status = writes_status(kind, extends=cls.extends_status)
        cls.condition_list = ConditionList.of(kind) if cls.has_status else None
        # On an object of others no condition is set that its author does not name.
        named = tuple(getattr(status, "meanings", ()))
        cls.conditions = cls._taken_conditions(named or (("Ready",) if is_crd(kind) else ()))
        cls.has_conditions = cls.condition_list is not None
        cls.tells_of_children = (
            cls.condition_list is not None and is_crd(kind) and cls.condition_list.takes(CONDITION)
        )
        # Of a kind that others define it says what their controller has seen.
        cls.has_observed_generation = (
            is_crd(kind) and status is not None and "observed_generation" in status.model_fields
        )

    @classmethod
    def _taken_conditions(cls, default: tuple[str, ...]) -> tuple[str, ...]:
        """Return its condition types, or those of `default` that its kind takes."""
        takes = cls.condition_list.takes if cls.condition_list is not None else lambda _: True
        if refused := [each for each in cls.conditions if not takes(each)]:
            raise TypeError(f"{cls.__name__}.conditions: {cls.kind.__name__} takes none of type {refused[0]}")
        return cls.conditions or tuple(filter(takes, default))

    def __init__(self, manager: Manager) -> None:
        if not hasattr(type(self), "kind"):
            raise TypeError(f"{type(self).__name__} has no kind: class {type(self).__name__}(Operator[Kind])")
        self.manager = manager
        self.client: Client = manager.client.named(self.name, former_managers=self.former_managers)
        self.channel = ChannelSource()
        self.waiting_for_names: defaultdict[tuple[type[Resource], ObjectKey], set[ObjectKey]] = defaultdict(
            set
        )
        """The objects that wait for the name of a child."""
        self.awaited_names: dict[ObjectKey, set[tuple[type[Resource], ObjectKey]]] = {}
        """The names that each of these objects waits for."""
        self.told_blocked: dict[ObjectKey, tuple[str, str]] = {}
        """Reason and message of the last Event of a blocked object without conditions."""
        self.obstacles: dict[ObjectKey, dict[str, tuple[str, str]]] = {}
        """Reason and message of the conditions that were set because an object was blocked, by type."""

    @cached_property
    def failure_reports(self) -> FailureReports:
        """Return the reports of failing objects."""
        return FailureReports(self)

    @cached_property
    def child_writes(self) -> ChildWrites:
        """Return the counts of each child's changes."""
        gauge = partial(self.manager.metrics.unstable_children.labels, self.name)
        return ChildWrites(self.manager.rng, gauge)

    @cached_property
    def rollouts(self) -> Rollouts:
        """Return the objects whose pods are being replaced for another version."""
        gauge = self.manager.metrics.rollouts_waiting.labels(self.name)
        return Rollouts(enqueue=partial(self.enqueue, priority=Priority.LOW), gauge=gauge)

    def forget(self, key: ObjectKey) -> None:
        """Forget what the runtime remembers of an object that is gone, or another replica's."""
        self.told_blocked.pop(key, None)
        self.obstacles.pop(key, None)
        self.failure_reports.ended(key)
        self.child_writes.forget(key)
        self.rollouts.end(key)

    @cached_property
    def informer(self) -> Informer:
        """Return the cache of the kind's objects; only this replica's objects if the kind is sharded."""
        # An operator that reads other objects of its kind needs all of them in the cache.
        reads_all = any(each.kind is self.kind for each in self.sources)
        filtered = self.options.needs_leader_election and self.shared_out and not reads_all
        return self.manager.cache.informer(self.kind, filtered=filtered, **self.selection._asdict())

    @cached_property
    def pod_reader(self) -> CachedReader:
        """Return the reader of the pods of `WatchPods`."""
        assert self.pod_watch is not None
        return self.client.within(self.pod_watch.selection)

    @cached_property
    def pod_events(self) -> PodEvents:
        """Return the reader of Events about pods that do not start."""
        return PodEvents(self.client.uncached)

    @classmethod
    def kinds(cls) -> tuple[type[Resource], ...]:
        """All versions of its kind, its own last, if it defines the kind: if its model has `@crd`."""
        return tuple(kind for kind in (*cls.versions, cls.kind) if is_crd(kind))

    # Methods that an operator overrides

    def setup(self) -> None:
        """Create resources that the operator needs beside its objects.

        It is called once, before the manager runs, and only if the operator runs. Use `manager.add` here
        for parts that live as long as the manager (a `Lifespan` or a `Runnable`), and `enqueue` for your
        own event sources.
        """

    async def reconcile(self, obj: T, ctx: Context) -> Result | None:
        """Bring one object up to date; None means done until something changes.

        The object exists and is not being deleted. It is a copy: changes of its status are written when this
        returns. Exceptions are counted, logged and retried with back-off (see `on_error`). The object says so
        (see `reconcile_failed`). Do not suppress `asyncio.CancelledError`: time-outs and the end of the
        process use it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no reconcile")

    async def reconcile_key(self, key: ObjectKey) -> Result | None:
        """Bring the object of a key up to date, instead of `reconcile` and `cleanup`.

        Nothing is done around it: the object may be gone or being deleted, and status, conditions and Events
        are not handled.
        """
        raise NotImplementedError(f"{type(self).__name__} has no reconcile_key")

    async def cleanup(self, obj: T, ctx: Context) -> Result | None:  # noqa: ARG002 - for others to override
        """Undo effects that the garbage collector does not undo, before the object is deleted.

        Defining this method adds a finalizer. The finalizer is removed when this returns None. A Result
        means that the cleanup is not done, and is called again. While it is not done, or fails, conditions
        say so: see `cleanup_blocked`.
        """
        return None

    async def gone(self, key: ObjectKey) -> Result | None:
        """Forget what is remembered of an object that is gone, or is being deleted and needs nothing more.

        With `--shards` it may not write, unless the operator is not `shared_out`; every replica calls it that
        knew the object.
        """

    def handed_over(self, key: ObjectKey) -> None:
        """Forget what is remembered of an object that another replica works on from now on (`--shards`)."""

    async def on_error(self, obj: T, error: Exception, ctx: Context) -> Result | None:
        """Handle an error that `reconcile` or `cleanup` has raised.

        If this returns, the error is handled: the status is written, and the Result counts. If it raises, the
        reconcile has failed, and is retried with back-off (TerminalError: not retried). By default it handles
        Blocked.
        """
        if isinstance(error, Blocked):
            if obj.metadata.deletion_timestamp is None:
                self.blocked(error, ctx)
            else:
                self.cleanup_blocked(error, ctx)
            return None if error.retry_after is None else Result(requeue_after=error.retry_after)
        raise error

    def blocked(self, by: Blocked, ctx: Context) -> None:
        """Set the conditions of a blocked object, or record an Event where its kind has none.

        Degraded is true, unless it will go away by itself; Progressing is true if it will, or is awaited; all
        others are false. The Event comes with Degraded, or else with the first. After the next reconcile
        that is not blocked, the runtime takes back those that the operator does not set itself: Degraded
        becomes false, and the others are removed.
        """
        if not self._tells_by_conditions(ctx):
            if not by.passing:
                self.record_once(by, ctx)
            return
        told_in = "Degraded" if "Degraded" in self.conditions else self.conditions[0]
        for each in self.conditions:
            event: Literal["Warning"] | None = "Warning" if each == told_in and not by.passing else None
            if each == "Degraded" and by.passing:
                ctx.condition(each, False, "AsExpected")
            else:
                holds = each == "Degraded" or (each == "Progressing" and by.awaited)
                ctx.condition(each, holds, by.reason, by.message, event=event)

    def reconcile_failed(self, by: Blocked, ctx: Context) -> None:
        """Set the condition of an object whose reconcile has failed, or record an Event if its kind has none.

        Degraded becomes true, or else Ready false, or else the first of `conditions` Unknown. Those of
        `conditions` that the object lacks become Unknown, and all others stay as they are. An Event is
        recorded when status or reason change. After the next successful reconcile, the runtime reverts the
        conditions whose message reports the failure, unless the operator has set them itself.

        `ctx.object` is the stored object without its model, as it may not fit the model. The error is
        `by.__cause__`. A conflict, or an unreachable API server, is reported after ten failures in a row.
        """
        if not self._tells_by_conditions(ctx):
            self.record_once(by, ctx)
            return
        told_in, status = self.condition_of_failure()
        there = ctx.conditions
        for each in self.conditions:
            if each != told_in and (each not in there or is_of_failure(there[each])):
                ctx.condition(each, "Unknown", by.reason, by.message)
        ctx.condition(told_in, status, by.reason, by.message)
        ctx.warn_of(told_in)

    def cleanup_blocked(self, by: Blocked, ctx: Context) -> None:
        """Say that the object is being deleted, and what its cleanup waits for.

        The runtime calls it when `cleanup` fails, or is not done and has set no condition itself. It sets the
        condition that `reconcile_failed` sets. For what passes, Progressing becomes true instead, or Degraded
        false where `conditions` has no Progressing. All others stay as they are: the children may still work.
        """
        by = Blocked(by.reason, f"{CLEANUP_WAITS}{by.message}", passing=by.passing, awaited=by.awaited)
        if not by.passing:
            self.reconcile_failed(by, ctx)
        elif self._tells_by_conditions(ctx) and "Progressing" not in self.conditions:
            told_in, status = self.condition_of_failure()
            ctx.condition(told_in, status if told_in != "Degraded" else False, by.reason, by.message)
        if by.awaited and ctx.can_set_conditions and "Progressing" in self.conditions:
            ctx.condition("Progressing", True, by.reason, by.message)

    def _tells_by_conditions(self, ctx: Context) -> bool:
        return bool(self.conditions) and ctx.can_set_conditions

    def condition_of_failure(self) -> tuple[str, bool | Literal["Unknown"]]:
        """Return type and status of the condition that says that the object is not as it should be."""
        if "Degraded" in self.conditions:
            return "Degraded", True
        return ("Ready", False) if "Ready" in self.conditions else (self.conditions[0], "Unknown")

    def record_once(self, by: Blocked, ctx: Context) -> None:
        """Record an Event of an obstacle that no condition can tell, unless it is known already."""
        # The message of a failure may be another each time.
        news = (by.reason, "" if by.message.startswith(FAILURES) else by.message)
        if self.told_blocked.get(ctx.object.key) != news:
            self.told_blocked[ctx.object.key] = news
            ctx.event(by.reason, by.message, warning=True)

    @classmethod
    def hint_of_status(cls) -> str:
        """Say how its author lets it write the status of its kind; empty if the kind is its own."""
        if is_crd(cls.kind):
            return ""
        return (
            f": others define {cls.kind.__name__}, so {cls.__name__} writes its status only with "
            "`extends_status = True`"
        )

    @classmethod
    def check_may_patch(cls) -> None:
        """Raise Undeclared if the operator's role does not allow `ctx.patch`."""
        kind = cls.kind
        if is_crd(kind) or cls.finalizers or _grants(cls.rights, "patch", kind.gvk.group, kind.plural):
            return
        raise Undeclared(
            f"{cls.__name__} calls ctx.patch, and others define {kind.__name__}: to change such objects, add "
            f'rbac(groups="{kind.gvk.group}", resources="{kind.plural}", verbs="patch") to `rights`'
        )

    # Facilities for methods

    @property
    def settings(self) -> SettingValues:
        """Return the values of settings by key; a setting in a class attribute is read as the attribute."""
        return self.manager.settings

    def enqueue(self, key: ObjectKey, *, priority: Priority = Priority.NORMAL) -> None:
        """Enqueue an object; returns at once."""
        self.channel.send(key, priority=priority)

    # Methods for the runtime

    @classmethod
    def works_on_each(cls) -> bool:
        """Return whether it works on each object beside `reconcile`: by a timer, or by a daemon."""
        return bool(cls.daemons) or any(each.for_each for each in cls.timers)

    @classmethod
    def counts(cls, event: CacheEvent) -> bool:
        """Return whether an event of the operator's kind asks for a reconcile."""
        old, new = event.old, event.new
        if cls.daemons and new is None:
            return True  # without a reconcile, its daemons would never end
        begins = new is not None and new.deleting and (old is None or not old.deleting)
        if begins and (cls.finalizers or cls.daemons):
            return True  # without a reconcile, `cleanup` would never be called
        return cls.on(event)

    def counts_now(self, record: Record, before: Record | None = None) -> bool:
        """Return whether the state of an object asks for a reconcile: its first one, or after another."""
        try:
            return self.counts(CacheEvent(before, record, initial=before is None))
        except Exception:  # noqa: BLE001 - the operator's predicate may raise anything; a source is as generous
            return True

    def waits_for(self, kind: type[Resource], name: ObjectKey, key: ObjectKey) -> None:
        """Note that the object `key` waits for the name of a child to come free."""
        self.waiting_for_names[kind, name].add(key)
        self.awaited_names.setdefault(key, set()).add((kind, name))

    def waits_no_more(self, key: ObjectKey) -> None:
        """Forget what an object waits for."""
        for name in self.awaited_names.pop(key, ()):
            waiting = self.waiting_for_names[name]
            waiting.discard(key)
            if not waiting:
                del self.waiting_for_names[name]


def _grants(rules: Iterable[RbacRule], verb: str, group: str, resource: str) -> bool:
    """Return whether one of the rules grants a verb, of some object at least."""
    return any(
        {verb, "*"} & {*rule.verbs} and {group, "*"} & {*rule.groups} and {resource, "*"} & {*rule.resources}
        for rule in rules
    )


def _set_finalizers(cls: type[Operator[Any]]) -> None:
    """Set the names of its finalizers, and refuse one that the runtime would never remove."""
    if cls.cleanup is not Operator.cleanup:
        cls.finalizer = cls.finalizer or f"{cls.name}.{cls.kind.gvk.group}/finalizer"
    elif cls.finalizer:
        raise TypeError(f"{cls.__name__} has a finalizer, but no cleanup")
    cls.finalizers = frozenset((cls.finalizer, *cls.former_finalizers)) - {""}
    if cls.finalizers and cls.reconcile_key is not Operator.reconcile_key:
        what = "cleanup" if cls.finalizer else "former_finalizers"
        raise TypeError(f"{cls.__name__} has {what}, for which it needs `reconcile`")


def _kind_of(cls: type) -> type[Resource] | None:
    """Return the kind that a class is an operator of, as in `Operator[Memcached]`."""
    for base in getattr(cls, "__orig_bases__", ()):
        for argument in get_args(base):
            if isinstance(argument, type) and issubclass(argument, Resource):
                return argument
    return getattr(cls, "kind", None)


AnyOperator: TypeAlias = type[Operator[Any]]
"""The class of an operator, which is its declaration."""
