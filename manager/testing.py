"""Operators under test: a manager that runs them, and a control plane, in the test's own process.

    async def test_it_greets():
        async with operated(GreetingOperator) as world:
            greeting = await world.create(Greeting(metadata=ObjectMeta(name="hello"), spec=...))
            greeting = await world.until(greeting, lambda it: it.status.ready_replicas == 1)
            assert greeting.status.text == "Hello, you"

The control plane is devcluster: definitions, defaults, validation, apply, watches, garbage collection,
Deployments whose pods become ready, and it asks the operators' webhooks. Nothing is mocked but the network.
With `clock=VirtualClock()` an hour of all of it takes no time.
To call the methods that are webhooks by themselves, take those of an operator `without_manager`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, TypeVar, cast
from urllib.parse import parse_qs, unquote, urlsplit

import orjson

from devcluster import DevCluster
from devcluster.clock import Clock
from devcluster.errors import StatusError
from devcluster.exchange import ApiRequest, ApiResponse, ConnectionCut
from manager import clock as manager_clock
from manager.api import ObjectKey, Resource
from manager.client import Client
from manager.codegen import custom_resource_definitions, roles
from manager.kube.errors import ConnectionLost, ProtocolError
from manager.kube.transport import Transport
from manager.kube.wire import LONGEST, WireRequest, WireResponse
from manager.manager import Manager
from manager.metrics import Metrics
from manager.operator import AnyOperator, Operator, add_controller, rights_of
from manager.program import Program
from manager.settings import Setting, SettingValues
from manager.simulation.guards import NotRepeatable
from manager.simulation.loop import VirtualLoop, virtual_time
from manager.simulation.services import Handler, Services
from manager.webhook.configurations import by_url, webhook_configurations
from manager.webhook.endpoint import Endpoint
from manager.webhook.errors import Unanswered, status_body
from manager.webhook.methods import registrations, webhooks_of
from manager.webhook.registration import Webhooks
from manager.webhook.server import endpoints_of

__all__ = ["LocalWire", "VirtualClock", "World", "operated", "without_manager"]

R = TypeVar("R", bound=Resource)
O = TypeVar("O", bound=Operator[Any])  # noqa: E741 - the operator

_NAMESPACE = "default"

_PROGRAM = Program("test", "0")

_SYSTEM = "test-system"
"""The namespace of the manager's account."""

_WEBHOOKS = "https://webhooks.test"

_PAUSE = 0.005
"""Seconds between two looks."""
_VIRTUAL_PAUSE = 1.0
"""The same on a virtual clock, where a write ends it earlier."""


