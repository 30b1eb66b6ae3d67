"""The context of a reconcile: children, conditions, Events, and checks with the API server."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import orjson
from msgspec import structs
from pydantic import ValidationError

from manager.api import (
    DEGRADED,
    Condition,
    ConditionStatus,
    ConditionType,
    ObjectKey,
    ObjectMeta,
    Resource,
    Unstructured,
    find_condition,
    is_controlled_by,
)
from manager.api.condition import CONDITION_REASON
from manager.api.rights import Undeclared
from manager.cache import Meta, meta_in
from manager.client import Applied, Client, FieldConflict, ObjectList, Outcome, OwnedByOther, Propagation
from manager.client.child_label import label_of
from manager.client.client import ApplyOptions
from manager.client.reader import CachedReader, MetadataReader
from manager.client.write import KubernetesModel, resource_of
from manager.events import EventType
from manager.kube.errors import Conflict, Invalid, NotFound
from manager.operator.base import OperatorBase
from manager.operator.child_progress import (
    ASK_AGAIN_AFTER,
    CONDITION,
    MOST_LOOPS,
    REASONS,
    Child,
    changed_fields,
    is_rolled_out,
    is_workload,
)
from manager.operator.conditions import ConditionList, status_of
from manager.telemetry.logs import LONGEST, reconcile_log, shortened
from manager.telemetry.runs import LONGEST_TEXT, current_record
from manager.util import clock
from manager.util.loop import Portions
from manager_kinds.pod_health import PodHealth

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from manager.client.kubernetes import (
        ContainerStreams,
        ExecOptions,
        ExecResult,
        LogOptions,
        PortConnection,
        TransportApiClient,
    )
    from manager_kinds.apps_v1 import Deployment

R = TypeVar("R", bound=Resource)
C = TypeVar("C")

NAME_TAKEN = "NameTaken"
"""The reason, in conditions and Events, if another object uses a child's name."""

_UNSEEN_RETRY, _UNSEEN_PASSING_RETRY = 30.0, 2.0
"""Seconds until the check of a taken child name is repeated if the cache lacks the object with that name: no
event may report its release. The second value applies if the name will become free by itself."""

RECONCILE_FAILED = "the reconcile failed: "
CLEANUP_WAITS = "is being deleted; waits for its cleanup: "
FAILURES = (RECONCILE_FAILED, CLEANUP_WAITS)
"""The prefixes of messages by which the runtime recognises the conditions that it has set for a failure."""

LEFT_OVER = "LeftOver"
"""The reason if a child of an earlier owner still uses a child's name and will be deleted."""


class Blocked(Exception):
    """The reconcile cannot go on until something changes.

    This is a state and not a failure: `Operator.blocked` sets conditions for it. The object is reconciled
    again when a watched object changes, or after `retry_after` seconds.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        passing: bool = False,
        awaited: bool = False,
        retry_after: float | None = None,
    ) -> None:
        """Create the exception.

        Args:
            reason: one word in CamelCase, for programs.
            message: description of the problem for users.
            passing: whether the problem will soon end by itself, and needs no Event.
            awaited: whether a user or the cluster is expected to provide the missing part; a passing problem
                is awaited, too.
            retry_after: seconds until the next attempt; None if an event triggers it.
        """
        super().__init__(message)
        if not re.fullmatch(CONDITION_REASON, reason):
            raise ValueError(f"Blocked: reason {reason!r} has to be one word in CamelCase")
        self.reason = reason
        self.message = message
        self.passing = passing
        self.awaited = awaited or passing
        self.retry_after = retry_after

    @classmethod
    def by_earlier_child(cls, child: str, owner: Resource, finalizers: Sequence[str] | None) -> Self:
        """Return the error for a name that a child of an earlier object with the owner's name still uses.

        The child will be deleted: it waits for `finalizers`; None means that its deletion has not begun.
        """
        earlier = f"{child} of an earlier {owner.gvk.kind} of this name"
        return cls(LEFT_OVER, f"{earlier} is still there: {_awaited_end(finalizers)}", passing=True)

    @classmethod
    def name_taken(cls, why: str) -> Self:
        """Return the error for a child's name that another object uses; `why` names the other object."""
        return cls(NAME_TAKEN, f"{why}; it is left alone")


def _awaited_end(finalizers: Sequence[str] | None) -> str:
    if finalizers is None:
        return "the cluster's garbage collector has yet to delete it"
    return f"it is being deleted, and waits for {', '.join(finalizers) or 'its end'}"


class Gone(Exception):
    """The API server no longer has the object, or is deleting it; the cache does not know that yet."""


class Changed(Exception):
    """The object on the API server differs from the cached one; `object` is the server's object."""

    def __init__(self, obj: Resource) -> None:
        super().__init__(f"{obj.kind} {obj.key} has been changed, and the cache has not heard of it yet")
        self.object = obj


