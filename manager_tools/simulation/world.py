"""A simulation run: a cluster, its managers, users and faults, all drawn from one seed."""

from __future__ import annotations

import asyncio
import base64
import copy
import functools
import hashlib
import math
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import orjson
from prometheus_client import generate_latest

from devcluster.admission import WebhookClient, WebhookFailed
from devcluster.errors import StatusError
from devcluster.storage import Change, Key
from manager.certificates.targets import bundle_of, hosts_of
from manager.controller.queue import WorkQueue
from manager.operator import AnyOperator, rights_of
from manager.telemetry.logs import captured
from manager.webhook.configurations import SERVICE, by_service, by_url, webhook_configurations
from manager.webhook.methods import registrations
from manager.webhook.registration import Conversion, Webhooks
from manager_shards.cache_filter import ShardFilter
from manager_shards.coordinator import lease_of_shard
from manager_shards.shard_set import ShardSet
from manager_tools.codegen import custom_resource_definitions, roles
from manager_tools.simulation.certificates import (
    CHECKED_EVERY,
    TRUSTED_WITHIN,
    WebhookCertificates,
    tells_a_key,
)
from manager_tools.simulation.comparing import (
    Asked,
    State,
    asked_for,
    chance_in,
    changed_fields,
    controller_of,
    resource_of,
    resource_of_manifest,
    state_of,
)
from manager_tools.simulation.control_plane import ControlPlane
from manager_tools.simulation.loop import VirtualLoop
from manager_tools.simulation.plan import (
    LEASE_NAMESPACE,
    NAMESPACES,
    NO_EXCUSE,
    PLANTED,
    PROGRAM,
    Fault,
    Step,
)
from manager_tools.simulation.replica import Replica
from manager_tools.simulation.scene import Scene, Sent, current_process, sender
from manager_tools.simulation.services import Handler, Services
from manager_tools.simulation.workload import People, marks_of_others

Object = dict[str, Any]

_WEBHOOKS = "https://webhooks.simulated"
_ENCODED = base64.b64encode(PLANTED.encode() + b"..")[:9]
_SECRETS = PLANTED.encode(), _ENCODED, base64.b64encode(_ENCODED)
"""The beginnings of all secrets: as plain text, in a Secret, and of generated passwords in a Secret."""
_QUIET_KINDS = {("coordination.k8s.io", "leases"), ("", "events"), ("events.k8s.io", "events")}
"""Kinds whose writes do not count as changes."""

# Durations in virtual seconds
_DEFINED_AFTER = 1.0
_LOOK_EVERY = 20.0
_CALM_AFTER = 660.0
"""Seconds without a change and without work after which the world is calm: a Deployment's deadline is 600."""
_CALM_WITHIN = 1_800.0
_READY_WITHIN = 60.0
"""Seconds after its start within which a manager has filled its caches."""
STAYS_CALM = 1_800.0
_CLOCK_WATCHED = 1_800.0
"""Seconds after the last fault and change until time-dependent objects have their usual state."""
_IDLE, _IDLE_WITHIN = 20.0, 180.0
"""Seconds without changes before a state is read, and the maximum wait for such a moment."""
_LOOKS = 3
"""The number of times that a time-dependent state is read."""
_BETWEEN_LOOKS = 67.0
_MOST_SHOWN = 5
_AFTER_A_CRASH = 120.0
_LOOKS_WITHIN = 1.0
_STOPS_WITHIN = 60.0
"""Seconds within which a process must stop; its own limits are shorter."""


