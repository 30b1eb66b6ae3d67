"""The reconciles of an operator's objects: controller, steps around `reconcile`, failures and timers."""

from __future__ import annotations

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Generic, NamedTuple, TypeVar

from manager.api import DEGRADED, ObjectKey, Resource, Unstructured
from manager.cache import CacheEvent, Informer
from manager.client.reader import decode_object
from manager.controller import (
    Controller,
    ControllerOptions,
    Handler,
    KindSource,
    Priority,
    Result,
    Source,
    TickerSource,
    enqueue_mapped,
    enqueue_object,
    enqueue_owner,
)
from manager.controller.failure import Failure, describe, explain, is_transient
from manager.controller.source import trigger_of
from manager.election.coordinator import ControllerObjects, OwnedObjects
from manager.kube.errors import ApiError, KubeError, NoMatch, NotFound
from manager.operator.base import Failing
from manager.operator.child_progress import Child
from manager.operator.context import RECONCILE_FAILED, Blocked, Changed, Context, Gone, is_missing
from manager.operator.daemons import Daemons, failure_fields
from manager.operator.declaration import Owns, Reads, Timer, Watch
from manager.operator.definitions import Definitions
from manager.operator.operator import Operator
from manager.process.manager import Runnable
from manager.settings import Setting, SettingsError
from manager.telemetry.logs import get_logger, reconcile_log
from manager.util import clock
from manager.util.rate_limit import Repeats
from manager.webhook.methods import has_webhooks

T = TypeVar("T", bound=Resource)

_log = get_logger("controller")

_PAUSE = 5.0
"""Seconds without a reconcile of an object if its child had to be created again within that time."""

_PERSISTENT = 10
"""The number of consecutive transient failures, in about three seconds, after which they are reported."""

_RENEW_AFTER = 60.0
"""Seconds for which a message stays if a new one differs only in numbers, such as a port."""

_without_numbers = re.compile(r"[0-9]+").sub


class _Created(NamedTuple):
    """The children that were created for one state of an object, and the end of the pause after that."""

    state: tuple[str, str]
    children: frozenset[Child]
    again: bool
    until: float


def add_controller(
    operator: Operator[Any], options: ControllerOptions | None = None, definitions: Definitions | None = None
) -> Controller | None:
    """Add the operator to its manager: create its sources and controller, and call its `setup`.

    `options` defaults to the operator's options. The controller works while none of `definitions` prevents
    it. An operator with only webhooks has no controller.
    """
    cls, manager, kind = type(operator), operator.manager, operator.kind
    check_work(cls)
    by_key = cls.reconcile_key is not Operator.reconcile_key
    if not by_key and cls.reconcile is Operator.reconcile and not cls.works_on_each():
        operator.setup()
        _add_timers(operator, ())
        return None
    options = options or operator.options
    operator.rollouts.limit(options.max_concurrent_rollouts)
    objects = operator.informer
    for name, function in operator.indexes.items():
        objects.add_index(name, function)
    informers = [objects, *(_informer(operator, each, objects) for each in operator.sources)]
    counts = cls.counts if cls.finalizers or cls.daemons else cls.on
    own = KindSource(objects, enqueue_object, predicates=(counts,), relation="for")
    reconciler = None if by_key else ObjectReconciler(operator)
    sources: list[Source] = [own, operator.channel]
    if reconciler is not None:
        sources += reconciler.timers(objects)
        sources += [reconciler.daemons] if cls.daemons else ()
    for source, informer in zip(operator.sources, informers[1:], strict=True):
        sources.append(_source(operator, source, informer, objects))
    if (period := options.resync_period) is not None:
        everything = TickerSource(period, lambda: [each.key for each in objects.list()], rng=manager.rng)
        sources.append(everything)
    if definitions is not None and (definition := definitions.follow(operator.kinds())) is not None:
        sources.append(definition)
    operator.setup()
    _add_timers(operator, informers)
    owned_objects = None
    if options.needs_leader_election:
        owned_objects = manager.coordinator.owned_objects(
            ControllerObjects(
                name=operator.name,
                objects=objects,
                others=informers[1:],
                whole=not operator.shared_out,
                enqueue=partial(operator.enqueue, priority=Priority.LOW),
                counts=operator.counts_now,
                handed_over=partial(_hand_over, operator),
            )
        )
        if reconciler is not None:
            reconciler.owned_objects = reconciler.daemons.owned_objects = owned_objects
    controller = Controller(
        operator.name,
        reconciler or SimpleNamespace(reconcile=operator.reconcile_key),
        sources,
        options=options,
        metrics=manager.metrics,
        rng=manager.rng,
        primary=kind.gvk,
        skips_own_writes=operator.skips_own_writes,
        history=manager.history,
        owned_objects=owned_objects,
    )
    if reconciler is not None and operator.has_status:  # its reconciles compare the status at their end
        own.reconciling = controller.is_running
    manager.add(controller)
    return controller


