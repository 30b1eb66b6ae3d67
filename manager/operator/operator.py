"""An operator: one class with its declarations and its reconcile method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

from manager.api import DEGRADED, PROGRESSING, ObjectKey, Resource
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
"""The methods whose misspellings raise an error."""

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
"""The parameters of each method that the runtime calls."""


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

    Flags, CustomResourceDefinitions, roles and webhooks are generated from the class without running it. A
    manager creates one instance. `reconcile` is called when something that the class declares has changed,
    any number of times, but never concurrently for one object. It checks what exists and adds what is
    missing.

    Attributes that may be set:
        name: the controller's name in `--controllers`, metrics and logs; default the kind in lower case.
        versions: other versions of the kind, which the webhook converts.
        on: the predicate for events of the objects themselves; by default, it passes changes of the desired
            state (`desired_state_changed`), and of a status by other clients (`status_changed`). With a
            `cleanup`, the beginning of a deletion always counts.
        owns, watches, reads: other kinds; a `Kind` alone stands for `Owns(Kind)`, and so on.
        selection: the objects that it reconciles; default all.
        indexes: index functions over the objects themselves, by name; write `indexes: ClassVar = {...}`, as
            linters want for mutable attributes.
        conditions: the condition types that are set when an object is blocked (see `blocked`); default the
            types that its `Status` names, or else Ready for a kind with `@crd` whose conditions accept it.
        errors: the reason, in conditions and Events, for each type of exception that `reconcile` and
            `cleanup` raise, such as `{PaymentRefused: "PaymentRefused"}`. The object then shows the
            exception's text to all its readers. The reason for other exceptions is the name of their type.
        options: limits, back-off, resync; flags take precedence.
        rights: further rights; the rights for the declarations above are added automatically.
        extends_status: whether it writes the status of a kind that others define (a kind without `@crd`),
            such as its own condition on a Deployment. By default, the operator must not write that status.
            `observedGeneration` is never written there: its value belongs to the kind's controller.
        admission: options of its webhooks (`manager.webhook`). For a webhook of another kind, assign a
            `webhook.Admission` to an attribute of any name.
        finalizer: the name of the finalizer that keeps an object until `cleanup` is done.
        former_finalizers: its earlier names, or finalizers of a former operator. The runtime removes them
            whether or not there is a `cleanup`, also from objects that are being deleted. With `cleanup`,
            `finalizer` replaces them.
        former_managers: field managers that an earlier operator used for the children: `apply` takes over
            their fields, and removes unwanted ones.
        finalizer_first: add the finalizer before `reconcile`; False if `reconcile` calls `ensure_finalizer`.
        skips_own_writes: whether events of a reconcile's own writes enqueue nothing. Set it for operators
            that use the objects that their writes return. Leave it False for an operator that creates
            something, returns, and expects another call.
        shared_out: whether replicas divide its objects with `--shards`. Each replica then caches only its own
            objects, unless the operator's `reads` or `watches` contain its own kind. Set it to False if
            reconciles of several objects share state in memory: then one replica does all of them.
        outside: a subclass of `Outside`, or its name as `module:Class`, which a manager never imports. In
            simulations it replaces the operator's state outside of the cluster.
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
                f"{cls.__name__}.{name} is called by the runtime: decorate another method, or return "
                "`Result(requeue_after=...)`"
            )
        if cls.reconcile_key is not Operator.reconcile_key:
            cls.shared_out = False  # the key of a deleted object does not identify its shard
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
        """Create resources that the operator needs besides its objects.

        It is called once, before the manager runs, and only if the operator runs. Call `manager.add` here for
        things that live as long as the manager (a `Lifespan` or a `Runnable`), and `enqueue` for your own
        event sources.
        """

    async def reconcile(self, obj: T, ctx: Context) -> Result | None:
        """Bring one object up to date; the result None means done until something changes.

        The object exists and is not being deleted. It is a copy, whose status changes are written when this
        method returns. Exceptions are counted, logged, shown in the object's conditions (see
        `reconcile_failed`) and retried with back-off (see `on_error`). Do not suppress
        `asyncio.CancelledError`: time-outs and the end of the process use it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no reconcile")

    async def reconcile_key(self, key: ObjectKey) -> Result | None:
        """Bring the object of a key up to date; define this method instead of `reconcile` and `cleanup`.

        The runtime does nothing else: the object may be missing or being deleted, and you handle status,
        conditions and Events.
        """
        raise NotImplementedError(f"{type(self).__name__} has no reconcile_key")

    async def cleanup(self, obj: T, ctx: Context) -> Result | None:  # noqa: ARG002 - for others to override
        """Undo effects that the garbage collector does not undo, before the object is deleted.

        Defining this method adds a finalizer. The result None removes the finalizer. A Result means that the
        cleanup is not done, and schedules another call. While the cleanup is not done or fails, conditions
        say so: see `cleanup_blocked`.
        """
        return None

    async def gone(self, key: ObjectKey) -> Result | None:
        """Delete the operator's own state of an object that no longer exists, or needs no further cleanup.

        With `--shards`, every replica that knew the object calls this method. So it must not write, except
        with `shared_out = False`.
        """

    def handed_over(self, key: ObjectKey) -> None:
        """Delete the operator's own state of an object that another replica now reconciles (`--shards`)."""

    async def on_error(self, obj: T, error: Exception, ctx: Context) -> Result | None:
        """Handle an error that `reconcile`, `cleanup` or a timer's method has raised.

        If this method returns, the error counts as handled: the status is written, and the Result is used. If
        it raises, the reconcile has failed and is retried with back-off; after TerminalError it is not
        retried. The default implementation handles Blocked.
        """
        if isinstance(error, Blocked):
            if obj.metadata.deletion_timestamp is None:
                self.blocked(error, ctx)
            else:
                self.cleanup_blocked(error, ctx)
            return None if error.retry_after is None else Result(requeue_after=error.retry_after)
        raise error

    def blocked(self, by: Blocked, ctx: Context) -> None:
        """Set the conditions of a blocked object, or record an Event if its kind has no conditions.

        Degraded becomes true unless `by.passing`. Progressing becomes true if `by.awaited`, which
        `by.passing` implies. All other conditions become false. Unless `by.passing`, an Event is recorded.
        After the next successful reconcile, the runtime reverts the conditions that the operator does not
        set itself: Degraded becomes false, the others are removed.
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

        Degraded becomes true; without it, Ready becomes false; without both, the first of `conditions`
        becomes Unknown. Those of `conditions` that the object lacks become Unknown, others stay. An Event is
        recorded when status or reason change. After the next successful reconcile, the runtime reverts the
        conditions whose message reports the failure, unless the operator has set them itself.

        `ctx.object` is the stored object without its model, because it may not fit the model. The error is
        `by.__cause__`. A conflict or an unreachable API server is reported after ten consecutive failures.
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
        """Report that the object is being deleted, and why its cleanup is not done.

        The runtime calls it when `cleanup` fails, or is not done and has set no condition itself. Progressing
        becomes true if `by.awaited`. Unless it shows a passing problem, the condition of `reconcile_failed`
        is set, too (Degraded to false if `by.passing`). All others stay: the children may still work.
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
        """Record an Event for a blocked object without conditions, unless it equals the last such Event."""
        # The message of a failure may differ each time.
        news = (by.reason, "" if by.message.startswith(FAILURES) else by.message)
        if self.told_blocked.get(ctx.object.key) != news:
            self.told_blocked[ctx.object.key] = news
            ctx.event(by.reason, by.message, warning=True)