class Outside:
    """A simulated external system of an operator; each run has its own."""

    services: Mapping[str, Handler] = {}
    """The aiohttp handlers of the external system, by URL: `http://HOST:PORT`."""
    ignored: frozenset[str] = frozenset()
    """Fields of objects that may differ from those in a fresh cluster."""
    kept: frozenset[str] = frozenset()
    """Resources in which an operator's objects may outlive their owner."""
    given: frozenset[str] = frozenset()
    """Resources with objects that users create, and that a fresh cluster needs."""

    def __init__(self, world: World) -> None:
        self.world = world

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the external system within the `async with` block."""
        yield

    def operator(self, operator: AnyOperator, replica: Replica) -> AnyOperator:  # noqa: ARG002
        """Return the operator, adapted so that it calls this system from that replica."""
        return operator

    def seen(self, change: Change, sent: Sent | None) -> None:
        """Observe a write while it happens; `sent` is a manager's request, None for other clients."""

    async def check(self) -> list[str]:
        """Return the violations in the external system after all writes have ended."""
        return []

    async def state(self) -> Any:
        """Return the external state for the comparison with a fresh cluster."""
        return None

    def inherited(self) -> Iterable[tuple[str, Object]]:
        """Return pairs of resource and object that a fresh cluster gets before all other objects."""
        return ()