def check_work(operator: type[Operator[Any]]) -> None:
    """Raise TypeError for an operator that would do nothing, or would never remove its finalizers."""
    by_key = operator.reconcile_key is not Operator.reconcile_key
    if by_key or operator.reconcile is not Operator.reconcile or operator.works_on_each():
        return
    if operator.finalizers:
        raise TypeError(f"{operator.__name__} has no reconcile, so it removes no finalizer")
    if not (operator.setup is not Operator.setup or operator.timers or has_webhooks(operator)):
        raise TypeError(f"{operator.__name__} has no reconcile, and no webhook either: it would do nothing")


def _hand_over(operator: Operator[Any], key: ObjectKey) -> None:
    operator.forget(key)
    operator.handed_over(key)


def _informer(operator: Operator[Any], source: Owns | Watch | Reads, objects: Informer) -> Informer:
    informer = operator.manager.cache.informer(
        source.kind,
        metadata_only=source.metadata_only,
        owned_by=operator.kind if isinstance(source, Owns) else None,
        filtered=isinstance(source, Owns) and objects.filter is not None,
        **source.selection._asdict(),
    )
    for name, function in source.indexes.items():
        informer.add_index(name, function)
    return informer


def _source(
    operator: Operator[Any], source: Owns | Watch | Reads, informer: Informer, objects: Informer
) -> Source:
    if isinstance(source, Owns):
        return KindSource(informer, _owners_and_waiting(operator, source, objects), relation="owns")
    if isinstance(source, Watch):
        handler = _of_ours(objects, enqueue_mapped(lambda meta: source.keys(meta, objects)))
        predicates = () if source.on is None else (source.on,)
        return KindSource(informer, handler, predicates=predicates, relation="watches")
    return KindSource(informer, None)


def _of_ours(objects: Informer, handler: Handler) -> Handler:
    """Return a handler that omits keys whose objects the cache lacks, such as those of other replicas."""
    if objects.filter is None:
        return handler
    return lambda event: [key for key in handler(event) if objects.get(key) is not None]


def _owners_and_waiting(operator: Operator[Any], owns: Owns, objects: Informer) -> Handler:
    owners, kind, matters = _of_ours(objects, enqueue_owner(operator.kind)), owns.kind, owns.on

    def handle(event: CacheEvent) -> Iterable[ObjectKey]:
        # Any change of the object that uses a wanted name may release the name.
        for waiting in tuple(operator.waiting_for_names.get((kind, event.key), ())):
            trigger = trigger_of(event, "freed", "owns", kind.gvk.kind)
            operator.channel.send(waiting, trigger=trigger)
        keys = owners(event)
        # For children of others the cache has only metadata: a predicate cannot compare these with whole
        # objects.
        return keys if not keys or matters is None or _changes_owner(event) or matters(event) else ()

    return handle


def _changes_owner(event: CacheEvent) -> bool:
    before = event.old_meta
    return before is not None and event.new is not None and before.controller != event.meta.controller


