"""The command `console`: the console of a cluster's manager, in a browser on this machine."""

from __future__ import annotations

import asyncio
import re
import sys
import webbrowser
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, NoReturn

import click
from aiohttp import web
from yarl import URL

from manager.cli.commands import Invocation, pass_invocation
from manager.cli.failure import in_one_line
from manager.kube.config import ClusterConfig
from manager.kube.credentials import Credentials, TokenFile
from manager.kube.errors import ApiError, ConfigError
from manager.kube.tls import Pem, TlsFiles
from manager.kube.transport import Transport
from manager.server.access import claims_of
from manager.server.server import serve
from manager.telemetry.logs import configured
from manager.telemetry.watchdog import Watchdog
from manager.util.address import BindAddress, is_loopback, parse_bind_address
from manager.util.loop import loop_factory, unless
from manager.util.program import Program
from manager_console.web import audience_of
from manager_tools.commands.cluster import (
    cluster_flags,
    connected,
    ended_in_one_line,
    file_flag,
    manager_namespace,
    manager_url,
    text_flag,
)
from manager_tools.console_proxy import AccountToken, Authorization, Installed, Proxy

_COMMAND = "console"
_BEARER = "Bearer "

_PATIENCE = 30.0
"""Seconds for kubectl to forward a port."""

_STOP_WITHIN = 10.0
"""Seconds within which the command ends after a signal."""

_SIGNAL_WITHIN = 0.5
"""Seconds after the end of kubectl within which the signal that ended it arrives here too."""

_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:([0-9]+) ->")

_APART = (
    ("pod", "manager"),
    ("insecure_skip_tls_verify", "manager"),
    ("insecure_skip_tls_verify", "manager_ca_file"),
    ("service_account", "manager_token_file"),
)


@dataclass(frozen=True, slots=True)
class ConsoleArguments:
    """The arguments of `console`."""

    namespace: str
    name_prefix: str
    kubeconfig: str | None
    context: str | None
    pod: str | None
    port: int
    manager: str | None
    manager_ca_file: str | None
    manager_token_file: str | None
    service_account: tuple[str, str] | None
    insecure_skip_tls_verify: bool
    bind_address: BindAddress
    no_browser: bool