class _Webhooks(WebhookClient):
    """A client that calls the webhooks of any running replica."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    async def call(self, client_config: Object, review: Object, timeout: float) -> Object:
        if (service := client_config.get("service")) is not None:
            path, [host, *_] = service["path"], hosts_of(client_config)
        else:
            path, host = client_config["url"].removeprefix(_WEBHOOKS), ""
        kept = self._world.certificates
        there = [
            each
            for each in self._world.running
            if each.alive and each.clock.paused is None and (kept is None or each.presented is not None)
        ]
        if not there:
            raise WebhookFailed(f"Post {path}: connection refused")
        replica = self._world.rng.choice(there)
        why: str | None = None
        if replica.weather.untrusted:
            why = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        elif kept is not None:
            why = kept.why_untrusted(replica.presented, bundle_of(client_config), host)
        if why is not None:
            self._world.note(replica.name, f"Post {path}: {why}")
            raise WebhookFailed(f"Post {path}: {why}")
        endpoint = replica.endpoints[path]
        task: asyncio.Task[bytes | bytearray] = asyncio.get_running_loop().create_task(
            endpoint.answer(orjson.dumps(review), waits=timeout), context=replica.context.copy()
        )
        done, _ = await asyncio.wait((task,), timeout=timeout)
        if not done:
            task.cancel()
            raise WebhookFailed(f"Post {path}: context deadline exceeded")
        try:
            answer: Object = orjson.loads(task.result())
        except Exception as error:
            raise WebhookFailed(f"Post {path}: {error}") from error
        said = answer.get("response") or {}
        self._world.check_told(
            f"a webhook of {replica.name}", orjson.dumps([said.get("status"), said.get("warnings")])
        )
        return answer


class Given(TypedDict, total=False):
    """Optional settings of a run; see `assert_holds`."""

    samples: Mapping[str, Sequence[Object]]
    """Valid specs, by kind and group."""
    services: Mapping[str, Handler]
    may_differ: Iterable[str]
    heartbeats: Iterable[str]


@dataclass(kw_only=True)
class World(Scene):
    """The simulation run of one plan."""

    befall: Callable[[World, Fault], Awaitable[None]]
    """A function that starts a fault, and ends it after its duration."""
    outside: Mapping[AnyOperator, type[Outside]] = field(default_factory=dict)
    given: Given = field(default_factory=Given)
    objects: Sequence[Asked] = ()
    """The objects to create, with their times."""
    stays_calm: float = STAYS_CALM
    """Seconds after the last change during which no write is allowed."""
    refused: list[str] = field(default_factory=list)
    """Reports of calls that a guard or the network refused; see `guarded`."""
    moments: Sequence[float] = ()
    """The times at which to read the state; without any, it is read when all is calm."""
    drawn_before: frozenset[str] = frozenset()
    """UIDs and tokens of an earlier run, from which `objects` come."""

    last_change: float = field(init=False, default=0.0)
    last_write: float = field(init=False, default=0.0)
    """The time of the last write of a manager that was not caused by time alone."""
    last_written: Change | None = field(init=False, default=None)
    """The change that this last write made."""
    last_unrest: float = field(init=False, default=0.0)
    """The time of the last change that was not caused by time alone."""
    ended_at: float = field(init=False, default=0.0)
    manifests: list[Object] = field(init=False)
    """The managers' account with its roles and bindings."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rng = random.Random(f"{self.seed}/world")
        self.heartbeats = frozenset(self.given.get("heartbeats", ()))
        """Fields of objects that operators change continually on purpose."""
        self.running: list[Replica] = []
        self.buried: list[Replica] = []
        self.away: set[int] = set()
        """The numbers of replicas that are temporarily removed and not replaced."""
        self.made: set[Key] = set()
        """The objects that managers have created."""
        self.born: dict[str, float] = {}
        """The creation time of each object, by UID."""
        self.outsides: dict[AnyOperator, Outside] = {}
        self.tokens = 0
        """The number of managers' tokens before the current one."""
        self.no_holder_until = 0.0
        """Until this time, a leader may not know that a restored Lease names another holder."""
        self.forgotten: set[str] = set()
        """The UIDs of objects that a restored backup lacks."""
        self.certificates: WebhookCertificates | None = None
        self._wrong = 0
        self._checking: asyncio.Task[None] | None = None
        webhooks = Webhooks([each for operator in self.operators for each in registrations(operator)])
        if self.plan.keeps_certificates and webhooks:
            self.certificates = WebhookCertificates(self, webhooks, PROGRAM, LEASE_NAMESPACE)
        self.manifests = self._installed()
        self._own = {resource_of(each.kind): each for each in self.operators}
        self._resources = {each.kind.gvk.kind: resource_of(each.kind) for each in self.operators}
        self.states: list[tuple[float, State]] = []
        """The final states of the cluster, at one or several moments."""
        self.asked: list[Asked] = []
        self._digest = hashlib.sha256()
        self._generations = [0] * self.plan.replicas
        self.people: People

    def _installed(self) -> list[Object]:
        rules = [rule for operator in self.operators for rule in rights_of(operator)]
        found = roles.of_manager(PROGRAM.name, rules)
        if self.certificates is not None:
            found |= roles.of_webhooks(self.certificates.converted, prefix=PROGRAM.prefix)
        if self.plan.shards:
            found |= roles.of_shards()
        return roles.installed(found, namespace=LEASE_NAMESPACE)

    # Observations

    @property
    def digest(self) -> str:
        """Return the hash of all changes of the store in order: equal seeds give equal hashes."""
        return self._digest.hexdigest()

    def _seen(self, change: Change) -> None:
        kept = change.new or change.final
        assert kept is not None
        self._digest.update(kept.data if change.new is not None else b"-" + kept.data)
        self.versions.append((self.now, change.version))
        sent = sender.get()
        if sent is not None and change.new is not None and change.key.plural != "secrets":
            self._check_written(sent, change)
        if (change.key.group, change.key.plural) in _QUIET_KINDS:
            return
        if self.certificates is not None and self.certificates.seen(change, sent):
            if sent is not None:
                self.check_holder(sent, change)
            return
        self._note_time(change, sent)
        if change.old is None:
            self.born[kept.uid] = self.now
        for outside in self.outsides.values():
            outside.seen(change, sent)
        if sent is None:
            return
        if change.old is None:
            self.made.add(change.key)
        elif b'"taken":"' in change.old.data:
            self.violated(f"{sent} changed an object of another owner")
        else:
            self._check_left_alone(sent, change)
        self.check_holder(sent, change)

    def _note_time(self, change: Change, sent: Sent | None) -> None:
        if sent is not None and self.heartbeats and self._is_heartbeat(change):
            return
        self.last_change = self.now
        if sent is not None and sent.by_clock:
            self.clock_use.wrote(self.now, change)
        if not self.clock_use.explains(self.now):
            self.last_unrest = self.now
            if sent is not None:
                self.last_write, self.last_written = self.now, change

    def _is_heartbeat(self, change: Change) -> bool:
        return (
            change.old is not None
            and change.new is not None
            and all(
                self.heartbeats.intersection(re.split(r"\[\d+\]|\.", path)) for path in changed_fields(change)
            )
        )

    def _restless(self) -> str:
        change = self.last_written
        if change is None or self.now - self.last_write > _CALM_AFTER:
            return "something"
        group, plural, *place = change.key
        what = f"{plural}.{group} {'/'.join(place)}".replace(". ", " ")
        if change.old is None or change.new is None:
            return f"{what} (created and deleted)"
        return f"{', '.join(changed_fields(change)[:_MOST_SHOWN]) or 'nothing'} of {what}"

    def _started(self) -> None:
        self.versions.clear()
        if self.certificates is not None:
            self.certificates.started()

    def _check_written(self, sent: Sent, change: Change) -> None:
        assert change.new is not None
        data = change.new.data
        if _has_secret(data) and f"{change.key.plural}.{change.key.group}" in self._own:
            # This text is written by users.
            data = orjson.dumps({**orjson.loads(data), "spec": None})
        self.check_told(str(sent), data)

    def _check_left_alone(self, sent: Sent, change: Change) -> None:
        """Record a violation if a manager removed a label, annotation or finalizer of a user."""
        assert change.old is not None
        had = marks_of_others(change.old.data)
        if change.new is None:
            lost = {each for each in had if each.startswith("finalizer")}
        else:
            lost = had - marks_of_others(change.new.data)
        if lost:
            self.violated(f"{sent} took away {', '.join(sorted(lost))}, which another client had added")

    def check_told(self, who: str, what: bytes) -> None:
        """Record a violation if the text `what` contains a secret; `who` describes the text's origin."""
        if _has_secret(what) or (self.certificates is not None and tells_a_key(what)):
            self.violated(f"{who} contains a secret")

    def check_holder(self, sent: Sent, change: Change | None = None) -> None:
        """Record a violation if a process other than the request's sender holds the Lease.

        With shards, this is the Lease of the shard of the changed object.
        """
        if self.certificates is not None and self.certificates.may_be_written_by_two(sent.path):
            return
        if self.plan.shards:
            number = self._range_of(change) if change is not None else 0 if sent.method == "CALL" else None
            if number is not None and (holder := self.holder(number)) not in {sent.process, ""}:
                self.violated(f"{sent} came while {holder} had shard {number}")
        elif self.plan.replicas > 1 and (holder := self.holder()) not in {sent.process, ""}:
            self.violated(f"{sent} came while {holder} had the lease")

    def _range_of(self, change: Change) -> int | None:
        """Return the shard of a changed object or, for a child, of its owner; None if it is unknown."""
        kept = change.new or change.final
        assert kept is not None
        resource, uid = f"{change.key.plural}.{change.key.group}".rstrip("."), kept.uid
        if resource not in self._own:
            if (owner := controller_of(orjson.loads(kept.data))) is None:
                return None
            resource, uid = self._resources.get(owner["kind"], ""), owner["uid"]
        operator = self._own.get(resource)
        if operator is None:
            return None
        return ShardSet.of(self.plan.shards, ()).number_of(uid) if operator.shared_out else 0

    def holder(self, number: int = 0) -> str:
        """Return the holder of the leader's Lease or, with shards, of the Lease of shard `number`."""
        if self.now < self.no_holder_until:
            return ""
        first = self._lease(0)
        if first["metadata"].get("annotations", {}).get(f"{PROGRAM.name}/shards") == "1":
            number = 0  # a leader owns all shards
        return self._lease(number)["spec"].get("holderIdentity") or ""

    def _lease(self, number: int) -> Object:
        name = lease_of_shard(PROGRAM.name, number)
        found = self.cluster.client.peek("leases.coordination.k8s.io", LEASE_NAMESPACE, name) or {}
        return {"metadata": found.get("metadata") or {}, "spec": found.get("spec") or {}}

    # Actions

    async def run(self) -> None:
        """Run the whole simulation, and collect violations in `violations`."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        main = asyncio.current_task()
        assert main is not None
        self._main = main
        loop.on_wall_clock = self.clock_use.was_asked
        handlers = {
            **self.given.get("services", {}),
            **{url: to for each in self.outside.values() for url, to in each.services.items()},
        }
        loop.services = Services(handlers, self.refused)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(loop.services.aclose)
            stack.enter_context(captured(_log_observer(self)))
            self.plane = ControlPlane(
                self.seed,
                webhooks=_Webhooks(self),
                account=roles.account_of(self.manifests),
                token=self.token,
                seen=self._seen,
                started=self._started,
            )
            stack.push_async_callback(self.plane.stop)
            await self.plane.start()
            await self._prepare()
            for operator, outside in self.outside.items():
                self.outsides[operator] = outside(self)
                await stack.enter_async_context(self.outsides[operator].running())
            for number in range(self.plan.replicas):
                self._start(number)
            try:
                await asyncio.sleep(_DEFINED_AFTER)
                for asked in self.objects:
                    await asyncio.sleep(max(0.0, asked.at - self.now))
                    await self._put(asked.resource, asked.object)
                await self._live()
                if await self._is_calm():
                    await self._check()
            except asyncio.CancelledError:
                if not self._hopeless:
                    raise
                main.uncancel()
            await self._end()

    async def _prepare(self) -> None:
        client = self.cluster.client
        # This reads the models' sources, for the fields' docstrings.
        in_pods = self.certificates is not None
        for resource, obj in await asyncio.to_thread(_declared, tuple(self.operators), in_pods):
            await client.create(resource, "", copy.deepcopy(obj))
        self.people = People(self.plane, self.operators, self.given.get("samples", {}))
        for manifest in self.manifests:
            await client.create(
                resource_of_manifest(manifest), manifest["metadata"].get("namespace", ""), manifest
            )
        for namespace in NAMESPACES[1:]:
            await client.create("namespaces", "", {"metadata": {"name": namespace}})

    async def _put(self, resource: str, obj: Object) -> None:
        namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        try:
            await self.cluster.client.create(resource, namespace, obj)
        except StatusError as error:
            self.note("person", f"cannot put {resource} {namespace}/{name}: {error}")

    def _start(self, number: int) -> None:
        replica = Replica(
            self,
            number,
            self._generations[number],
            certificates=self.certificates,
            operator_in=self._operator_in,
        )
        self._generations[number] += 1
        self.running.append(replica)
        self.note(replica.name, "starts")
        replica.start()

    def _operator_in(self, operator: AnyOperator, replica: Replica) -> AnyOperator:
        outside = self.outsides.get(operator)
        return operator if outside is None else outside.operator(operator, replica)

    def meddle(self) -> None:
        """Let users change any object and child immediately after a manager's write."""
        step = replace(self.rng.choice(self.plan.steps), at=self.now)

        async def act() -> None:
            for each in ("change", "spoil child"):
                await self._take(replace(step, act=each))

        loop = asyncio.get_running_loop()
        self._meddling = loop.create_task(act(), context=self.context.copy())

    def _replace(self) -> None:
        for replica in [each for each in self.running if not each.alive]:
            self.running.remove(replica)
            self.buried.append(replica)
            if replica.number not in self.away:
                self._start(replica.number)

    def come_back(self, number: int) -> None:
        """Start a replica that was removed."""
        self.away.discard(number)
        if number not in {each.number for each in self.running}:
            self._start(number)

    async def _live(self) -> None:

        async def keep_running() -> None:
            while True:
                await asyncio.sleep(1.0)
                self._replace()

        async def go_wrong(fault: Fault) -> None:
            self.note("FAULT", str(fault))
            if fault.what in NO_EXCUSE:
                await self.befall(self, fault)
                return
            self._wrong += 1
            self.trouble_until = math.inf
            try:
                await self.befall(self, fault)
            finally:
                self._wrong -= 1
                self.trouble_until = math.inf if self._wrong else self.now

        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(keep_running(), name="keep-running")
            if self.certificates is not None:
                await self._wait_trusted(self.certificates)
                watching = self._watch_certificates(self.certificates)
                self._checking = asyncio.create_task(watching, name="certificates")
            acts = [group.create_task(self._at(step.at, self._take, step)) for step in self.plan.steps]
            acts += [group.create_task(self._at(fault.at, go_wrong, fault)) for fault in self.plan.faults]
            if acts:
                await asyncio.wait(acts)
            await self.plane.there()
            self.ended_at = self.now
            if self.plan.crash_at is not None:
                await asyncio.sleep(_AFTER_A_CRASH)
            await self.people.give_back()
            keeping.cancel()
        self.clocks_are_right = True
        for replica in self.running:
            replica.clock.be_right()

    async def _wait_trusted(self, kept: WebhookCertificates) -> None:
        while any(each.presented is None or any(kept.problems(each.presented)) for each in self.running):
            if self.now > TRUSTED_WITHIN:
                self.violated("the API servers never trusted the webhooks")
                return
            await asyncio.sleep(1.0)
        for each in self.running:
            each.began = -TRUSTED_WITHIN
        self.trouble_until = -TRUSTED_WITHIN

    async def _watch_certificates(self, kept: WebhookCertificates) -> None:
        while True:
            await asyncio.sleep(CHECKED_EVERY)
            if self.now < self.trouble_until + TRUSTED_WITHIN:
                continue
            due = (each for each in self.running if each.alive and self.now >= each.began + TRUSTED_WITHIN)
            found = ((each, problem) for each in due for problem in kept.problems(each.presented))
            for replica, problem in found:
                self.violated(f"{replica.name} would get no review {problem}")
                break

    async def _take(self, step: Step) -> None:
        self.note("person", await self.people.act(step))

    async def _at(self, when: float, act: Callable[[Any], Awaitable[None]], what: Any) -> None:
        await asyncio.sleep(max(0.0, when - self.now))
        await act(what)

    # Final checks

    async def _is_calm(self) -> bool:
        """Wait until writes end, and record later writes as a violation; return whether writes ended."""
        if self.moments:  # another run was calm after the same time
            await asyncio.sleep(max(0.0, self.moments[0] - self.now))
            return True
        deadline = self.now + _CALM_WITHIN
        watched = max(self.now, self.trouble_until) + _CLOCK_WATCHED
        while (
            self.now - self.last_unrest <= _CALM_AFTER
            or (self.clock_use.has_written and self.now < watched)
            or any(self.now - each.began <= _READY_WITHIN for each in self.running)
            or self.leader is None
            or self._unowned()
        ):
            if self.now > deadline + (_CLOCK_WATCHED if self.clock_use.has_written else 0.0):
                why = f"{self._restless()} is written all the time; `heartbeats` lists intended changes"
                if self.leader is None or self._unowned():
                    why = (
                        f"shards {left} have no owner" if (left := self._unowned()) else "there is no leader"
                    )
                self.violated(f"the run never becomes calm: {why}")
                return False
            await asyncio.sleep(_LOOK_EVERY)
            self._replace()
        before, since = self.last_write, self.now
        until = max(since, self.last_unrest + self.stays_calm)
        if self.clock_use.is_read:
            dues = [due for each in self.running if each.alive for due in each.next_due()]
            until = max([until, *(due + _IDLE for due in dues if due < since + _CLOCK_WATCHED)])
        if self.certificates is not None and self.plan.crash_at is not None:
            await self._stay_calm_and_run(until)
        else:
            await asyncio.sleep(until - since)
        if self.certificates is not None:
            self.certificates.check_renewals(since)
        if self.last_write > before:
            again = f"written again at {self.last_write:.1f} s, when it was calm since {before:.1f} s"
            self.violated(f"{again}: {self._restless()}")
        return True

    async def _stay_calm_and_run(self, until: float) -> None:
        while self.now < max(until, self.trouble_until + _AFTER_A_CRASH):
            await asyncio.sleep(1.0)
            self._replace()

    @property
    def leader(self) -> Replica | None:
        """Return the leading replica, or None."""
        alive = [each for each in self.running if each.alive]
        alone = self.plan.replicas == 1 and not self.plan.shards
        return next((each for each in alive if alone or self.holder() == each.name), None)

    def _unowned(self) -> list[int]:
        """Return the shards that no running replica owns; their Leases may name replicas that have ended."""
        return [
            number for number in range(self.plan.shards) if not any(each.has(number) for each in self.running)
        ]

    def _check_shares(self) -> None:
        shares = [sum(map(each.has, range(self.plan.shards))) for each in self.running]
        if sum(shares) != self.plan.shards or max(shares) - min(shares) > 1:
            self.violated(f"shards are shared out unevenly in the end: {shares}")

    async def _check(self) -> None:
        leader = self.leader
        if leader is None:
            self.violated("there is no leader at the end")
            return
        if self.plan.shards:
            self._check_shares()
        for working in self.running if self.plan.shards else [leader]:
            for controller in working.manager.controllers:
                if not await self._is_idle(controller.queue):
                    self.violated(f"the queue of {controller.name} is not empty in the end")
        for replica in self.running:
            for problem in replica.manager.cache.problems():
                self.violated(f"{replica.name}: {problem}")
            self._check_caches(replica)
        outsides = self.outsides.values()
        for outside in outsides:
            for problem in await outside.check():
                self.violated(problem)
        async for moment in self._moments():
            self.states.append((moment, await self._state()))
        given = frozenset[str]().union(*(each.given for each in outsides))
        self.asked = [Asked(*each) for outside in outsides for each in outside.inherited()]
        self.asked += asked_for(
            self.cluster, self.operators, given, self.made, self.born, self.clock_use.resources
        )

    async def _moments(self) -> AsyncIterator[float]:
        """Yield each moment of comparison when it has come: one, or several if operators read the time."""
        for moment in self.moments:
            await asyncio.sleep(max(0.0, moment - self.now))
            yield self.now
        if self.moments:
            return
        for number in range(_LOOKS if self.clock_use.is_read else 1):
            await asyncio.sleep(_BETWEEN_LOOKS * number)
            if self.clock_use.is_read:
                await self._be_idle(self.now + _IDLE_WITHIN)
            yield self.now

    async def _be_idle(self, latest: float) -> None:
        # An event would not help: each change postpones the end.
        while (idle := min(latest, self.last_change + _IDLE)) > self.now:  # noqa: ASYNC110
            await asyncio.sleep(idle - self.now)

    @property
    def drawn(self) -> frozenset[str]:
        """Return the UIDs of all objects that ever existed, and all tokens of managers."""
        return self.drawn_before.union(self.born, self.tokens_made)

    async def _state(self) -> State:
        outsides = self.outsides.values()
        ignored = self.heartbeats.union(
            self.given.get("may_differ", ()), *(each.ignored for each in outsides)
        )
        kept = frozenset[str]().union(*(each.kept for each in outsides))
        chance = chance_in(self.cluster, ignored, self.drawn)
        outside = {f"outside {operator.name}": await each.state() for operator, each in self.outsides.items()}
        state = state_of(
            self.cluster,
            self.operators,
            chance,
            shared=bool(self.plan.shards),
            made=self.made,
            kept=kept,
            born=self.born,
        )
        return state._replace(objects={**outside, **state.objects})

    async def _is_idle(self, queue: WorkQueue[Any] | None) -> bool:
        for _ in range(100):
            if queue is not None and not queue.unfinished():
                return True
            await asyncio.sleep(_LOOKS_WITHIN / 100)
        return False

    def _check_caches(self, replica: Replica) -> None:
        """Record a violation if a cache differs from the store; with shards, only owned objects count."""
        shards = ShardSet.of(self.plan.shards or 1, filter(replica.has, range(self.plan.shards)))
        for informer in replica.manager.cache.informers:
            if informer.spec.label_selector or informer.spec.field_selector:
                continue
            stored = {
                (each.key.namespace, each.key.name): each.version
                for each in self.cluster.store.select(informer.spec.gvk.group, informer.spec.plural)
                if not isinstance(informer.filter, ShardFilter)
                or informer.filter.takes(informer._decoder.look(each.data).meta, shards)
            }
            cached = {tuple(each.key): each.version for each in informer._store}
            if stored != cached:
                differ = sorted(set(stored.items()) ^ set(cached.items()))[:6]
                self.violated(f"{replica.name} has other {informer.spec.resource} than the server: {differ}")
            watches = informer.filter.watches if isinstance(informer.filter, ShardFilter) else ()
            if any(each.asked != shards for each in watches):
                self.violated(f"{replica.name} asks for {informer.spec.resource} of others' shards")

    async def _end(self) -> None:
        for replica in self.running:
            replica.terminate()
            self.check_told(f"/metrics of {replica.name}", generate_latest(replica.metrics.registry))
        if tasks := [each.task for each in self.running if each.alive]:
            frozen = max(0.0, self.trouble_until - self.now)
            _, late = await asyncio.wait(tasks, timeout=frozen + _STOPS_WITHIN)
            for task in late:
                self.violated(f"{task.get_name()} does not end within {_STOPS_WITHIN:g} s")
        if self._checking is not None:
            self._checking.cancel()
            with suppress(asyncio.CancelledError):
                await self._checking  # raises an earlier error
        self._ending = True
        for each in (*self.buried, *self.running):
            await each.bury()


