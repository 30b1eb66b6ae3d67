"""The creation of the manager according to the settings."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manager.cli.failure import ServerWait
from manager.cli.settings import Settings
from manager.cli.webhooks import add_webhooks
from manager.controller import ControllerOptions
from manager.election.coordinator import Coordinator
from manager.election.lease import ElectionConfig, host_clock, new_identity
from manager.kube.config import load_config
from manager.kube.errors import KubeError, NotFound
from manager.kube.http_wire import HttpWire
from manager.kube.transport import Transport
from manager.operator import AnyOperator, add_controller
from manager.operator.definitions import Definitions
from manager.process.manager import Lifespan, Manager, Runnable
from manager.server.access import Access
from manager.settings import Setting, SettingValues
from manager.telemetry.logs import get_logger
from manager.telemetry.metrics import Metrics
from manager.telemetry.open_files import report_exhaustion
from manager.telemetry.watchdog import Watchdog
from manager.tls.served import CertificateFiles, CertificateSource, SelfSigned, ServedCertificate
from manager.util.address import BindAddress, in_pod, is_loopback
from manager.util.loop import observe_lag
from manager.util.memory import settle
from manager.util.program import Program

if TYPE_CHECKING:
    from manager.server.server import Routes, Server

_log = get_logger("start")

_CONSOLE = "operator_manager.console"
"""The group of the entry point that names the console's function for routes."""

_LOOK_TIMEOUT = 5.0
"""Seconds for checking a namespace, while the start waits."""

_LEASE_CONNECTIONS = 4
"""The number of connections for leases, besides one for each shard: spare ones replace broken ones."""