class ObjectReconciler(Generic[T]):
    """The reconciler that reads an object, calls the operator and writes the status."""

    def __init__(self, operator: Operator[T]) -> None:
        self._operator = operator
        self.daemons = Daemons(operator)
        self._due: defaultdict[ObjectKey, dict[str, None]] = defaultdict(dict)
        """The names of each object's timers that are due."""
        self._reconciles = type(operator).reconcile is not Operator.reconcile
        client = operator.client
        self._reader = client.within(operator.selection, ours=True)
        self._pruned = [
            (each.kind, (client.metadata if each.metadata_only else client).within(each.selection))
            for each in operator.sources
            if isinstance(each, Owns) and each.prune
        ]
        self._created: dict[ObjectKey, _Created] = {}
        self.owned_objects: OwnedObjects | None = None

    def timers(self, objects: Informer) -> Iterator[TickerSource]:
        """Yield a source for each timer that gets an object; when due, the source enqueues the objects."""
        operator = self._operator

        def ask(name: str) -> list[ObjectKey]:
            keys = [record.key for record in objects.list() if not record.deleting]
            for key in keys:
                self._due[key][name] = None
            # After a terminal failure, the timer's method waits for the reconcile that a change triggers.
            failing = operator.reported_failures
            return [key for key in keys if key not in failing or not failing[key].terminal]

        for each in operator.timers:
            if each.for_each:
                seconds, rng = _seconds(operator, each), operator.manager.rng
                yield TickerSource(seconds, partial(ask, each.name), jitter=each.jitter, why="timer", rng=rng)

    async def reconcile(self, request: ObjectKey) -> Result | None:
        """Reconcile the object with that key; if it no longer exists, call the operator's `gone`."""
        operator = self._operator
        if request in operator.awaited_names:
            operator.waits_no_more(request)
        obj: T | None = await self._reader.find(operator.kind, request)  # type: ignore[assignment]
        state = ("", "") if obj is None else (obj.metadata.uid, obj.metadata.resource_version)
        if request in self._created and (left := self._pause(request, state)) > 0:
            return Result(requeue_after=left)
        due = tuple(self._due.pop(request, ())) if self._due else ()
        try:
            return await self._reconcile(request, obj, state, due)
        except BaseException:
            if due:
                self._due[request] |= dict.fromkeys(due)
            raise

    async def failed(self, request: ObjectKey, error: BaseException) -> None:
        """Report the failed reconcile in the object's conditions or Events.

        Conflicts, and a briefly unreachable API server, are reported only if the failures continue.
        """
        operator, model = self._operator, self._operator.kind
        record = operator.informer.get(request)
        if record is None or (self.owned_objects is not None and not self.owned_objects.covers(record.uid)):
            return
        failing = operator.reported_failures.setdefault(request, Failing())
        failing.terminal = Failure.of(error, primary=model.gvk, key=request) is Failure.TERMINAL
        failing.transient = failing.transient + 1 if is_transient(error) else 0
        if 0 < failing.transient < _PERSISTENT:
            return
        # As JSON: the object may not fit its model, and changes by a failed reconcile are not written.
        kind = Unstructured.of(
            model.gvk.api_version, model.gvk.kind, plural=model.plural, namespaced=model.namespaced
        )
        stored = await decode_object(record.raw, kind, request)
        deleting = stored.metadata.deletion_timestamp is not None
        if deleting and operator.finalizers.isdisjoint(stored.metadata.finalizers):
            return  # no later reconcile would revert the condition
        ctx = Context(operator, stored)
        reason, message = describe(error, operator.errors)
        if deleting:
            by = _renewed(failing, "CleanupFailed", f"it fails: {message}")
        else:
            by = _renewed(failing, reason, f"{RECONCILE_FAILED}{message}")
        by.__cause__ = error
        (operator.cleanup_blocked if deleting else operator.reconcile_failed)(by, ctx)
        try:
            await ctx.write_conditions()
        except KubeError as problem:
            reconcile_log().debug("cannot report the failure as a condition", error=explain(problem))
            if isinstance(problem, NoMatch | ApiError) and not is_transient(problem):
                operator.record_once(by, ctx)

    async def _reconcile(
        self, key: ObjectKey, obj: Any, state: tuple[str, str], due: Sequence[str]
    ) -> Result | None:
        operator = self._operator
        while obj is not None:
            deleting = obj.metadata.deletion_timestamp is not None
            if deleting and operator.finalizers.isdisjoint(obj.metadata.finalizers):
                break
            ctx = Context(operator, obj)
            try:
                return await self._bring_up_to_date(obj, due, ctx, deleting=deleting)
            except Changed as changed:
                obj = changed.object
            except Gone:
                break
            except NotFound as error:
                # The API server also answers 404 for a subresource that it does not serve yet.
                if not is_missing(error, operator.kind, key) or await self._is_there(key, obj):
                    raise
                break
            except ApiError as error:
                if not error.is_namespace_terminating:
                    raise
                reconcile_log().debug("the namespace is being deleted: no object can be created there")
                return None
            finally:
                if ctx.created:
                    self._has_created(key, state, ctx.created)
        await self.daemons.stop(key)
        operator.forget(key)
        return await operator.gone(key)

    async def _is_there(self, key: ObjectKey, obj: T) -> bool:
        found = await self._operator.client.uncached.find(self._operator.kind, key)
        return found is not None and found.metadata.uid == obj.metadata.uid

    def _pause(self, key: ObjectKey, state: tuple[str, str]) -> float:
        """Return the seconds to wait before the next reconcile of an unchanged object.

        If the object was deleted, and the cache does not know that yet, the garbage collector deletes its new
        children at once. Each of these deletions would trigger the next reconcile.
        """
        created = self._created[key]
        left = created.until - clock.monotonic() if created.state == state else 0.0
        if left <= 0:
            del self._created[key]
        return left if created.again else 0.0

    def _has_created(self, key: ObjectKey, state: tuple[str, str], children: frozenset[Child]) -> None:
        again, until = False, clock.monotonic() + _PAUSE
        if (before := self._created.get(key)) is not None:
            again, children = not before.children.isdisjoint(children), before.children | children
        self._created[key] = _Created(state, children, again, until)

    async def _bring_up_to_date(
        self, obj: T, due: Sequence[str], ctx: Context, *, deleting: bool
    ) -> Result | None:
        operator, key = self._operator, ctx.key
        if self.owned_objects is not None and not self.owned_objects.covers(obj.metadata.uid):
            return None  # a new object has the name, and another replica owns it
        try:
            if deleting:
                await self.daemons.stop(key)
                result = await operator.cleanup(obj, ctx)
                _check_result(operator, "cleanup", result)
                if result is None:
                    await self._remove_finalizers(obj, ctx)
                    operator.forget(key)
                    return await operator.gone(key)
            else:
                if operator.finalizers and (operator.finalizer_first or not operator.finalizer):
                    await ctx.ensure_finalizer()
                if operator.daemons:
                    await self.daemons.ensure(obj)
                for timer in due:
                    await getattr(operator, timer)(obj, ctx)
                result = await operator.reconcile(obj, ctx) if self._reconciles else None
                _check_result(operator, "reconcile", result)
                for kind, reader in self._pruned:
                    await ctx.prune(kind, reader)
                operator.told_blocked.pop(key, None)
        except (Changed, Gone):
            raise
        except Exception as error:  # noqa: BLE001 - the operator decides which exceptions it handles
            result = await self._after(error, obj, ctx, deleting=deleting)
        else:
            ctx.refuse_unwritten_metadata()
        if deleting and not ctx.has_set_conditions:
            operator.cleanup_blocked(Blocked("CleaningUp", "it is not done yet", passing=True), ctx)
        await ctx.finish()
        operator.reported_failures.pop(key, None)
        return result if ctx.look_again_after is None else _within(result, ctx.look_again_after)

    async def _after(self, error: Exception, obj: T, ctx: Context, *, deleting: bool) -> Result | None:
        before, operator = ctx.set_types, self._operator
        ctx.handles_error = True
        try:
            result = await operator.on_error(obj, error, ctx)
        except Exception:
            ctx.enqueue_if_changed()
            if ctx.look_again_after is not None:
                operator.channel.send(ctx.key, after=ctx.look_again_after)
            raise
        if isinstance(error, Blocked) and not deleting:
            ctx.blocked(before)
        return result

    async def _remove_finalizers(self, obj: T, ctx: Context) -> None:
        """Remove the operator's finalizers; report the finalizers of others that remain."""
        operator = self._operator
        finalizers = obj.metadata.finalizers
        obj.metadata.finalizers = [each for each in finalizers if each not in operator.finalizers]
        await ctx.patch()
        ctx.log.info("cleaned up the deleted object" if operator.finalizer else "removed a former finalizer")
        if others := ", ".join(obj.metadata.finalizers):
            if operator.condition_list is not None and not ctx.has_set_conditions:
                message = f"is being deleted; waits for the finalizers of others: {others}"
                for each in operator.conditions:  # no later reconcile updates its children's status
                    ctx.condition(each, False if each == DEGRADED else "Unknown", "CleanedUp", message)
            try:
                await ctx.finish()
            except (KubeError, Gone) as error:
                ctx.log.debug("cannot report the finalizers that block the deletion", error=explain(error))
        ctx.written()