def _set_finalizers(cls: type[Operator[Any]]) -> None:
    """Set the names of the operator's finalizers; raise TypeError if no method would remove them."""
    if cls.cleanup is not Operator.cleanup:
        cls.finalizer = cls.finalizer or f"{cls.name}.{cls.kind.gvk.group}/finalizer"
    elif cls.finalizer:
        raise TypeError(f"{cls.__name__} has a finalizer, but no cleanup")
    cls.finalizers = frozenset((cls.finalizer, *cls.former_finalizers)) - {""}
    if cls.finalizers and cls.reconcile_key is not Operator.reconcile_key:
        what = "cleanup" if cls.finalizer else "former_finalizers"
        raise TypeError(f"{cls.__name__} has {what}, for which it needs `reconcile`")


def _kind_of(cls: type) -> type[Resource] | None:
    """Return the kind in an operator's base class, as in `Operator[Memcached]`."""
    for base in getattr(cls, "__orig_bases__", ()):
        for argument in get_args(base):
            if isinstance(argument, type) and issubclass(argument, Resource):
                return argument
    return getattr(cls, "kind", None)


def rights_of(operator: type[Operator[Any]]) -> list[RbacRule]:
    """Return the rules of an operator's role: those for its declarations, then its own `rights`."""
    kind = operator.kind
    group = (kind.gvk.group,)
    verbs = ["get", "list", "watch"]
    if operator.finalizers:
        verbs.append("patch")
    rules = [RbacRule(group, (kind.plural,), tuple(verbs))]
    if operator.has_status:
        rules.append(RbacRule(group, (f"{kind.plural}/status",), ("patch",)))
    if operator.owns:
        # An owner reference with `blockOwnerDeletion` needs this right.
        rules.append(RbacRule(group, (f"{kind.plural}/finalizers",), ("update",)))
    for source in operator.sources:
        verbs = ["list", "watch"]
        if isinstance(source, Owns):
            # The API server may demand the right to delete for an owner reference, too.
            verbs = ["get", *verbs, "create", "patch", "delete"]
        rules.append(RbacRule((source.kind.gvk.group,), (source.kind.plural,), tuple(verbs)))
        if isinstance(source, WatchPods):
            # Only a pod's Events say why its volumes cannot be mounted.
            rules.append(RbacRule(("",), ("events",), ("list",)))
    rules.append(RbacRule(("",), ("events",), ("create", "patch")))
    return [*rules, *definition_rights(operator.kinds()), *operator.rights]


AnyOperator: TypeAlias = type[Operator[Any]]
"""The class of an operator, which is its declaration."""