@asynccontextmanager
async def assembled(
    program: Program,
    settings: Settings,
    operators: Sequence[AnyOperator],
    declared: SettingValues,
    known: Sequence[AnyOperator] = (),
    watchdog: Watchdog | None = None,
) -> AsyncIterator[Manager]:
    """Create a connected manager of `program` with the controllers of `operators`; close it at the end.

    `declared` has the values of the operators' settings. The manager serves the webhooks of all in `known`.

    It waits for an API server that does not answer yet, and serves health checks and metrics meanwhile.
    Raises `ConfigError` without a usable configuration, and `ServerUnusable` for an unusable server.
    """
    rng = random.Random()
    metrics = Metrics()
    config = await load_config(kubeconfig=settings.kubeconfig, context=settings.context, environ=os.environ)
    transport = Transport(HttpWire(config), metrics=metrics, rng=rng, user_agent=program.agent)
    lane = Transport(
        # Each shard's lease is renewed separately, and with a slow server all renewals may be in progress at
        # once.
        HttpWire(config, connections=_LEASE_CONNECTIONS + settings.shards),
        metrics=metrics,
        rng=rng,
        user_agent=program.agent,
        beside=transport,
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(transport.aclose)
        stack.push_async_callback(lane.aclose)
        identity = new_identity(rng)
        election = ElectionConfig(
            transport=lane,
            namespace=settings.leader_election_namespace or config.namespace or "default",
            name=settings.leader_election_id or program.name,
            identity=identity,
            rng=rng,
            metrics=metrics,
            timing=replace(settings.lease_timing, clock=await asyncio.to_thread(host_clock)),
            watchdog=watchdog or Watchdog(),
        )
        coordinator: Coordinator | None = None
        if settings.shards:
            from manager_shards import OwnedShards, ShardCoordinator  # noqa: PLC0415 - 2 ms, 0.2 MB: --shards alone

            owned = OwnedShards(settings.shards, metrics, grace=settings.graceful_shutdown_timeout)
            coordinator = ShardCoordinator(election, owned)
        elif settings.leader_elect:
            from manager.election.elector import LeaderElector  # noqa: PLC0415 - 0.2 MB: --leader-elect alone

            coordinator = LeaderElector(election)
        manager = Manager(
            transport,
            program=program,
            metrics=metrics,
            rng=rng,
            identity=identity,
            settings=declared,
            namespaces=settings.namespaces,
            coordinator=coordinator,
            watchdog=watchdog,
            graceful_shutdown_timeout=settings.graceful_shutdown_timeout,
            shutdown_delay=settings.shutdown_delay,
        )
        server = ServerWait(transport, config, rng)
        manager.health.readiness.add("start", lambda: server.problem)
        # Serve these first: a port in use ends the process, and probes get answers while it waits.
        metrics_server = await _serve_metrics_and_health(stack, manager, settings, transport)
        kubernetes = await server.version()
        _log.info(
            "starting the manager",
            program=program.name,
            version=program.version,
            server=str(config.server),
            kubernetes=kubernetes,
            identity=identity,
            namespaces=settings.namespaces or "all",
            controllers=[operator.name for operator in operators],
        )
        await asyncio.gather(*(_warn_if_missing(transport, each) for each in settings.namespaces))
        # Serve the console before the operators start: a port in use ends the process.
        keep_console = partial(_keep_console, manager, settings, operators, transport)
        if own := _has_own_certificate(settings):
            await keep_console()
        definitions = Definitions(transport, manager.mapper, metrics, rng)
        manager.health.readiness.add("definitions", definitions.problem, detail=definitions.detail)
        manager.add(Runnable("definitions", definitions.run))
        made = {operator: operator(manager) for operator in dict.fromkeys((*operators, *known))}
        for operator in operators:
            add_controller(made[operator], _options(settings, operator), definitions)
        if metrics_server is not None:
            await metrics_server.add_routes(manager.routes)
        elif manager.routes:
            _log.warning("routes of operators are not served: --metrics-bind-address is 0")
        await add_webhooks(manager, settings, [made[operator] for operator in known], transport, config)
        if not own:
            await keep_console()
        metrics.loop_tasks.set_function(lambda: len(asyncio.all_tasks()))
        manager.add(Runnable("loop-lag", lambda: observe_lag(metrics.loop_lag)))
        manager.add(Runnable("open-files", report_exhaustion))
        manager.add(Runnable("settle", lambda: _settle_when_synced(manager)))
        server.problem = None
        yield manager


async def _warn_if_missing(transport: Transport, namespace: str) -> None:
    """Log a warning if a namespace does not exist, provided that this client may read it."""
    try:
        await transport.request("GET", f"/api/v1/namespaces/{namespace}", deadline=_LOOK_TIMEOUT)
    except NotFound:
        _log.warning(
            "a namespace of --namespaces does not exist; the manager watches it as soon as it exists",
            namespace=namespace,
        )
    except KubeError as error:
        _log.debug("cannot check whether a namespace exists", namespace=namespace, error=str(error))


def _options(settings: Settings, operator: AnyOperator) -> ControllerOptions:
    given: dict[str, Any] = {}
    if settings.is_given(Settings.resync_period):
        given["resync_period"] = settings.resync_period or None
    if (limit := settings.concurrency.get(operator.name)) is not None:
        given["max_concurrent_reconciles"] = limit
    if (limit := settings.max_concurrent_rollouts.get(operator.name)) is not None:
        given["max_concurrent_rollouts"] = limit or None
    return replace(operator.options, **given)


async def _serve_metrics_and_health(
    stack: AsyncExitStack, manager: Manager, settings: Settings, transport: Transport
) -> Server | None:
    """Serve the pages for monitoring until the end of `stack`; return the server of `/metrics`."""
    from manager.server.pages import health_routes, metrics_routes  # noqa: PLC0415 - aiohttp.web: 75 ms, 9 MB

    certificate = access = None
    if settings.metrics_secure:
        certificate = ServedCertificate(_metrics_certificate(settings))
        access = Access(transport, rng=manager.rng)
    where, routes = Settings.metrics_bind_address, metrics_routes(manager.metrics)
    metrics = await stack.enter_async_context(
        _served("metrics", manager, settings, where, routes, certificate, access)
    )
    where, routes = Settings.health_probe_bind_address, health_routes(manager.health)
    await stack.enter_async_context(_served("health", manager, settings, where, routes))
    return metrics


def _has_own_certificate(settings: Settings) -> bool:
    """Return whether the console has a certificate of its own, or is reachable only on this machine."""
    return settings.metrics_cert_path is not None or _is_local(settings)


def _is_local(settings: Settings) -> bool:
    address = settings.console_bind_address
    return address is not None and is_loopback(address.host) and not in_pod(os.environ)


async def _keep_console(
    manager: Manager,
    settings: Settings,
    operators: Sequence[AnyOperator],
    transport: Transport,
) -> None:
    address = settings.console_bind_address
    if address is None:
        return
    console_routes = await asyncio.to_thread(_installed_console)
    if console_routes is None:
        _log.warning("the console is not served: no installed package provides it")
        return
    from manager.server.server import serve  # noqa: PLC0415 - aiohttp.web: 75 ms, 9 MB

    local = _is_local(settings)
    routes = console_routes(
        manager,
        transport,
        operators,
        is_local=local,
        has_debug_pages=settings.debug_pages,
    )
    webhooks = manager.certificates.get("webhooks")
    if webhooks is None or _has_own_certificate(settings):
        certificate = None if local else ServedCertificate(_metrics_certificate(settings))
        where = Settings.console_bind_address
        manager.add(Lifespan(lambda: _served("console", manager, settings, where, routes, certificate)))
        return
    # Only for this certificate can users learn from the API server which CA has signed it.
    served = manager.certificates["console"] = ServedCertificate(webhooks.source)

    async def run() -> None:
        await served.obtained()
        async with serve("console", address, routes, certificate=served, flag="--console-bind-address"):
            await asyncio.Event().wait()

    manager.add(Runnable("console-pages", run))


def _installed_console() -> Callable[..., Routes] | None:
    """Import the console from the package whose entry point names `console_routes`."""
    return next((entry.load() for entry in entry_points(group=_CONSOLE)), None)


def _metrics_certificate(settings: Settings) -> CertificateSource:
    if settings.metrics_cert_path is None:
        return SelfSigned()
    folder = Path(settings.metrics_cert_path)
    return CertificateFiles(
        folder / settings.metrics_cert_name, folder / settings.metrics_cert_key, flag="--metrics-cert-path"
    )


def _served(
    name: str,
    manager: Manager,
    settings: Settings,
    where: Setting[BindAddress | None],
    routes: Routes,
    certificate: ServedCertificate | None = None,
    access: Access | None = None,
) -> AbstractAsyncContextManager[Server | None]:
    """Serve routes at the address in the setting `where`, unless that setting turns the server off."""
    from manager.server.server import serve  # noqa: PLC0415 - aiohttp.web: 75 ms, 9 MB

    address = where.__get__(settings, Settings)
    if address is None:
        return nullcontext()
    if certificate is not None:
        manager.certificates[name] = certificate
    # A second manager on a developer's machine does not need the default port. In a pod, probes do.
    any_port = not settings.is_given(where) and not in_pod(os.environ)
    flag = f"--{where.name}"
    return serve(name, address, routes, certificate=certificate, access=access, flag=flag, any_port=any_port)


async def _settle_when_synced(manager: Manager) -> None:
    await manager.cache.wait_synced()
    settle()