def _check_result(operator: Operator[Any], method: str, result: object) -> None:
    """Raise TypeError for an invalid result; the status is not written then, as after any error."""
    if result is not None and not isinstance(result, Result):
        name = f"{type(operator).__name__}.{method}"
        raise TypeError(f"{name} returns a Result or None, not {result!r}")


def _within(result: Result | None, seconds: float) -> Result:
    if result is None:
        return Result(requeue_after=seconds)
    if result.requeue or (result.requeue_after is not None and result.requeue_after <= seconds):
        return result
    return replace(result, requeue_after=seconds)


def _renewed(failing: Failing, reason: str, message: str) -> Blocked:
    """Return `Blocked` with this reason and message, or with recent ones that differ only in numbers."""
    now = clock.monotonic()
    if failing.reported is not None and now < failing.reported_at + _RENEW_AFTER:
        before, said = failing.reported
        if before == reason and _without_numbers("0", said) == _without_numbers("0", message):
            return Blocked(before, said)
    failing.reported, failing.reported_at = (reason, message), now
    return Blocked(reason, message)


def _seconds(operator: Operator[Any], timer: Timer) -> float:
    if not isinstance(timer.seconds, Setting):
        return timer.seconds
    seconds = operator.settings[timer.seconds]
    if not 0 < seconds < math.inf:
        raise SettingsError(f"{timer.seconds.flag}: @every needs more than 0 seconds, not {seconds}")
    return seconds


def _add_timers(operator: Operator[Any], informers: Sequence[Informer]) -> None:
    """Add the timers that are called once for all objects; each waits until the `informers` have synced."""

    async def run(timer: Timer, seconds: float) -> None:
        for informer in informers:
            await informer.wait_synced()
        repeats = Repeats()
        while True:
            await asyncio.sleep(seconds * (1 + operator.manager.rng.uniform(-timer.jitter, timer.jitter)))
            try:
                await getattr(operator, timer.name)()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the operator's code may raise anything
                if fields := failure_fields(error, repeats):
                    _log.error("a timer failed", controller=operator.name, timer=timer.name, **fields)

    for each in operator.timers:
        if not each.for_each:
            call = partial(run, each, _seconds(operator, each))
            operator.manager.add(Runnable(f"{operator.name}-{each.name}", call, leader_only=True))