def _account(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ValueError("NAMESPACE/NAME is expected")
    return namespace, name


def _https(text: str) -> str:
    try:
        url = manager_url(text)
    except ValueError:
        url = ""
    if not url.startswith("https:"):
        raise ValueError("https://HOST:PORT is expected")
    return url


def _loopback(text: str) -> BindAddress:
    address = parse_bind_address(text)
    if address is None or not is_loopback(address.host):
        raise ValueError("an address of this machine alone is expected, such as 127.0.0.1:8083")
    return address


@click.command
@text_flag("-n", "--namespace", default="PROGRAM-system", text="namespace of the manager")
@text_flag(
    "--name-prefix",
    metavar="TEXT",
    default="PROGRAM-",
    text="prefix of the names of the manager's objects",
)
@text_flag("--pod", default="the pod that holds the lease", text="pod of the manager")
@click.option("--port", type=click.IntRange(1, 65535), default=8082, help="port of the console in the pod")
@cluster_flags
@click.option(
    "--manager",
    type=_https,
    metavar="URL",
    help="connect to the console at this address instead of to a pod: https://HOST:PORT",
)
@file_flag(
    "--manager-ca-file",
    text="CA certificate (PEM) for the console, if the manager runs with --metrics-cert-path",
)
@click.option(
    "--insecure-skip-tls-verify",
    is_flag=True,
    help="do not verify the console's certificate: any machine in between can read the traffic",
)
@file_flag(
    "--manager-token-file",
    text="send the bearer token in this file, not the kubeconfig's token (see kubectl create token)",
)
@click.option(
    "--service-account",
    type=_account,
    metavar="NAMESPACE/NAME",
    help="act as this service account, with tokens that are valid for the console only",
)
@click.option(
    "--bind-address",
    type=_loopback,
    metavar="ADDRESS",
    default="127.0.0.1:0",
    help="listen on this address for a browser on this machine; port 0 selects a free port",
)
@click.option("--no-browser", is_flag=True, help="open no browser; the address is always printed")
@pass_invocation
def console(invocation: Invocation, /, **flags: Any) -> None:
    """Open the console of a manager in a cluster in a browser on this machine, until interrupted.

    By default, kubectl forwards a port to the pod that holds the manager's lease. The pod must run as the
    manager's account. Its certificate must be signed by the CA in the manager's webhook configurations.

    Every request has a token. The console shows the objects that the token's user may get, and changes those
    that the user may update. With --service-account, or for a service account that may create its own tokens,
    the token is valid for the console only. Otherwise the manager's pod receives your token or the one in
    --manager-token-file, and people who control that pod can use all of the token's rights.

    The printed address contains a key that works once, so only one browser gets these rights.
    """
    for one, other in _APART:
        if flags[one] and flags[other]:
            pair = (f"--{each.replace('_', '-')}" for each in (one, other))
            raise click.UsageError(f"{' and '.join(pair)} cannot be given together")
    program = invocation.program
    flags["namespace"] = flags["namespace"] or manager_namespace(program)
    flags["name_prefix"] = flags["name_prefix"] or program.prefix
    with (
        configured(level="error") as lines,
        Watchdog(stop_within=_STOP_WITHIN, before_exit=lines.flush) as watchdog,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
        ended_in_one_line(),
    ):
        runner.run(_until_stopped(program, ConsoleArguments(**flags), watchdog))


async def _until_stopped(program: Program, arguments: ConsoleArguments, watchdog: Watchdog) -> None:
    with watchdog.stop_on_signals() as stop:
        await unless(stop, _show(program, arguments))


async def _show(program: Program, arguments: ConsoleArguments) -> None:
    async with AsyncExitStack() as stack:
        transport, config = await stack.enter_async_context(
            connected(program, _COMMAND, kubeconfig=arguments.kubeconfig, context=arguments.context)
        )
        authorization, is_own = await _authorization(program, arguments, transport, config)
        ca, named = arguments.manager_ca_file, None
        tls = TlsFiles(None if ca is None else Pem("--manager-ca-file", path=Path(ca)))
        if arguments.manager is None:
            installed = Installed(program, arguments.namespace, arguments.name_prefix)
            target = f"pod/{await installed.pod(transport, arguments.pod)}"
            if arguments.insecure_skip_tls_verify:
                tls = TlsFiles(verify=False)
            elif ca is not None:
                named = installed.metrics_host
            else:
                named, tls = await _trust(installed, transport)
            port, lines = await stack.enter_async_context(_forwarded(arguments, target))
            manager = URL(f"https://127.0.0.1:{port}")
        else:
            target, lines, manager = arguments.manager, None, URL(arguments.manager)
        proxy = Proxy(manager, authorization, await asyncio.to_thread(tls.build), named=named)
        stack.push_async_callback(proxy.aclose)
        routes = [add(path, page) for path, page in proxy.pages().items() for add in (web.get, web.post)]
        serving = serve("the console", arguments.bind_address, routes, flag="--bind-address")
        own = proxy.address(f"{(await stack.enter_async_context(serving)).address}")
        sys.stdout.write(f"The console of {target}, until interrupted: {own}\n")
        if is_own:
            sys.stdout.write(
                "The manager gets your token; with --service-account it gets a token for the console only.\n"
            )
        sys.stdout.flush()
        if not arguments.no_browser:
            # Some browsers keep running until the user closes the window; this command does not wait for
            # that.
            leads = stack.enter_context(_page_that_leads_to(own))
            Thread(target=webbrowser.open, args=(leads.as_uri(),), daemon=True).start()
        await (asyncio.Event().wait() if lines is None else _end_of(lines, target))


@contextmanager
def _page_that_leads_to(address: str) -> Iterator[Path]:
    """Write a page that redirects to `address`, so that the browser's command line need not contain it."""
    with TemporaryDirectory(prefix="console-", ignore_cleanup_errors=True) as folder:
        page = Path(folder) / "console.html"
        page.touch(mode=0o600)
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">\n')
        yield page


async def _authorization(
    program: Program, arguments: ConsoleArguments, transport: Transport, config: ClusterConfig
) -> tuple[Authorization, bool]:
    """Return the Authorization header, and whether its token is valid for more than the console."""
    audience = audience_of(program)
    credentials: Credentials
    if arguments.service_account is not None:
        credentials = AccountToken(transport, *arguments.service_account, audience)
    elif arguments.manager_token_file is not None:
        credentials = TokenFile(Path(arguments.manager_token_file), label="--manager-token-file")
    else:
        header = await _own(config, None)
        match claims_of(_token_of(header)).sub.split(":"):
            case ["system", "serviceaccount", namespace, name]:
                credentials = AccountToken(transport, namespace, name, audience)
            case _:
                return partial(_own, config), True
        try:
            await credentials.current()
        except ConfigError:  # few users may create tokens for themselves
            return partial(_own, config), True

    async def ask(rejected: str | None) -> str:
        return (await credentials.current(rejected=rejected)).header or ""

    return ask, not claims_of(_token_of(await ask(None))).are_for(audience)


def _token_of(header: str) -> str:
    return header.removeprefix(_BEARER)


async def _own(config: ClusterConfig, rejected: str | None) -> str:
    header = (await config.current_credentials(rejected=rejected)).header or ""
    if not header.startswith(_BEARER):
        raise ConfigError(
            f"{config.source}: the user has no token, which the console requires: set "
            "--service-account or --manager-token-file"
        )
    return header


async def _trust(installed: Installed, transport: Transport) -> tuple[str, TlsFiles]:
    try:
        named, bundle = await installed.trust(transport)
    except (ApiError, ConfigError) as error:
        raise click.ClickException(
            f"cannot find the CA of the console's certificate: {in_one_line(error)}; "
            "set --manager-ca-file or --insecure-skip-tls-verify"
        ) from error
    return named, TlsFiles(Pem("the CA bundle of the manager's webhooks", data=bundle))


@asynccontextmanager
async def _forwarded(
    arguments: ConsoleArguments, target: str
) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
    flags = [
        *([f"--kubeconfig={arguments.kubeconfig}"] if arguments.kubeconfig else []),
        *([f"--context={arguments.context}"] if arguments.context else []),
        f"--namespace={arguments.namespace}",
    ]
    command = ("kubectl", *flags, "port-forward", "--address=127.0.0.1", target, f":{arguments.port}")
    try:
        kubectl = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise click.ClickException(f"kubectl, which forwards the port, cannot be run: {error}") from error
    assert kubectl.stdout is not None
    try:
        yield await _forwarded_port(kubectl.stdout, target), kubectl.stdout
    finally:
        with suppress(ProcessLookupError):
            kubectl.terminate()
        await kubectl.wait()


async def _forwarded_port(lines: asyncio.StreamReader, target: str) -> int:
    said = f"nothing within {_PATIENCE:g} s"
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            async for line in lines:
                said = line.decode(errors="replace").strip() or said
                if found := _FORWARDING.search(said):
                    return int(found[1])
    raise click.ClickException(f"kubectl does not forward to {target}; it says: {said}")


async def _end_of(lines: asyncio.StreamReader, target: str) -> NoReturn:
    said = "nothing"
    async for line in lines:
        said = line.decode(errors="replace").strip() or said
    # Ctrl-C ends kubectl too, and this command may notice kubectl's end before the signal.
    await asyncio.sleep(_SIGNAL_WITHIN)
    raise click.ClickException(f"kubectl has stopped forwarding to {target}; it says: {said}")
