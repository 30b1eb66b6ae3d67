"""An operator: one class with its declarations and its reconcile method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

from manager.api import DEGRADED, PROGRESSING, ObjectKey, Resource, is_crd
from manager.api.rights import RbacRule
from manager.controller import Result
from manager.operator.base import OperatorBase
from manager.operator.context import CLEANUP_WAITS, FAILURES, Blocked, Context, is_of_failure
from manager.operator.declaration import (
    Owns,
    Reads,
    Takes,
    WatchPods,
    check_attributes,
    check_hooks,
    check_indexes,
    check_kind,
    check_sources,
    check_spelling,
    daemons_of,
    timers_of,
)
from manager.operator.definitions import definition_rights
from manager.operator.steps import Steps
from manager.settings import Setting
from manager.webhook.methods import check_methods

T = TypeVar("T", bound=Resource)

_SPELT = ("reconcile", "reconcile_key", "cleanup", "on_error", "setup")
"""The methods whose misspellings are found."""

_OBJECT: Takes = {"obj": None, "ctx": Context}

_HOOKS: Mapping[str, Takes] = {
    "setup": {},
    "reconcile": _OBJECT,
    "reconcile_key": {"key": ObjectKey},
    "cleanup": _OBJECT,
    "gone": {"key": ObjectKey},
    "handed_over": {"key": ObjectKey},
    "on_error": {"obj": None, "error": Exception, "ctx": Context},
    "blocked": {"by": Blocked, "ctx": Context},
    "reconcile_failed": {"by": Blocked, "ctx": Context},
    "cleanup_blocked": {"by": Blocked, "ctx": Context},
}
"""The arguments of each method that the runtime calls."""


class Operator(OperatorBase, Generic[T]):
    '''Operator of a kind: it makes the cluster match each spec, and each status match the cluster.

        class MemcachedOperator(Operator[Memcached]):
            """Keeps a Deployment of memcached servers at the wanted size."""

            owns = (Deployment,)
            image = Setting("memcached-image", default="memcached:1.6", description="…")

            async def reconcile(self, memcached: Memcached, ctx: Context) -> None:
                deployment = await ctx.apply(self.deployment(memcached))
                memcached.status.ready_replicas = deployment.ready_replicas
                ctx.condition(memcached.status.Available, deployment.is_available, …)

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
        outside: a subclass of `Outside`, or its name as `module:Class`, which a manager never imports. In
            simulations it replaces what the operator keeps outside of the cluster.
    '''

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        kind = vars(cls).get("kind") or _kind_of(cls)
        if kind is None:
            return  # a base class for operators of several kinds
        check_kind(cls.__name__, kind)
        cls.kind = kind
        check_spelling(cls, Operator, _SPELT)
        if "name" not in vars(cls):
            cls.name = kind.gvk.kind.lower()
        check_attributes(cls)
        check_hooks(cls, Operator, _HOOKS)
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
        cls.timers = tuple(timers_of(cls, members, _OBJECT))
        cls.daemons = tuple(daemons_of(cls, members))
        for name in ({each.name for each in cls.timers} | {each.name for each in cls.daemons}) & {*_HOOKS}:
            raise TypeError(
                f"{cls.__name__}.{name} is called anyway: decorate another method, or return "
                "`Result(requeue_after=...)`"
            )
        if cls.reconcile_key is not Operator.reconcile_key:
            cls.shared_out = False  # a key does not tell the shard of a deleted object
        if cls.reconcile_key is not Operator.reconcile_key and cls.works_on_each():
            what = "a daemon" if cls.daemons else "a timer for each object"
            raise TypeError(f"{cls.__name__} has {what}, for which it needs `reconcile`")
        for each in members.values():
            if isinstance(each, Steps):
                each.check(cls, _OBJECT)
        cls._declare_status()
        check_methods(cls)

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
        if not ctx.reports_by_conditions:
            if not by.passing:
                self.record_once(by, ctx)
            return
        told_in = DEGRADED if DEGRADED in self.conditions else self.conditions[0]
        for each in self.conditions:
            event: Literal["Warning"] | None = "Warning" if each == told_in and not by.passing else None
            if each == DEGRADED and by.passing:
                ctx.condition(each, False, "AsExpected")
            else:
                holds = each == DEGRADED or (each == PROGRESSING and by.awaited)
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
        if not ctx.reports_by_conditions:
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
        elif ctx.reports_by_conditions and PROGRESSING not in self.conditions:
            told_in, status = self.condition_of_failure()
            ctx.condition(told_in, status if told_in != DEGRADED else False, by.reason, by.message)
        if by.awaited and ctx.reports_by_conditions and PROGRESSING in self.conditions:
            ctx.condition(PROGRESSING, True, by.reason, by.message)

    def record_once(self, by: Blocked, ctx: Context) -> None:
        """Record an Event of an obstacle that no condition can tell, unless it is known already."""
        # The message of a failure may be another each time.
        news = (by.reason, "" if by.message.startswith(FAILURES) else by.message)
        if self.told_blocked.get(ctx.object.key) != news:
            self.told_blocked[ctx.object.key] = news
            ctx.event(by.reason, by.message, warning=True)


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


def rights_of(operator: type[Operator[Any]]) -> list[RbacRule]:
    """Return the rules of an operator's role: those derived from its declarations, then its own `rights`."""
    kind = operator.kind
    group = (kind.gvk.group,)
    verbs = ["get", "list", "watch"]
    if is_crd(kind) or operator.finalizers:
        # Of a kind that others define, nothing is written but the finalizer of a declared `cleanup`.
        verbs.append("patch")
    rules = [RbacRule(group, (kind.plural,), tuple(verbs))]
    if operator.has_status:
        rules.append(RbacRule(group, (f"{kind.plural}/status",), ("patch",)))
    if operator.owns:
        # Owner references that hold up the owner's deletion take this.
        rules.append(RbacRule(group, (f"{kind.plural}/finalizers",), ("update",)))
    for source in operator.sources:
        verbs = ["list", "watch"]
        if isinstance(source, Owns):
            # The API server may demand the right to delete for an owner reference, too.
            verbs = ["get", *verbs, "create", "patch", "delete"]
        rules.append(RbacRule((source.kind.gvk.group,), (source.kind.plural,), tuple(verbs)))
        if isinstance(source, WatchPods):
            # Only its Events say why a pod's volumes cannot be mounted.
            rules.append(RbacRule(("",), ("events",), ("list",)))
    rules.append(RbacRule(("",), ("events",), ("create", "patch")))
    return [*rules, *definition_rights(operator.kinds()), *operator.rights]


AnyOperator: TypeAlias = type[Operator[Any]]
"""The class of an operator, which is its declaration."""