def is_of_failure(condition: Condition) -> bool:
    """Return whether the runtime has set the condition because a reconcile failed."""
    return condition.message.startswith(FAILURES)


def is_missing(error: NotFound, kind: type[Resource], key: ObjectKey) -> bool:
    """Return whether the object is missing; False if its kind is missing, for example without its CRD."""
    return error.details.get("name") == key.name and error.details.get("kind") == kind.plural


class LongOperation(Protocol):
    """A long operation of an operator, such as `Steps`."""

    async def run(self, operator: Any, ctx: Context) -> bool:
        """Continue the operation; return whether it is complete."""
        ...


class ChildOptions(TypedDict, Generic[C], total=False):
    """The options of `Context.apply` for a child of one kind."""

    created: str
    changed: Callable[[C, C], tuple[str, str] | None] | None
    initial: Sequence[str]


class Context:
    """Context of one reconcile of one object. Do not use it afterwards.

    Attributes: `object` is the object that `reconcile` gets; `client` reads from the cache and writes to the
    server, with the operator's own field manager.
    """

    # Most reconciles change none of these fields: the first change creates them.
    _before: Sequence[Condition] | None = None
    _confirmed = _is_latest = _blocked_now = _waits_to_roll_out = handles_error = False
    created: frozenset[Child] = frozenset()
    look_again_after: float | None = None

    def __init__(self, operator: OperatorBase, obj: Resource) -> None:
        self.object = obj
        self.key = obj.key
        self.client: Client = operator.client
        self._operator = operator
        self._metadata = _writable(obj.metadata)
        self._set: set[ConditionType] = set()
        self._later: list[Callable[[], object]] = []
        self._applied: set[Child] = set()

    @property
    def log(self) -> FilteringBoundLogger:
        """Return the logger with the fields `controller`, `namespace`, `name` and `reconcile_id`."""
        return reconcile_log()

    @property
    def program(self) -> str:
        """Return the program's name as a value for the label `app.kubernetes.io/managed-by`."""
        return self._operator.manager.program.name

    @property
    def shard_labels(self) -> dict[str, str]:
        """Return the label that assigns the object's children to a shard (`--shards`).

        With `--shards`, `apply` sets the label. Set it yourself on pod templates, and on objects that you
        create in another way. An object's label never changes, with `--shards` and without.
        """
        label = self.client.child_label
        return {} if label is None else {label.key: label_of(self.object.metadata.uid)}

    def token(self, nbytes: int) -> str:
        """Return a random password of `nbytes` random bytes, as letters, digits, `-` and `_`.

        The operating system provides the bytes; in a simulation, the seed does.
        """
        return base64.urlsafe_b64encode(self._operator.manager.unguessable(nbytes)).rstrip(b"=").decode()

    # Conditions and Events

    @property
    def has_set_conditions(self) -> bool:
        """Return whether this reconcile has set any condition."""
        return self._before is not None

    @property
    def reports_by_conditions(self) -> bool:
        """Return whether the runtime reports on the object by conditions. Otherwise, it records Events."""
        conditions, obj = self._operator.condition_list, self.object
        if conditions is None or not self._operator.conditions:
            return False
        return not isinstance(obj, Unstructured) or conditions.fits(obj)

    @property
    def conditions(self) -> dict[ConditionType, Condition]:
        """Return the object's conditions by type."""
        held = self._operator.condition_list
        there = [] if held is None else held.read(self.object)
        return cast("dict[ConditionType, Condition]", {each.type: each for each in there})

    def condition(
        self,
        type: ConditionType,  # noqa: A002 - the field's name
        status: bool | Literal["Unknown"],
        reason: str,
        message: str = "",
        *,
        event: EventType | None = None,
    ) -> None:
        """Set the condition of that type for the current generation of the object.

        The transition time changes only with the status of the condition. With `event`, an Event is recorded
        when the object's status is written, if status, reason or message have changed. The message is cut
        after 1,024 characters, because it may quote long output of another program.
        """
        if len(message) > LONGEST:
            message = shortened(message)
        conditions, obj = self._operator.condition_list, self.object
        if conditions is None:
            hint = self._operator.hint_of_status()
            raise Undeclared(
                f"{obj.kind} has no status.conditions that can be set: use ctx.event() for {type}{hint}"
            )
        if not conditions.takes(type):
            raise Undeclared(f"{obj.kind} takes no condition of type {type}: {conditions.why_refused(type)}")
        if self._before is None:
            self._before = conditions.read(obj)
        given: object = status
        if isinstance(given, str) and given != "Unknown":  # Python takes the string "False" for true
            why = f'status {given!r} has to be True, False or "Unknown"'
            raise TypeError(f"condition {type} of {obj.kind}: {why}")
        value: ConditionStatus = "Unknown" if given == "Unknown" else "True" if given else "False"
        self._set.add(type)
        try:
            conditions.set(obj, type, value, reason, message)
        except ValidationError as error:
            first = error.errors()[0]
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            if first["loc"] == ("reason",):
                why = f"reason {reason!r} has to be one word in CamelCase"
            raise ValueError(f"condition {type} of {obj.kind}: {why}") from None
        if event is not None:
            said = find_condition(self._before, type)
            if said is None or (said.status, said.reason, said.message) != (value, reason, message):
                self.once_written(partial(self._record, event, reason, message))

    def set_conditions(self, conditions: Iterable[tuple[ConditionType, bool, str, str]]) -> None:
        """Set several conditions, each with type, status, reason and message; see `conditions_for`.

        A Warning is recorded when Degraded becomes true or gets another reason. A changed message alone
        causes no Warning: the message may quote a log line, which differs each time.
        """
        for kind, holds, reason, message in conditions:
            self.condition(kind, holds, reason, message)
            if kind == DEGRADED and holds:
                self.warn_of(kind)

    def warn_of(self, type: ConditionType) -> None:  # noqa: A002 - the field's name
        """Record a Warning with a condition's reason and message if its status or reason has changed."""
        before, now = find_condition(self._before, type), self.conditions[type]
        if before is None or (before.status, before.reason) != (now.status, now.reason):
            self.event(now.reason, now.message, warning=True, once_written=True)

    def event(self, reason: str, message: str, *, warning: bool = False, once_written: bool = False) -> None:
        """Record an Event about the object; `message` must not contain a secret.

        With `once_written`, the Event is recorded when the status is written. Use it for an Event that
        results from a comparison with the status: else a retry after a failed write records the Event again.
        An Event that is recorded at once, and is no warning, is also logged.
        """
        kind: EventType = "Warning" if warning else "Normal"
        if once_written:
            self.once_written(partial(self._record, kind, reason, message))
            return
        self._record(kind, reason, message)
        if not warning:
            self.log.info("queued an Event", reason=reason, message=message)

    def awaits(self, what: str) -> None:
        """Record for users which event triggers the next reconcile, such as `a pod named jack is created`."""
        if (run := current_record()) is not None:
            run.awaits = shortened(what, LONGEST_TEXT)

    def once_written(self, call: Callable[[], object]) -> None:
        """Call `call` after the status is written or, in a `cleanup`, the finalizer is removed."""
        self._later.append(call)

    def is_observed(self) -> bool:
        """Return whether the status was written for the current spec."""
        observed = getattr(getattr(self.object, "status", None), "observed_generation", None)
        return bool(self.object.metadata.generation == observed)

    # Children

    @overload
    async def apply(self, child: R, **options: Unpack[ChildOptions[R]]) -> R: ...
    @overload
    async def apply(self, child: KubernetesModel, **options: Unpack[ChildOptions[Any]]) -> Any: ...
    async def apply(self, child: Resource | KubernetesModel, **options: Unpack[ChildOptions[Any]]) -> Any:
        """Apply the fields set in `child`, create the child if it is missing, and return it as stored.

        The object becomes the child's owner. A child that this operator created gets a lost owner reference
        back. Other clients' changes of these fields are reverted; items that they added to our lists are
        removed if the server refuses the apply because of them. No request is sent if nothing would change.
        Unset fields of a kind with `@crd()` are not sent. A kubernetes-asyncio model becomes a declared kind.

        An Event reports the change. The message of `Created` ends with the option `created`. `Restored` names
        the fields and the client that had changed them. If `child` differs from the last apply, the Event is
        `Updated`, or the reason and message that `changed` returns for the child before and after.

        `initial` lists paths, such as `.spec.replicas`, of fields that are set only at the creation.
        Afterwards, other clients, such as an autoscaler, may change them. Values that the operator has set
        earlier stay.

        Raises Blocked if another object, or a child of an earlier owner, uses the name; do not catch it.
        Raises Invalid or BadRequest if the server refuses the child, and ValueError for a wrong namespace.

        A child changes too often if it changes ten times in a minute, without a change of the object's spec
        or of a watched object. The runtime then waits up to a minute before each change of this child.
        `ChildrenStable` and an Event report the problem. If 300 reconciles of the object in a minute create
        children of one kind without such a change, Blocked delays each further creation by up to a minute.
        """
        operator = self._operator
        if not isinstance(child, Resource):
            child = resource_of(child, (each.kind for each in operator.sources))
        kind, key, writes = type(child), child.key, operator.child_writes
        self._applied.add((kind, key))
        if writes.of(self.object) and (there := await self._left_alone(kind, key)) is not None:
            return there
        is_limited = operator.rollouts.limited and is_workload(child)
        may_update = partial(self._may_roll_out, (kind, key)) if is_limited else None
        how: ApplyOptions = {
            "owner": self.object,
            "initial": options.get("initial", ()),
            "may_update": may_update,
        }
        applied: Applied[Any] | None = None
        while applied is None:
            try:
                applied = await self.client.apply(child, **how)
            except OwnedByOther as error:
                if not error.made_here or "adopt" in how:
                    raise await self._blocked(error, kind) from error
                # A deletion of the object with --cascade=orphan removes the owner from its children, so that
                # they stay. With this owner, they would be deleted, too.
                await self.confirm()
                how["adopt"] = True
        if is_limited and is_rolled_out(applied.object):
            operator.rollouts.complete(self.key, (kind, key))
        if applied.outcome is Outcome.CREATED:
            if not self.created or not any(each is kind for each, _ in self.created):
                of_kind = kind, ObjectKey(self.object.metadata.namespace, "")  # one counter for the kind
                writes.wrote(self.object, of_kind, Outcome.CREATED, current_record(), str, most=MOST_LOOPS)
            self.created |= {(kind, key)}
            name = f"{child.gvk.kind} {applied.object.metadata.name}"
            self.event("Created", f"Created {name} {options.get('created', '')}".rstrip())
        elif applied.previous is not None:
            self._announce(applied, applied.previous, child, options.get("changed"))
        elif writes.of(self.object):
            self.look_again_within(writes.held(self.object, (kind, key)))
        return applied.object

    async def _left_alone(self, kind: type[R], key: ObjectKey) -> R | None:
        """Return the stored child if it must not be written now; raise Blocked after too many creates."""
        owner, writes = self.object, self._operator.child_writes
        if (pause := writes.pause(owner, (kind, key))) > 0:
            there = await self.client.find(kind, key)
            if (
                there is not None
                and there.metadata.deletion_timestamp is None
                and is_controlled_by(there.metadata, owner)
            ):
                self.look_again_within(pause)
                return there
        pause = writes.loop_pause(owner, (kind, ObjectKey(owner.metadata.namespace, "")))
        if pause > 0 and await self.client.find(kind, key) is None:
            why = f"{MOST_LOOPS} reconciles in a minute have created a {kind.gvk.kind} each"
            text = f"{why}, without another change; each further create waits up to a minute"
            raise Blocked(REASONS[Outcome.CREATED], text, retry_after=pause)
        return None

    async def correct(self, child: R) -> R:
        """Write a child's metadata that the caller has changed since reading it; return the stored child.

        Use it for children that are created, not applied. Events say `Updated` or `Restored`, as for `apply`.
        """
        applied = await self.client.correct(child)
        if applied.previous is not None:
            self._announce(applied, applied.previous, child, None)
        return applied.object

    async def refuse_taken(self, kind: type[Resource], name: str) -> None:
        """Raise Blocked, as `apply` would, if a child's name is taken; write nothing.

        Call it for children that are created later, so that users learn about the problem at once. The object
        is reconciled again when an object of that name is created, changed or deleted. With `--shards`,
        there may be no event for that, so the object is reconciled after 30 seconds.
        """
        key = ObjectKey(self.object.metadata.namespace, name)
        try:
            await self.client.refuse_foreign(kind, key, self.object)
            self._operator.waits_for(kind, key, self.key)
            cache = self._operator.manager.cache
            if not (cache.has(kind, key) or cache.holds_all(kind, key.namespace)):
                self.look_again_within(_UNSEEN_RETRY)
        except OwnedByOther as error:
            if not error.made_here:
                raise await self._blocked(error, kind) from error

    async def delete(
        self, child: Resource | KubernetesModel, *, propagation: Propagation = "Background"
    ) -> None:
        """Delete a child, or any other object, and the objects that it owns.

        No request is sent if the child is being deleted already. Nothing happens if the child is gone or
        another object has its name. `propagation` decides about the owned objects: see `Client.delete`.
        """
        child = resource_of(child, (each.kind for each in self._operator.sources))
        if child.metadata.deletion_timestamp is not None:
            return
        if await self.client.delete_if_there(child, propagation=propagation):
            name = f"{child.gvk.kind} {child.metadata.name}"
            self.log.info("deleted an object", object=name, reason="Deleted")

    async def children(self, kind: type[R], *, labels: dict[str, str] | str | None = None) -> ObjectList[R]:
        """Return the cached objects of a kind that the reconciled object owns."""
        return await self.client.list(
            kind, namespace=self.object.metadata.namespace, labels=labels, owner=self.object
        )

    async def list(self, kind: type[R], *, labels: dict[str, str] | str | None = None) -> ObjectList[R]:
        """Return the cached objects of a kind in the reconciled object's namespace."""
        return await self.client.list(kind, namespace=self.object.metadata.namespace, labels=labels)

    async def keys(
        self,
        kind: type[Resource],
        *,
        labels: dict[str, str] | str | None = None,
        deleting: bool | None = None,
    ) -> Sequence[ObjectKey]:
        """Return the sorted keys of a `metadata_only` kind's objects in the object's namespace.

        No object is decoded. `deleting` True selects the objects that are being deleted, False all others.
        """
        namespace = self.object.metadata.namespace
        return await self.client.metadata.keys(kind, namespace=namespace, labels=labels, deleting=deleting)

    async def pods(self, deployment: Deployment) -> Sequence[PodHealth]:
        """Return the health of a Deployment's pods; the cache selects them by the Deployment's `matchLabels`.

        The class has to declare `WatchPods`. If pods with a node have no sandbox or volumes after ten
        seconds, the Events of one such pod are read from the API server, at most every 30 seconds. The object
        is reconciled again when the health of a pod changes, even if only time has passed.
        """
        source = self._operator.pod_watch
        if source is None:
            raise TypeError(f"{type(self._operator).__name__} has no WatchPods, which ctx.pods reads")
        records = await self._operator.pod_reader.records(
            source.kind,
            namespace=deployment.metadata.namespace,
            labels=deployment.spec["selector"]["matchLabels"],
        )
        pods, portions, now = [], Portions(), clock.now()
        for record in records:
            await portions.begin(len(record.raw))
            pods.append(PodHealth.of(orjson.loads(record.raw), now))
        for pod in pods:
            if pod.look_again_at is not None:
                self.look_again_within((pod.look_again_at - now).total_seconds())
        stuck = next((index for index, pod in enumerate(pods) if pod.is_stuck), None)
        if stuck is not None:
            problem = await self._operator.pod_events.problem_of(pods[stuck])
            pods[stuck] = pods[stuck]._replace(problem=problem)
            self.look_again_within(ASK_AGAIN_AFTER)
        return pods

    def look_again_within(self, seconds: float | None) -> None:
        """Reconcile the object again after at most `seconds`, even if this reconcile fails."""
        if seconds is None:
            return
        known = self.look_again_after
        self.look_again_after = max(seconds, 0.1) if known is None else min(known, max(seconds, 0.1))

    async def run_steps(self, steps: LongOperation) -> bool:
        """Continue a long operation of the operator; return whether it is complete.

        See `Steps`. The status is written before and after each step.
        """
        return await steps.run(self._operator, self)

    async def find(self, kind: type[R], name: str) -> R | None:
        """Return the cached object of that name in the object's namespace; None if it does not exist."""
        return await self.client.find(kind, ObjectKey(self.object.metadata.namespace, name))

    # Access to pods, and to the whole API

    async def exec(
        self, pod: Resource | str, command: Sequence[str], **options: Unpack[ExecOptions]
    ) -> ExecResult:
        """Run a command in a container of a pod, and return its output and exit code.

            result = await ctx.exec(pod, ["redis-cli", "ping"], container="redis", timeout=5)

        `pod` is an object, or the name of a pod in the object's namespace. `PodStreams.exec` explains options
        and exceptions. The call counts as a write: Fenced ends it when the lease is lost.
        """
        return await self.client.pod_streams.exec(self._pod(pod), command, **options)

    def attach(
        self, pod: Resource | str, *, container: str = "", stdin: bool = False
    ) -> AbstractAsyncContextManager[ContainerStreams]:
        """Attach to the process of a container; see `PodStreams.attach`."""
        return self.client.pod_streams.attach(self._pod(pod), container=container, stdin=stdin)

    def port_forward(self, pod: Resource | str, port: int) -> AbstractAsyncContextManager[PortConnection]:
        """Connect to a TCP port of a pod through the API server; see `PodStreams.port_forward`."""
        return self.client.pod_streams.port_forward(self._pod(pod), port)

    def logs(self, pod: Resource | str, **options: Unpack[LogOptions]) -> AsyncGenerator[str, None]:
        """Read the lines of a container's log: `async for line in ctx.logs(pod, follow=True)`.

        `PodStreams.logs` explains options and exceptions.
        """
        return self.client.pod_streams.logs(self._pod(pod), **options)

    def kubernetes_client(self) -> TransportApiClient:
        """Return an `ApiClient` of kubernetes-asyncio: `CoreV1Api(ctx.kubernetes_client())`.

        See `Client.kubernetes_client`.
        """
        return self.client.kubernetes_client()

    # The object itself

    async def confirm(self, *, unchanged: bool = False, latest: bool = False) -> None:
        """Check that the API server still has the object, and that it is not being deleted.

        Call it before an effect that cannot be undone, such as creating something without an owner, or a
        change outside of the cluster: the cache may be out of date. After a check that has found the same
        spec (with `latest`: the same object), further calls in this reconcile do nothing.

        Raises Gone if the check fails. Raises Changed if the spec has changed (with `unchanged`) or any field
        has (with `latest`). Do not catch these: the runtime continues with the server's object.
        """
        if self._is_latest if latest else self._confirmed:
            return
        obj = self.object
        try:
            live = await self.client.uncached.get(type(obj), obj.key)
        except NotFound as error:
            if not is_missing(error, type(obj), obj.key):
                raise
            raise Gone from None
        if live.metadata.uid != obj.metadata.uid or live.metadata.deletion_timestamp is not None:
            raise Gone
        is_latest = live.metadata.resource_version == obj.metadata.resource_version
        has_same_spec = live.metadata.generation == obj.metadata.generation
        if (latest and not is_latest) or (unchanged and not has_same_spec):
            raise Changed(live)
        self._confirmed, self._is_latest = has_same_spec, is_latest

    async def ensure_finalizer(self, *, annotations: Mapping[str, str] | None = None) -> None:
        """Add the finalizer for `cleanup`, and set `annotations` in the same write.

        The write removes former finalizers. If the finalizers are already right, it sends no request and sets
        no annotation. A write also checks the object, as `confirm` does.
        """
        metadata, ours = self.object.metadata, self._operator.finalizers
        if not ours:
            name = type(self._operator).__name__
            raise Undeclared(
                f"{name} has no cleanup, so it has no finalizer that ctx.ensure_finalizer can add"
            )
        wanted = [self._operator.finalizer] if self._operator.finalizer else []
        if ours.intersection(metadata.finalizers) == set(wanted):
            return
        metadata.finalizers = [*(each for each in metadata.finalizers if each not in ours), *wanted]
        metadata.annotations.update(annotations or {})
        await self.patch()  # a patch that changes finalizers needs the resource version that was read
        self._confirmed = self._is_latest = True

    async def patch(self) -> None:
        """Send the changed metadata and spec of the object; then both have the server's values.

        `metadata`, `spec` and `status` stay the same Python objects. Status changes stay, and the end of the
        reconcile writes them. Raises Conflict if this reconcile has changed finalizers or owners, and another
        client has changed the object since the read. Raises Blocked after 300 patches in a minute that have
        changed metadata.
        """
        self._operator.check_may_patch()
        writes, version = self._operator.child_writes, self.object.metadata.resource_version
        deleting = self.object.metadata.deletion_timestamp is not None
        itself = (type(self.object), self.key)
        if not deleting and (pause := writes.loop_pause(self.object, itself)) > 0:
            why = f"reconciles have patched the object itself {MOST_LOOPS} times in a minute"
            text = f"{why}, without another change; each further patch waits up to a minute"
            raise Blocked("PatchedWithoutEnd", text, retry_after=pause)
        sent = {name: value for name, value in self.object.to_wire().items() if name != "status"}
        self.object.take(await self.client.patch(self.object), sent=sent)
        if self.object.metadata.resource_version != version:
            writes.wrote(self.object, itself, Outcome.UPDATED, current_record(), str, most=MOST_LOOPS)

    async def write_status(self) -> None:
        """Write a changed status now, because the next effect requires a stored status.

        `obj.status` and all its contents stay the same Python objects, with the server's values. The next
        call, or the end of the reconcile, writes later changes. Changed metadata and spec stay unsent;
        `patch` sends them.
        """
        self._refuse_foreign_status()
        sent = self.object.to_wire(only={"status"})
        self.object.take(await self.client.status.patch(self.object), sent=sent)

    def permit(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager for effects outside of the cluster; a lost leadership cancels its body.

        See `Leadership.held`.
        """
        return self._operator.manager.leadership.held()

    # Methods for the runtime

    async def finish(self) -> None:
        """Write a changed status, and run the calls that waited for the write.

        Raises Gone if the write shows that the object is gone, and the object had a finalizer of the
        operator.
        """
        operator, obj = self._operator, self.object
        if operator.condition_list is not None:
            self._settle_conditions(operator.condition_list)
        if operator.rollouts.limited and not self._waits_to_roll_out:
            operator.rollouts.end_if_complete(self.key, None if self.handles_error else self._applied)
        if operator.has_status:
            if operator.has_observed_generation:
                status_of(obj).observed_generation = obj.metadata.generation
            try:
                if await self.client.status.report(obj, cached=self._cached) and self._counts_status():
                    operator.enqueue(self.key)
            except (Conflict, Invalid):
                if operator.finalizers and obj.metadata.deletion_timestamp is None:
                    self._confirmed = False
                    await self.confirm()  # another object may have the name now
                raise
        else:
            self._refuse_foreign_status()
        self.written()

    async def write_conditions(self) -> None:
        """Write conditions after a failure; `observedGeneration` keeps its value of the last success."""
        if self.has_set_conditions:
            await self.client.status.report(self.object, cached=lambda: None)
        self.written()

    def enqueue_if_changed(self) -> None:
        """Enqueue the object if another client has written it since this reconcile read it."""
        if self._operator.has_status and self._cached() is not None and self._counts_status():
            self._operator.enqueue(self.key)

    def _refuse_foreign_status(self) -> None:
        """Raise Undeclared if the reconcile has changed a status that the operator must not write."""
        operator, obj = self._operator, self.object
        if (
            not operator.has_status
            and "status" in type(obj).model_fields
            and self.client.status.is_changed(obj)
        ):
            hint = operator.hint_of_status()
            raise Undeclared(
                f"{type(operator).__name__} has changed the status of {obj.kind} {obj.key}{hint}"
            )

    def refuse_unwritten_metadata(self) -> None:
        """Raise Undeclared if the reconcile has changed the object's metadata and has not written them."""
        obj, now = self.object, _writable(self.object.metadata)
        if now == self._metadata or obj.origin is None:
            return
        stored = [_writable(meta_in(obj.origin))]
        record = self._operator.informer.get(obj.key)
        if record is not None and record.uid == obj.metadata.uid:
            # The client's own `patch` and `update` do not change `obj`.
            stored.append(_writable(record.meta()))
        parts = ("labels", "annotations", "finalizers", "ownerReferences")
        unwritten = [
            part for part, value, *known in zip(parts, now, *stored, strict=True) if value not in known
        ]
        if unwritten:
            raise Undeclared(
                f"{type(self._operator).__name__} has changed metadata.{', metadata.'.join(unwritten)} of "
                f"{obj.kind} {obj.key}, and nothing has written it: call `await ctx.patch()` after the change"
            )

    def blocked(self, set_before: AbstractSet[str]) -> None:
        """Remember the conditions that were set besides `set_before`: they report the blocked object."""
        self._operator.obstacles[self.key] = {
            name: (each.reason, each.message)
            for name, each in self.conditions.items()
            if name in self.set_types - set_before
        }
        self._blocked_now = True

    @property
    def set_types(self) -> frozenset[ConditionType]:
        """Return the types of the conditions that this reconcile has set."""
        return frozenset(self._set)

    def _settle_conditions(self, conditions: ConditionList) -> None:
        """Revert the conditions of an earlier failure or blocked state; set the condition ChildrenStable.

        Conditions that this reconcile has set stay. Conditions from an earlier process are recognised by
        their message or reason, or if all of them have the same reason and message.
        """
        operator, key, obstacles = self._operator, self.key, self._operator.obstacles
        if key in obstacles and not self._blocked_now:
            self.once_written(partial(obstacles.pop, key, None))
        held = conditions.read(self.object)
        left = [each for each in held if each.type not in self._set]
        if left:
            known = {} if self._blocked_now else obstacles.get(key)
            if known is None:
                known = self._obstacles_of_earlier_process(held)
            for each in [*left]:
                if known.get(each.type) != (each.reason, each.message) and not is_of_failure(each):
                    continue
                left.remove(each)
                if each.type == DEGRADED and conditions.takes(DEGRADED):
                    self.condition(DEGRADED, False, "AsExpected")
                else:
                    conditions.remove(self.object, each.type)
        if not operator.tells_of_children:
            return
        if troubles := operator.child_writes.unstable_children(self.object, self._applied):
            reason, _ = troubles[0]
            self.condition(CONDITION, False, reason, "; ".join(message for _, message in troubles))
        # Objects whose children were always stable do not get the condition.
        elif left and any(each.type == CONDITION and each.status != "True" for each in left):
            self.condition(CONDITION, True, "AsWanted", "its children stay as they are wanted")

    def _obstacles_of_earlier_process(self, held: Iterable[Condition]) -> dict[str, tuple[str, str]]:
        ours = {each.type: each for each in held if each.type in self._operator.conditions}
        said = {each: (one.reason, one.message) for each, one in ours.items()}
        alike = len(ours) == len(self._operator.conditions) > 1 == len({*said.values()})
        if alike and any(each.type == DEGRADED and each.status == "True" for each in ours.values()):
            return said
        return {each: told for each, told in said.items() if told[0] in (NAME_TAKEN, LEFT_OVER)}

    def _pod(self, pod: Resource | str) -> Resource | ObjectKey:
        return ObjectKey(self.object.metadata.namespace, pod) if isinstance(pod, str) else pod

    def _cached(self) -> bytes | None:
        """Return the cached object if it is newer than the context's object; otherwise None."""
        record, metadata = self._operator.informer.get(self.key), self.object.metadata
        if record is None or record.uid != metadata.uid:
            return None
        return record.raw if record.version > int(metadata.resource_version or 0) else None

    def _counts_status(self) -> bool:
        """Return whether another client has written a relevant status since `object` was read."""
        record, origin = self._operator.informer.get(self.key), self.object.origin
        if record is None or origin is None:
            return True
        version = int(self.object.metadata.resource_version or 0)
        return self._operator.counts_now(record, structs.replace(record, raw=origin, version=version))

    def written(self) -> None:
        """Call the functions that were passed to `once_written`."""
        for call in self._later:
            call()
        self._later.clear()

    async def prune(self, kind: type[Resource], reader: CachedReader | MetadataReader) -> None:
        """Delete the children of a kind that the reader finds and this reconcile has not applied."""
        for child in await reader.list(kind, namespace=self.object.metadata.namespace, owner=self.object):
            if (kind, child.key) in self._applied or child.metadata.deletion_timestamp is not None:
                continue
            if await self.client.delete_if_there(child, kind=kind):
                self.event("Deleted", f"Deleted {kind.gvk.kind} {child.metadata.name}")

    def _record(self, type: EventType, reason: str, message: str) -> None:  # noqa: A002 - the field's name
        self._operator.manager.events.event(self.object, type, reason, message)

    def _may_roll_out(self, child: Child) -> bool:
        """Return whether a workload may be updated now. An update for a changed spec never waits."""
        may_begin = not self.is_observed() or self._operator.rollouts.may_begin(self.key, child)
        self._waits_to_roll_out |= not may_begin
        return may_begin

    async def _blocked(self, error: OwnedByOther, kind: type[Resource]) -> Blocked:
        """Return the `Blocked` error for a taken child name; a reconcile follows when it may be free."""
        owner, controller = self.object, error.controller
        self._operator.waits_for(kind, error.key, owner.key)
        blocked = Blocked.name_taken(str(error))
        if controller is not None and owner.gvk.is_named_by(controller):
            if controller.name == owner.metadata.name:
                blocked = Blocked.by_earlier_child(f"{error.kind} {error.key.name}", owner, error.finalizers)
            else:
                # The child's deletion event may precede its owner's, so ask the API server about the owner.
                at = ObjectKey(owner.metadata.namespace, controller.name)
                holder = await self.client.uncached.find(type(owner), at)
                if (
                    holder is None
                    or holder.metadata.uid != controller.uid
                    or holder.metadata.deletion_timestamp is not None
                ):
                    why = f"{error}, which is gone or being deleted: {_awaited_end(error.finalizers)}"
                    blocked = Blocked(LEFT_OVER, why, passing=True)
        if not self._operator.manager.cache.has(kind, error.key):
            blocked.retry_after = _UNSEEN_PASSING_RETRY if blocked.passing else _UNSEEN_RETRY
        return blocked

    def _announce(
        self,
        applied: Applied[R],
        before: R,
        wanted: R,
        changed: Callable[[R, R], tuple[str, str] | None] | None,
    ) -> None:
        """Record and log a change of a child, or a warning if it changes too often."""
        child = applied.object
        name = f"{child.gvk.kind} {child.metadata.name}"
        fields = changed_fields(before, child, wanted)
        if not fields and self._was_labelled(before.metadata, child.metadata):
            return
        details: dict[str, object] = {"fields": fields}
        if applied.conflicts:
            details["set_by"] = sorted({each.manager for each in applied.conflicts})
        writes, which = self._operator.child_writes, (type(wanted), wanted.key)
        why = partial(_unstable, name, applied, fields)
        trouble = writes.wrote(self.object, which, applied.outcome, current_record(), why)
        if trouble is not None:
            reason, message = trouble
            self._record("Warning", reason, message)
            self.log.warning("child is changed too often", child=name, reason=reason, why=message, **details)
            return
        if applied.outcome is Outcome.RESTORED:
            said = f"Put {name} back as it should be: {_who(applied.conflicts, fields)}"
            reason, message = "Restored", shortened(said)
        else:
            reason, message = (changed and changed(before, child)) or ("Updated", f"Updated {name}")
        self._record("Normal", reason, message)
        self.log.info("changed a child", child=name, reason=reason, message=message, **details)

    def _was_labelled(self, before: ObjectMeta, after: ObjectMeta) -> bool:
        """Return whether a write has changed the shard label of a child, but not the owner references."""
        label = self.client.child_label
        return (
            label is not None
            and before.labels.get(label.key) != after.labels.get(label.key)
            and before.owner_references == after.owner_references
        )


def _writable(metadata: ObjectMeta | Meta) -> tuple[object, ...]:
    owners = metadata.owner_references or ()
    return (
        metadata.labels.copy(),
        metadata.annotations.copy(),
        [*metadata.finalizers],
        [(each.uid, bool(each.controller), bool(each.block_owner_deletion)) for each in owners],
    )


def _unstable(name: str, applied: Applied[Any], fields: Sequence[str]) -> str:
    if applied.outcome is Outcome.UPDATED:
        said = f"reconciles keep changing {name} at {', '.join(fields)}; it is updated less often now"
    else:
        said = f"{name} keeps changing: {_who(applied.conflicts, fields)}; it is restored less often now"
    return shortened(said)


def _who(conflicts: Sequence[FieldConflict], fields: Sequence[str]) -> str:
    if not conflicts:
        return f"another client had changed {', '.join(fields)}"
    by: dict[str, list[str]] = {}
    for each in conflicts:
        by.setdefault(each.manager or "another client", []).append(each.field)
    parts = (f"{manager} had set {', '.join(named)}" for manager, named in sorted(by.items()))
    return "; ".join(parts)
