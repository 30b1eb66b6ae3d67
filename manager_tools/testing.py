"""A test environment for operators: a manager and a control plane in the test's own process.

    async def test_it_greets():
        async with operated(GreetingOperator) as world:
            greeting = await world.create(Greeting(metadata=ObjectMeta(name="hello"), spec=...))
            greeting = await world.until(greeting, lambda it: it.status.ready_replicas == 1)
            assert greeting.status.text == "Hello, you"

By default, the control plane is devcluster: definitions, defaults, validation, apply, watches, garbage
collection, Deployments whose pods become ready, and calls of the operators' webhooks. Only the network is
mocked. With `clock=VirtualClock()` an hour takes no time. To call a webhook's method directly, use an
operator from `without_manager`.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, TypeVar, cast
from urllib.parse import parse_qs, unquote, urlsplit

import orjson

from devcluster import DevCluster
from devcluster.clock import Clock
from devcluster.errors import StatusError
from devcluster.http_call import ApiRequest, ApiResponse, ConnectionCut
from manager.api import ObjectKey, Resource
from manager.client import Client
from manager.kube.config import load_config
from manager.kube.errors import (
    AlreadyExists,
    ConnectionLost,
    MethodNotAllowed,
    NotFound,
    ProtocolError,
    ServerError,
    error_from,
)
from manager.kube.http_wire import HttpWire
from manager.kube.transport import Transport
from manager.kube.wire import LONGEST, Wire, WireRequest, WireResponse
from manager.operator import AnyOperator, Operator, add_controller, rights_of
from manager.process.manager import Manager
from manager.settings import Setting, SettingValues
from manager.telemetry.metrics import Metrics
from manager.tls.key_pair import KeyPair
from manager.tls.served import ServedCertificate
from manager.util import clock as manager_clock
from manager.util.address import BindAddress
from manager.util.program import Program
from manager.webhook.configurations import ClientConfig, by_url, webhook_configurations
from manager.webhook.endpoint import Endpoint, Unanswered
from manager.webhook.endpoints import endpoints_of
from manager.webhook.methods import registrations, webhooks_of
from manager.webhook.registration import Webhooks
from manager_tools.codegen import custom_resource_definitions, roles
from manager_tools.codegen.namespaces import limited_to
from manager_tools.envtest import TOKEN_REQUEST, Envtest, path_of
from manager_tools.simulation.guards import NotRepeatable
from manager_tools.simulation.loop import VirtualLoop, virtual_time
from manager_tools.simulation.services import Handler, Services

R = TypeVar("R", bound=Resource)
O = TypeVar("O", bound=Operator[Any])  # noqa: E741 - O is the operator's type

_NAMESPACE = "default"

_PROGRAM = Program("test", "0")

_SYSTEM = "test-system"
"""The namespace of the manager's account."""

_WEBHOOKS = "https://webhooks.test"

_MOST_MESSAGES = 64
"""The maximum number of messages in transit in a WebSocket."""

_PAUSE = 0.005
"""Seconds between two checks."""
_LOOKS_EVERY = 0.05
"""Seconds between two checks if each is a request to a real API server."""
_WITHIN = 30.0
"""The maximum seconds for an action that a real API server usually does at once."""
_VIRTUAL_PAUSE = 1.0
"""Seconds between two checks on a virtual clock, where a write ends the wait earlier."""