def _has_secret(data: bytes) -> bool:
    return any(each in data for each in _SECRETS)


@functools.cache
def _declared(operators: tuple[AnyOperator, ...], in_pods: bool) -> Sequence[tuple[str, Object]]:
    where = by_url(_WEBHOOKS)
    if in_pods:
        where = by_service(LEASE_NAMESPACE, f"{PROGRAM.prefix}{SERVICE}")
    kinds = dict.fromkeys(kind for each in operators for kind in each.kinds())
    found = [each for operator in operators for each in registrations(operator)]
    webhooks = Webhooks(found)
    conversions = [each for each in found if isinstance(each, Conversion)]
    definitions = custom_resource_definitions(kinds, conversions, where)
    configurations = webhook_configurations(webhooks, where, PROGRAM, prefix=PROGRAM.prefix)
    return [
        *(("customresourcedefinitions.apiextensions.k8s.io", each) for each in definitions),
        *((f"{each['kind'].lower()}s.admissionregistration.k8s.io", each) for each in configurations),
    ]


def _log_observer(world: World) -> Callable[[str, dict[str, Any]], None]:
    def observe(level: str, fields: dict[str, Any]) -> None:
        name, event = fields.pop("logger_name", ""), fields.pop("event", "")
        if fields.pop("exc_info", None) and not event.endswith("timed out"):
            world.violated(
                f"{current_process.get()}: {event} with {fields.get('error_type')}: {fields.get('error')}"
            )
        rest = "".join(f" {key}={value}" for key, value in fields.items())
        world.check_told(f"a log line of {current_process.get()}", f"{event}{rest}".encode())
        world.note(current_process.get(), f"log {level} {name}: {event}{rest}")

    return observe