class VirtualClock:
    """The clock of a test, its manager and its control plane, which jumps to whatever is due next.

        clock = VirtualClock(datetime(2026, 3, 1, 8, 59, tzinfo=UTC))
        async with operated(BackupOperator, clock=clock) as world:
            backup = await world.create(Backup(...))
            await clock.advance(hours=1)

    When no task has anything to do, the clock jumps to the next timer. So `asyncio.sleep(3600)` takes no time
    in a test and in an operator, and all is done that is due within the hour. There is no network meanwhile.
    """

    def __init__(self, start: datetime | None = None) -> None:
        """`start` is the time of day in the beginning, with a time zone; by default some day in 2027."""
        if start is not None and start.tzinfo is None:
            raise ValueError(f"VirtualClock needs a start with a time zone, such as UTC, not {start!r}")
        self.start = start

    def now(self) -> datetime:
        """Return the time of day, in UTC, as `manager.clock.now()` does."""
        return manager_clock.now()

    async def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Return when so much time has passed, and all is done that was due."""
        await _pass(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds())

    async def advance_to(self, moment: datetime) -> None:
        """Return at that moment, which is not in the past."""
        left = (moment - self.now()).total_seconds()
        if left < 0:
            raise ValueError(f"it is {self.now().isoformat()} already, which is after {moment.isoformat()}")
        await _pass(left)


async def _pass(seconds: float) -> None:
    await asyncio.sleep(seconds)
    await asyncio.sleep(1e-6)  # it ends when nothing else is left to do at that moment


@asynccontextmanager
async def operated(
    *operators: AnyOperator,
    objects: Sequence[Resource] = (),
    settings: Mapping[Setting[Any], Any] | None = None,
    kinds: Sequence[type[Resource]] = (),
    pod_ready_delay: float = 0.0,
    clock: VirtualClock | None = None,
    services: Mapping[str, Handler] | None = None,
) -> AsyncIterator[World]:
    """Run a control plane, and a manager with these operators on it; both have ended when the context exits.

    Args:
        operators: what the manager runs. Their kinds are defined, and their webhooks are called.
        objects: created before the manager starts, in this order.
        settings: parsed values by key. The others have their defaults.
        kinds: further kinds to define.
        pod_ready_delay: seconds from scheduling a pod to its being ready.
        clock: runs instead of the machine's. The running loop is in virtual time until the context exits.
        services: handlers of aiohttp by URL (`http://HOST:PORT`), which answer what operators call by HTTP.
            They need a `clock`.

    Raises NotVirtual for a `clock` in a loop that is not asyncio's own. With a clock, it raises NotRepeatable
    in the end if an operator wanted to reach a host that is none of the `services`.
    """
    if services and clock is None:
        raise ValueError("operated: services need a VirtualClock, as only virtual time has names of its own")
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        if clock is not None:
            await stack.enter_async_context(_on(clock, services or {}))
        # The first one of a process reads what kinds there are.
        # One time of day for both. A thread has no loop that could tell it.
        time_of_day = Clock(getattr(loop, "wall_clock", time.time))
        cluster = await stack.enter_async_context(
            await asyncio.to_thread(DevCluster, port=None, pod_ready_delay=pod_ready_delay, clock=time_of_day)
        )
        metrics, rng = Metrics(), random.Random(1)
        transport = Transport(
            LocalWire(cluster, await _account(cluster, operators)),
            metrics=metrics,
            rng=rng,
            user_agent="test",
        )
        tester = Transport(LocalWire(cluster), metrics=Metrics(), rng=rng, user_agent="test")
        values = {key: key.default_value() for each in operators for key in each.declared_settings}
        manager = Manager(
            transport,
            program=_PROGRAM,
            metrics=metrics,
            rng=rng,
            identity="test",
            settings=SettingValues({**values, **(settings or {})}),
        )
        running_here = [operator(manager) for operator in operators]
        for each in running_here:
            add_controller(each)
        world = World(cluster, manager, tester)
        webhooks = webhooks_of(running_here)
        for endpoint in endpoints_of(webhooks, metrics):
            cluster.webhooks.here[f"{_WEBHOOKS}{endpoint.path}"] = partial(_answered, endpoint)
        at = by_url(_WEBHOOKS)
        defined = dict.fromkeys((*(kind for each in operators for kind in each.kinds()), *kinds))
        # It reads the models' sources, for what is said of their fields.
        definitions = await asyncio.to_thread(custom_resource_definitions, defined, webhooks.conversions, at)
        for definition in definitions:
            await cluster.client.create("customresourcedefinitions.apiextensions.k8s.io", "", definition)
        for configuration in webhook_configurations(webhooks, at, manager.program, prefix=""):
            resource = f"{configuration['kind'].lower()}s.admissionregistration.k8s.io"
            await cluster.client.create(resource, "", configuration)
        await asyncio.sleep(0)
        for obj in objects:
            await world.create(obj)
        stop = asyncio.Event()
        running = asyncio.create_task(manager.run(stop), name="manager")
        try:
            yield world
        finally:
            stop.set()
            await running
            await transport.aclose()
            await tester.aclose()


async def _account(cluster: DevCluster, operators: Sequence[AnyOperator]) -> str:
    """Install the manager's account with the roles that `generate` writes; return a token of it."""
    rules = [rule for operator in operators for rule in rights_of(operator)]
    webhooks = Webhooks([each for operator in operators for each in registrations(operator)])
    converted = [f"{each.hub.plural}.{each.hub.gvk.group}" for each in webhooks.conversions]
    found = roles.of_manager(_PROGRAM.name, rules, converted if webhooks else None)
    manifests = roles.installed(found, namespace=_SYSTEM)
    namespace, name = roles.account_of(manifests)
    await cluster.client.create("namespaces", "", {"metadata": {"name": namespace}})
    for each in manifests:
        group = each["apiVersion"].rpartition("/")[0]
        resource = f"{each['kind'].lower()}s.{group}".rstrip(".")
        await cluster.client.create(resource, each["metadata"].get("namespace", ""), each)
    groups = "system:serviceaccounts", f"system:serviceaccounts:{namespace}"
    return cluster.add_user(f"system:serviceaccount:{namespace}:{name}", groups)