class VirtualClock:
    """A clock that jumps to the next timer, for a test, its manager and its control plane.

        clock = VirtualClock(datetime(2026, 3, 1, 8, 59, tzinfo=UTC))
        async with operated(BackupOperator, clock=clock) as world:
            backup = await world.create(Backup(...))
            await clock.advance(hours=1)

    When no task can run, the clock jumps to the next timer. So `asyncio.sleep(3600)` takes no time in a test
    or an operator, and all timers of that hour fire. The network is not available in virtual time.
    """

    def __init__(self, start: datetime | None = None) -> None:
        """Set the clock to `start`, a time with a time zone; by default a day in 2027."""
        if start is not None and start.tzinfo is None:
            raise ValueError(f"VirtualClock needs a start with a time zone, such as UTC, not {start!r}")
        self.start = start

    def now(self) -> datetime:
        """Return the date and time in UTC, as `manager.util.clock.now()` does."""
        return manager_clock.now()

    async def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Let this time pass; return when all timers that are due by then have fired."""
        left = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()
        if left < 0:
            raise ValueError(f"a clock does not go back, by {-left:g} s")
        await _pass(left)

    async def advance_to(self, moment: datetime) -> None:
        """Let time pass until `moment`, which must not be in the past."""
        if moment.tzinfo is None:
            raise ValueError(f"VirtualClock needs a moment with a time zone, such as UTC, not {moment!r}")
        left = (moment - self.now()).total_seconds()
        if left < 0:
            raise ValueError(f"it is {self.now().isoformat()} already, which is after {moment.isoformat()}")
        await _pass(left)


async def _pass(seconds: float) -> None:
    if getattr(asyncio.get_running_loop(), "wall_clock", None) is None:
        raise RuntimeError("a VirtualClock advances within `async with operated(..., clock=clock)` alone")
    await asyncio.sleep(seconds)
    await asyncio.sleep(1e-6)  # this ends when no other task can run at that time


@asynccontextmanager
async def operated(
    *operators: AnyOperator,
    objects: Sequence[Resource] = (),
    settings: Mapping[Setting[Any], Any] | None = None,
    kinds: Sequence[type[Resource]] = (),
    pod_ready_delay: float = 0.0,
    clock: VirtualClock | None = None,
    services: Mapping[str, Handler] | None = None,
    namespaces: Sequence[str] = (),
) -> AsyncIterator[World]:
    """Run a control plane and a manager with these operators.

    Leaving the context ends the manager and devcluster; a real API server runs on.

    Args:
        operators: the manager's operators. The CRDs of their kinds are installed, and their webhooks called.
        objects: are created before the manager starts, in this order.
        settings: parsed values by setting. All other settings have their defaults.
        kinds: further kinds whose CRDs are installed.
        pod_ready_delay: seconds from the scheduling of a pod until it is ready.
        clock: replaces the machine's clock. The running loop is in virtual time until the context exits.
        services: aiohttp handlers by URL (`http://HOST:PORT`), which answer the operators' HTTP calls.
            They need a `clock`.
        namespaces: the manager watches, and has rights in, these namespaces only, as with `--namespaces`; by
            default all. They are created. The first is the world's `namespace`.

    Raises NotVirtual for a `clock` in a loop that is not asyncio's own. With a clock, it raises NotRepeatable
    at the end if an operator tried to reach a host that is not in `services`.
    """
    if services and clock is None:
        raise ValueError("operated: services need a VirtualClock, as only virtual time has names of its own")
    async with AsyncExitStack() as stack:
        if clock is not None:
            if _Chosen.plane is not None:
                raise NeedsDevcluster("`operated(clock=...)`: a real API server has a clock of its own")
            await stack.enter_async_context(_on(clock, services or {}))
        stage = await stack.enter_async_context(_stage(pod_ready_delay, namespaces))
        metrics, rng = Metrics(), random.Random(1)
        transport = Transport(
            await stage.account(roles_of(operators)), metrics=metrics, rng=rng, user_agent="test"
        )
        stage.closing.push_async_callback(transport.aclose)
        values = {key: key.default_value() for each in operators for key in each.declared_settings}
        manager = Manager(
            transport,
            program=_PROGRAM,
            metrics=metrics,
            rng=rng,
            identity="test",
            settings=SettingValues({**values, **(settings or {})}),
            namespaces=namespaces,
        )
        running_here = [operator(manager) for operator in operators]
        for each in running_here:
            add_controller(each)
        world = World(stage, manager)
        webhooks = webhooks_of(running_here)
        at = await stage.webhooks(endpoints_of(webhooks, metrics), metrics)
        defined = dict.fromkeys((*(kind for each in operators for kind in each.kinds()), *kinds))
        # This reads the models' sources, for the fields' docstrings.
        definitions = await asyncio.to_thread(custom_resource_definitions, defined, webhooks.conversions, at)
        await stage.define(definitions)
        for configuration in stage.limited(webhook_configurations(webhooks, at, manager.program, prefix="")):
            await stage.create(configuration)
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


class NeedsDevcluster(Exception):
    """An error: a test on a real API server uses a feature that only devcluster has."""


def roles_of(operators: Sequence[AnyOperator], program: str = _PROGRAM.name) -> roles.Roles:
    """Return the roles that `generate` writes for the manager of a program with these operators."""
    rules = [rule for operator in operators for rule in rights_of(operator)]
    webhooks = Webhooks([each for operator in operators for each in registrations(operator)])
    converted = [f"{each.hub.plural}.{each.hub.gvk.group}" for each in webhooks.conversions]
    return roles.of_manager(program, rules, converted if webhooks else None)


def use_control_plane(plane: Envtest | None) -> None:
    """Make `operated` use this API server from now on; None means devcluster."""
    _Chosen.plane = plane


class _Chosen:
    plane: Envtest | None = None


@asynccontextmanager
async def _stage(pod_ready_delay: float, namespaces: Sequence[str]) -> AsyncIterator[_Stage]:
    async with AsyncExitStack() as closing:
        stage: _Stage
        if _Chosen.plane is not None:
            await asyncio.to_thread(_Chosen.plane.start)
            stage = _OnEnvtest(_Chosen.plane, closing, namespaces)
        else:
            # The first control plane of a process reads the table of kinds. Both threads use one time of day,
            # even in virtual time, because a thread has no loop with the time.
            loop = asyncio.get_running_loop()
            time_of_day = Clock(getattr(loop, "wall_clock", time.time))
            cluster = await asyncio.to_thread(
                DevCluster, port=None, pod_ready_delay=pod_ready_delay, clock=time_of_day
            )
            stage = _OnDevcluster(await closing.enter_async_context(cluster), closing, namespaces)
        await stage.begin()
        yield stage


class _Stage:
    """A control plane for one test; `closing` ends devcluster, or deletes the test's objects in envtest."""

    namespace = _NAMESPACE
    """The namespace of the test's objects."""
    cluster: DevCluster | None = None
    pause = _PAUSE
    tester: Transport
    """The transport for the test's own requests."""

    def __init__(self, closing: AsyncExitStack, namespaces: Sequence[str]) -> None:
        self.closing = closing
        self._watched = namespaces
        if namespaces:
            self.namespace = namespaces[0]

    async def begin(self) -> None:
        self.tester = Transport(
            await self.wire(""), metrics=Metrics(), rng=random.Random(1), user_agent="test"
        )
        self.closing.push_async_callback(self.tester.aclose)
        for each in self._watched:
            with suppress(AlreadyExists):  # `default`
                await self.create_namespace(each)

    async def create_namespace(self, name: str) -> None:
        await self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def limited(self, manifests: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        return [*limited_to(self._watched, manifests)] if self._watched else manifests

    async def wire(self, token: str) -> Wire:
        raise NotImplementedError

    async def account(self, found: roles.Roles) -> Wire:
        raise NotImplementedError

    async def webhooks(self, endpoints: Sequence[Endpoint[Any]], metrics: Metrics) -> ClientConfig:
        raise NotImplementedError

    async def create(self, manifest: dict[str, Any]) -> None:
        await self.tester.request("POST", path_of(manifest), body=orjson.dumps(manifest))

    async def define(self, definitions: Sequence[dict[str, Any]]) -> None:
        for definition in definitions:
            await self.create(definition)

    @property
    def version(self) -> int:
        """Return a number that increases with each write; if writes are not observed, with each call."""
        raise NotImplementedError


class _OnDevcluster(_Stage):
    cluster: DevCluster

    def __init__(self, cluster: DevCluster, closing: AsyncExitStack, namespaces: Sequence[str]) -> None:
        super().__init__(closing, namespaces)
        self.cluster = cluster

    async def wire(self, token: str) -> Wire:
        return LocalWire(self.cluster, token)

    async def account(self, found: roles.Roles) -> Wire:
        manifests = self.limited(roles.installed(found, namespace=_SYSTEM))
        namespace, name = roles.account_of(manifests)
        await self.create_namespace(namespace)
        for each in manifests:
            await self.create(each)
        groups = "system:serviceaccounts", f"system:serviceaccounts:{namespace}"
        return await self.wire(self.cluster.add_user(f"system:serviceaccount:{namespace}:{name}", groups))

    async def webhooks(self, endpoints: Sequence[Endpoint[Any]], metrics: Metrics) -> ClientConfig:  # noqa: ARG002
        for endpoint in endpoints:
            self.cluster.webhooks.here[f"{_WEBHOOKS}{endpoint.path}"] = partial(_answered, endpoint)
        return by_url(_WEBHOOKS)

    @property
    def version(self) -> int:
        return self.cluster.store.version


class _OnEnvtest(_Stage):
    pause = _LOOKS_EVERY

    def __init__(self, plane: Envtest, closing: AsyncExitStack, namespaces: Sequence[str]) -> None:
        super().__init__(closing, namespaces or (f"test-{secrets.token_hex(4)}",))
        self._plane = plane
        self._watches_all = not namespaces
        self._looks = 0

    async def create_namespace(self, name: str) -> None:
        await super().create_namespace(name)
        self.closing.push_async_callback(self._delete_namespace, name)

    def limited(self, manifests: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        return manifests if self._watches_all else super().limited(manifests)

    async def wire(self, token: str) -> Wire:
        kubeconfig = await asyncio.to_thread(self._plane.kubeconfig_for, token or self._plane.token)
        config = await load_config(kubeconfig=str(kubeconfig), context=None, environ={})
        return HttpWire(config)

    async def account(self, found: roles.Roles) -> Wire:
        # The ServiceAccount is in the test's namespace, and is deleted with it.
        manifests = self.limited(
            roles.installed(found, namespace=self.namespace, prefix=f"{self.namespace}-")
        )
        namespace, name = roles.account_of(manifests)
        for each in manifests:
            await self.create(each)
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = await self.tester.request("POST", path, body=orjson.dumps(TOKEN_REQUEST))
        token = orjson.loads(answer)["status"]["token"]
        await self._wait_for_roles(f"system:serviceaccount:{namespace}:{name}", manifests)
        return await self.wire(token)

    async def _wait_for_roles(self, user: str, manifests: Sequence[dict[str, Any]]) -> None:
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        rules = next(each["rules"] for each in manifests if each["metadata"]["name"].endswith("manager-role"))
        for rule in rules[:1]:
            resource, _, subresource = rule["resources"][0].partition("/")
            wanted = {
                "group": rule["apiGroups"][0],
                "resource": resource,
                "subresource": subresource,
                "verb": rule["verbs"][0],
                "name": next(iter(rule.get("resourceNames", ())), ""),
                "namespace": self.namespace,
            }
            body = orjson.dumps(
                {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SubjectAccessReview",
                    "spec": {"user": user, "resourceAttributes": wanted},
                }
            )
            await self._until(partial(self._is_allowed, path, body))

    async def _is_allowed(self, path: str, body: bytes) -> bool:
        answer = await self.tester.request("POST", path, body=body)
        return bool(orjson.loads(answer)["status"]["allowed"])

    async def webhooks(self, endpoints: Sequence[Endpoint[Any]], metrics: Metrics) -> ClientConfig:
        if not endpoints:
            return by_url(_WEBHOOKS)
        pair = await asyncio.to_thread(
            self._plane.authority.issue, ("127.0.0.1",), datetime.now(UTC), timedelta(days=1)
        )
        from manager.webhook.server import WebhookServer  # noqa: PLC0415 - aiohttp.web: 75 ms, 9 MB

        server = WebhookServer(
            BindAddress("127.0.0.1", 0), endpoints, ServedCertificate(_Issued(pair)), metrics=metrics
        )
        serving = asyncio.create_task(server.run(), name="webhooks")

        async def end() -> None:
            serving.cancel()
            await asyncio.wait((serving,))

        self.closing.push_async_callback(end)
        while server.bound is None:
            await asyncio.wait((serving,), timeout=_PAUSE)
            if serving.done():
                serving.result()
        return by_url(f"https://{server.bound}", b64encode(self._plane.authority.certificate).decode())

    async def create(self, manifest: dict[str, Any]) -> None:
        await super().create(manifest)
        if not manifest["metadata"].get("namespace") and manifest["kind"] != "Namespace":
            path = f"{path_of(manifest)}/{manifest['metadata']['name']}"
            self.closing.push_async_callback(self._delete, path)

    async def define(self, definitions: Sequence[dict[str, Any]]) -> None:
        await super().define(definitions)
        for definition in definitions:
            spec = definition["spec"]
            for version in spec["versions"]:
                if version["served"]:
                    path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
                    await self._until(partial(self._is_there, path))
                    self.closing.push_async_callback(self._empty, path)

    async def _until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(_WITHIN):
            while not await holds():  # noqa: ASYNC110 - no watch reports it
                await asyncio.sleep(_LOOKS_EVERY)

    async def _is_there(self, path: str) -> bool:
        try:
            await self.tester.request("GET", path)
        except (NotFound, ServerError):
            return False
        return True

    async def _delete(self, path: str) -> None:
        """Delete an object, and wait until it is gone, because the next test may use the same name."""
        with suppress(NotFound):
            await self.tester.request("DELETE", path)

        async def is_gone() -> bool:
            return not await self._is_there(path)

        await self._until(is_gone)

    async def _empty(self, path: str) -> None:
        try:
            listed = orjson.loads(await self.tester.request("GET", path))
        except (NotFound, MethodNotAllowed):
            return
        scope, _, plural = path.rpartition("/")
        for each in listed["items"]:
            metadata = each["metadata"]
            inside = "" if "/namespaces/" in scope else metadata.get("namespace", "")
            within = f"{scope}/namespaces/{inside}" if inside else scope
            one = f"{within}/{plural}/{metadata['name']}"
            with suppress(NotFound):
                options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
                await self.tester.request("DELETE", one, body=orjson.dumps(options))
                if metadata.get("finalizers"):
                    patch = b'{"metadata":{"finalizers":null}}'
                    await self.tester.request(
                        "PATCH", one, body=patch, content_type="application/merge-patch+json"
                    )

    async def _delete_namespace(self, name: str) -> None:
        for path in await self._namespaced(name):
            await self._empty(path)
        path = f"/api/v1/namespaces/{name}"
        await self.tester.request("DELETE", path)
        left = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        with suppress(NotFound):
            await self.tester.request("PUT", f"{path}/finalize", body=orjson.dumps({**left, "spec": {}}))

    async def _namespaced(self, name: str) -> list[str]:
        groups = orjson.loads(await self.tester.request("GET", "/apis"))["groups"]
        versions = ["/api/v1", *(f"/apis/{each['preferredVersion']['groupVersion']}" for each in groups)]
        found = []
        for version in versions:
            try:
                resources = orjson.loads(await self.tester.request("GET", version))["resources"]
            except (NotFound, ServerError):
                continue
            found += [
                f"{version}/namespaces/{name}/{each['name']}"
                for each in resources
                if each["namespaced"] and {"list", "delete"} <= {*each["verbs"]}
            ]
        return found

    @property
    def version(self) -> int:
        self._looks += 1
        return self._looks


class _Issued:
    def __init__(self, pair: KeyPair) -> None:
        self._pair = pair

    def __str__(self) -> str:
        return "the certificate of the test"

    def pair(self, now: datetime) -> KeyPair:  # noqa: ARG002
        return self._pair


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


async def _answered(endpoint: Endpoint[Any], review: bytes, seconds: float) -> tuple[int, bytes | bytearray]:
    try:
        return HTTPStatus.OK, await endpoint.answer(review, waits=seconds)
    except Unanswered as error:
        return error.code, error.body


def without_manager(operator: type[O], *, settings: Mapping[Setting[Any], Any] | None = None) -> O:
    """Return an operator without a manager, to call its webhook methods directly.

    `settings` has values by setting; all other settings have their defaults.
    """
    defaults = {key: key.default_value() for key in operator.declared_settings}
    values = SettingValues({**defaults, **(settings or {})})
    client = SimpleNamespace(named=lambda _, **_former: None)
    return operator(cast("Manager", SimpleNamespace(client=client, settings=values)))


class World:
    """The environment of a test.

    Attributes: `namespace` is the default namespace of objects: the first of `namespaces`. Without
    `namespaces` it is `default` on devcluster, and a separate namespace for the test on a real API server.
    `cluster` is devcluster. `manager` runs the operators with the roles that `generate` writes. `client`
    writes as an administrator would; `client.uncached` reads from the server.
    """

    def __init__(self, stage: _Stage, manager: Manager) -> None:
        self._stage = stage
        self.manager = manager
        self.namespace = stage.namespace
        field_manager = f"{manager.program.name}-test"
        self.client = Client(stage.tester, manager.mapper, manager.cache, field_manager=field_manager)

    @property
    def cluster(self) -> DevCluster:
        """Return the embedded control plane. Raises NeedsDevcluster on a real API server."""
        if self._stage.cluster is None:
            raise NeedsDevcluster("world.cluster is devcluster: on a real API server, use world.client")
        return self._stage.cluster

    async def create(self, obj: R) -> R:
        """Create an object as a user would, by default in `namespace`; returns it as stored."""
        if obj.namespaced and not obj.metadata.namespace:
            obj.metadata.namespace = self.namespace
        return await self.client.create(obj)

    async def get(self, kind: type[R], name: str, namespace: str = "") -> R:
        """Read an object; raise NotFound if it is missing."""
        return await self.client.uncached.get(kind, self._key(kind, name, namespace))

    async def find(self, kind: type[R], name: str, namespace: str = "") -> R | None:
        """Read an object; return None if it is missing."""
        return await self.client.uncached.find(kind, self._key(kind, name, namespace))

    async def update(self, obj: R, change: Callable[[R], object]) -> R:
        """Read an object, call `change` with it to modify it, and write it."""
        live = await self.client.uncached.get(type(obj), obj.key)
        change(live)
        return await self.client.patch(live)

    async def delete(self, obj: Resource) -> None:
        """Delete an object as a user would; do not wait until it is gone."""
        await self.client.delete(obj)

    async def until(self, obj: R, holds: Callable[[R], object], *, timeout: float = 10.0) -> R:
        """Wait until `holds` is true for the object, and return it.

        The object is read again after each write, and `holds` must not change it. After `timeout` seconds,
        the test fails with the last state of the object.
        """
        deadline, last = asyncio.get_running_loop().time() + timeout, obj
        version, found = -1, None
        while True:
            if (now := self._stage.version) != version:  # compare with the previous state
                version = now
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
                raise AssertionError(f"still false after {timeout:g} s; at last{gone}:\n{shown}")
            await self._wait_to_look_again(version, deadline)

    async def until_gone(self, obj: Resource, *, timeout: float = 10.0) -> None:
        """Wait until the object is gone; fail if that takes longer than `timeout` seconds."""
        deadline, version = asyncio.get_running_loop().time() + timeout, self._stage.version
        while await self.client.uncached.find(type(obj), obj.key) is not None:
            if asyncio.get_running_loop().time() >= deadline:
                raise AssertionError(f"{obj.kind} {obj.key} is still there after {timeout:g} s")
            await self._wait_to_look_again(version, deadline)
            version = self._stage.version

    async def _wait_to_look_again(self, version: int, deadline: float) -> None:
        """Sleep for a moment; in virtual time, wait until a write after `version`, or for a time limit."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            await asyncio.sleep(self._stage.pause)
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
        """Return the reasons of the Events about an object, in the order of their last recording."""
        await self.manager.events.flush(1.0)
        path = f"/api/v1/namespaces/{obj.metadata.namespace or _NAMESPACE}/events"
        found = orjson.loads(await self._stage.tester.request("GET", path))["items"]
        about = [each for each in found if each["involvedObject"].get("uid") == obj.metadata.uid]
        return [each["reason"] for each in sorted(about, key=_recorded)]

    def _key(self, kind: type[Resource], name: str, namespace: str) -> ObjectKey:
        return ObjectKey((namespace or self.namespace) if kind.namespaced else "", name)


def _recorded(event: Mapping[str, Any]) -> int:
    return int(event["metadata"]["resourceVersion"])


class LocalWire(Wire):
    """A `manager.kube.wire.Wire` to a control plane in the same process."""

    host = "devcluster"

    def __init__(self, cluster: DevCluster, token: str = "") -> None:
        self._cluster = cluster
        self._token = token or cluster.token
        self._cut: asyncio.Event = asyncio.Event()

    @asynccontextmanager
    async def exchange(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        """Send a request to the control plane; yield its response."""
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

    @asynccontextmanager
    async def websocket(
        self, request: WireRequest, protocols: Sequence[str], *, longest: int
    ) -> AsyncIterator[_Socket]:
        """Connect to the handlers in `world.cluster.sessions`, as `Wire.websocket` would to the server."""
        permit = request.permit or (lambda: None)
        permit()
        headers = {
            **request.headers,
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Key": "here",
            "Sec-WebSocket-Protocol": ",".join(protocols),
        }
        try:
            answer = await self.answer(replace(request, headers=headers))
        except StatusError as refusal:
            answer = ApiResponse.failure(refusal)
        if answer.websocket is None:
            raise error_from(answer.status, {"Content-Type": answer.content_type}, answer.body)
        socket = _Socket(answer.headers["Sec-WebSocket-Protocol"], permit, longest)
        serving = asyncio.ensure_future(socket.serve(answer.websocket))
        cutting = asyncio.ensure_future(self._cut.wait())
        cutting.add_done_callback(lambda _: serving.cancel())
        try:
            yield socket
        finally:
            cutting.cancel()
            serving.cancel()
            await asyncio.wait((serving, cutting))
            if not serving.cancelled() and (failure := serving.exception()) is not None:
                raise failure  # an error of the script that the test has set

    async def answer(self, request: WireRequest) -> ApiResponse:
        """Return the control plane's response; raise StatusError for a refusal."""
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
        """Cancel the requests that are waiting for data."""
        self._cut.set()
        self._cut = asyncio.Event()

    async def aclose(self) -> None:
        """Cancel the requests that are waiting for data."""
        self.abort()


class _Socket:
    def __init__(self, protocol: str, permit: Callable[[], None], longest: int) -> None:
        self.protocol = protocol
        self._permit = permit
        self._longest = longest
        self._sent: asyncio.Queue[bytes] = asyncio.Queue(_MOST_MESSAGES)
        self._coming: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_MESSAGES)
        self._is_over = self._has_ended = False

    async def send_bytes(self, data: bytes) -> None:
        self._permit()
        if self._is_over:
            raise ConnectionResetError("the control plane has hung up")
        await self._sent.put(data)

    async def receive_message(self) -> bytes | None:
        message = None if self._is_over and self._coming.empty() else await self._coming.get()
        if message is None and not self._has_ended:
            raise ConnectionLost("the connection was aborted")
        if message is not None and len(message) > self._longest:
            raise ProtocolError(f"a message is longer than {self._longest} bytes")
        return message

    # The control plane's side

    async def serve(self, handle: Callable[[_Socket], Awaitable[None]]) -> None:
        with suppress(ConnectionError):
            try:
                await handle(self)
                self._has_ended = True
            finally:
                self._is_over = True
                with suppress(asyncio.QueueFull):  # so that the reader notices the end after the last message
                    self._coming.put_nowait(None)

    async def receive(self) -> bytes:
        return await self._sent.get()

    async def send(self, message: bytes) -> None:
        await self._coming.put(message)


class _Answer:
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
        stream = self._answer.stream
        if stream is not None and hasattr(stream, "aclose"):
            await stream.aclose()