@asynccontextmanager
async def _on(clock: VirtualClock, services: Mapping[str, Handler]) -> AsyncIterator[None]:
    with virtual_time(clock.start.timestamp() if clock.start else None) as loop:
        before, loop.services = loop.services, Services(services)
        try:
            yield
        finally:
            await loop.services.aclose()
            refused, loop.services = loop.services.refused, before
            if refused:
                raise NotRepeatable(refused[0])


async def _answered(endpoint: Endpoint, review: bytes, seconds: float) -> tuple[int, bytes | bytearray]:
    """As the server of webhooks answers, without a connection."""
    try:
        return HTTPStatus.OK, await endpoint.answer(review, waits=seconds)
    except Unanswered as error:
        return error.code, orjson.dumps(status_body(error.code, error.reason, str(error)))


def without_manager(operator: type[O], *, settings: Mapping[Setting[Any], Any] | None = None) -> O:
    """An operator without a manager, to call its webhook methods directly.

    `settings` are values by key; the others have their defaults.
    """
    defaults = {key: key.default_value() for key in operator.declared_settings}
    values = SettingValues({**defaults, **(settings or {})})
    client = SimpleNamespace(named=lambda _, **_former: None)
    return operator(cast("Manager", SimpleNamespace(client=client, settings=values)))


class World:
    """What a test can see and do.

    Attributes: `cluster` is the control plane, `manager` runs the operators with the roles that `generate`
    writes, `client` writes as an administrator would, and reads from the server with `client.uncached`.
    """

    def __init__(self, cluster: DevCluster, manager: Manager, transport: Transport) -> None:
        """`transport` carries the requests of the test."""
        self.cluster = cluster
        self.manager = manager
        field_manager = f"{manager.program.name}-test"
        self.client = Client(transport, manager.mapper, manager.cache, field_manager=field_manager)

    async def create(self, obj: R) -> R:
        """Create an object as a user would, by default in namespace `default`; returns it as stored."""
        if obj.namespaced and not obj.metadata.namespace:
            obj.metadata.namespace = _NAMESPACE
        return await self.client.create(obj)

    async def get(self, kind: type[R], name: str, namespace: str = _NAMESPACE) -> R:
        """Read an object; raises NotFound."""
        return await self.client.uncached.get(kind, self._key(kind, name, namespace))

    async def find(self, kind: type[R], name: str, namespace: str = _NAMESPACE) -> R | None:
        """Read an object; None if there is none."""
        return await self.client.uncached.find(kind, self._key(kind, name, namespace))

    async def update(self, obj: R, change: Callable[[R], object]) -> R:
        """Read an object, call `change` with it, and write it."""
        live = await self.client.uncached.get(type(obj), obj.key)
        change(live)
        return await self.client.patch(live)

    async def delete(self, obj: Resource) -> None:
        """Delete an object."""
        await self.client.delete(obj)

    async def until(self, obj: R, holds: Callable[[R], object], *, timeout: float = 10.0) -> R:
        """Wait until `holds` is true for the object, and return it.

        It is read again whenever something was written, and `holds` may not change it. Fails with its last
        state if that takes longer than `timeout` seconds.
        """
        deadline, last = asyncio.get_running_loop().time() + timeout, obj
        version, found = -1, None
        while True:
            if self.cluster.store.version != version:  # or it is as it was
                version = self.cluster.store.version
                found = await self.client.uncached.find(type(obj), obj.key)
            if found is not None:
                last = found
                if holds(found):
                    return found
            if asyncio.get_running_loop().time() >= deadline:
                gone = " (it is gone)" if found is None else ""
                wire = last.to_wire()
                wire["metadata"].pop("managedFields", None)
                shown = orjson.dumps(wire, option=orjson.OPT_INDENT_2).decode()
                raise AssertionError(f"not so after {timeout:g} s; at last{gone}:\n{shown}")
            await self._wait_to_look_again(version, deadline)

    async def until_gone(self, obj: Resource, *, timeout: float = 10.0) -> None:
        """Return once the object is gone; fails when that takes longer than `timeout` seconds."""
        deadline, version = asyncio.get_running_loop().time() + timeout, self.cluster.store.version
        while await self.client.uncached.find(type(obj), obj.key) is not None:
            if asyncio.get_running_loop().time() >= deadline:
                raise AssertionError(f"{obj.kind} {obj.key} is still there after {timeout:g} s")
            await self._wait_to_look_again(version, deadline)
            version = self.cluster.store.version

    async def _wait_to_look_again(self, version: int, deadline: float) -> None:
        """Wait for a moment; in virtual time, for a write after that version, and much longer."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            await asyncio.sleep(_PAUSE)
            return
        if (store := self.cluster.store).version != version:
            return
        written = asyncio.Event()
        unsubscribe = store.subscribe(lambda _: written.set())
        try:
            async with asyncio.timeout_at(min(deadline, loop.time() + _VIRTUAL_PAUSE)):
                await written.wait()
        except TimeoutError:
            return
        finally:
            unsubscribe()

    async def events(self, obj: Resource) -> list[str]:
        """The reasons of the Events about an object, in the order in which they were first recorded."""
        await self.manager.events.flush(1.0)
        found = self.cluster.client.list("events", obj.metadata.namespace or _NAMESPACE)
        about = [each for each in found if each["involvedObject"].get("uid") == obj.metadata.uid]
        return [each["reason"] for each in sorted(about, key=_recorded)]

    def _key(self, kind: type[Resource], name: str, namespace: str) -> ObjectKey:
        return ObjectKey(namespace if kind.namespaced else "", name)


def _recorded(event: Mapping[str, Any]) -> int:
    return int(event["metadata"]["resourceVersion"])


class LocalWire:
    """Carries requests to a control plane of the same process; implements `manager.kube.wire.Wire`."""

    host = "devcluster"

    def __init__(self, cluster: DevCluster, token: str = "") -> None:
        """The `token` is that of the user; by default, the administrator's."""
        self._cluster = cluster
        self._token = token or cluster.token
        self._cut: asyncio.Event = asyncio.Event()

    @asynccontextmanager
    async def exchange(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        """Have the control plane answer."""
        if request.permit is not None:
            request.permit()
        try:
            answer = await self.answer(request)
        except StatusError as refusal:
            answer = ApiResponse.failure(refusal)
        except ConnectionCut:
            raise ConnectionLost("the control plane has cut the connection") from None
        response = _Answer(answer, self._cut)
        try:
            yield response
        finally:
            await response.aclose()

    async def answer(self, request: WireRequest) -> ApiResponse:
        """What the control plane answers; raises StatusError for what it refuses."""
        parts = urlsplit(request.path)
        return await self._cluster.handle(
            ApiRequest(
                method=request.method,
                path=unquote(parts.path),
                query=parse_qs(parts.query, keep_blank_values=True),
                headers={
                    **{name.lower(): value for name, value in request.headers.items()},
                    "authorization": f"Bearer {self._token}",
                },
                body=request.body or b"",
            )
        )

    def abort(self) -> None:
        """End what is being read."""
        self._cut.set()
        self._cut = asyncio.Event()

    async def aclose(self) -> None:
        """End what is being read."""
        self.abort()


class _Answer:
    """Implements `manager.kube.wire.WireResponse`."""

    def __init__(self, answer: ApiResponse, cut: asyncio.Event) -> None:
        self.status = answer.status
        self.headers = {"Content-Type": answer.content_type, **answer.headers}
        self._answer = answer
        self._cut = cut

    async def read(self, limit: int = LONGEST) -> bytes:
        body = self._answer.body
        if self._answer.stream is not None:
            async with aclosing(self.chunks()) as chunks:
                body = b"".join([chunk async for chunk in chunks])
        if len(body) > limit:
            raise ProtocolError(f"the answer is longer than {limit} bytes")
        return body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        stream = self._answer.stream
        if stream is None:
            yield self._answer.body
            return
        cutting = asyncio.ensure_future(self._cut.wait())
        following: asyncio.Future[bytes] | None = None
        try:
            while True:
                following = asyncio.ensure_future(anext(stream))
                await asyncio.wait((following, cutting), return_when=asyncio.FIRST_COMPLETED)
                if not following.done():
                    raise ConnectionLost("the connection was aborted")
                try:
                    yield following.result()
                except (StopAsyncIteration, ConnectionCut):
                    return
        finally:
            tasks: list[asyncio.Future[Any]] = [cutting] if following is None else [cutting, following]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def aclose(self) -> None:
        """Tell the control plane that nobody reads any more."""
        stream = self._answer.stream
        if stream is not None and hasattr(stream, "aclose"):
            await stream.aclose()
