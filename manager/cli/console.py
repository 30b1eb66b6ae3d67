"""The command `console`: the console of a cluster's manager, in a browser on this machine."""

from __future__ import annotations

import asyncio
import re
import sys
import webbrowser
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import NoReturn

from yarl import URL

from manager.address import BindAddress, is_loopback, parse_bind_address
from manager.cli.arguments import ArgumentParser, CannotRun, UsageError, whole
from manager.cli.explain import manager_url
from manager.cli.failure import connected, ended_in_one_line, in_one_line
from manager.cli.signals import StopSignals
from manager.console.proxy import Authorization, Proxy
from manager.console.reaching import AccountToken, Installed, audience_of
from manager.kube.config import ClusterConfig
from manager.kube.credentials import Credentials, TokenFile
from manager.kube.errors import ApiError, ConfigError
from manager.kube.tls import Pem, TlsFiles
from manager.kube.transport import Transport
from manager.logs import configured
from manager.loop import loop_factory
from manager.operator import AnyOperator
from manager.program import Program
from manager.server.reviews import account_of, is_for
from manager.server.server import routes_of, serve
from manager.watchdog import Watchdog

_COMMAND = "console"
_NO_BROWSER = "--no-browser"
_BEARER = "Bearer "
_PORT = 8082
_FREE_PORT = BindAddress("127.0.0.1", 0)

_PATIENCE = 30.0
"""Seconds for kubectl to forward a port."""

_STOP_WITHIN = 10.0
"""Seconds from a signal in which it ends."""

_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:([0-9]+) ->")

_DESCRIPTION = """\
Open the console of a manager that runs in a cluster in a browser on this machine, until interrupted.

kubectl forwards a port to the pod that holds the manager's lease, or with --manager the console is asked
where it is. The pod has to run as the manager's account, and its certificate has to be vouched for as the API
server demands it of the manager's webhooks.

Every request has a token: the console shows what its user may get, and does what its user may update. With
--service-account it is one of that account, and good for the console alone. Else it is that of your
kubeconfig, or of --manager-token-file: the manager's pod gets it, and who controls that pod can do all that
you may.

Only who opens the address that is printed has these rights, by a key that is in it and works once."""


@dataclass(frozen=True, slots=True)
class ConsoleArguments:
    """What was asked for."""

    namespace: str
    name_prefix: str
    kubeconfig: str | None = None
    context: str | None = None
    pod: str | None = None
    port: int = _PORT
    manager: str | None = None
    manager_ca_file: str | None = None
    manager_token_file: str | None = None
    service_account: tuple[str, str] | None = None
    insecure_skip_tls_verify: bool = False
    bind_address: BindAddress = _FREE_PORT
    no_browser: bool = False


def console(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Show the console until a signal comes; returns the exit code.

    Raises `UsageError` for a wrong argument, and `CannotRun` when there is no way to the console.
    """
    del operators
    arguments = parse_console_arguments(argv, program)
    with (
        configured(level="error") as lines,
        Watchdog(stop_within=_STOP_WITHIN, before_exit=lines.flush) as watchdog,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
        ended_in_one_line(_COMMAND),
    ):
        runner.run(_until_stopped(program, arguments, watchdog))
    return 0


def parse_console_arguments(argv: Sequence[str], program: Program) -> ConsoleArguments:
    """Read the arguments. Raises `UsageError` for any that is wrong."""
    usage = f"{program.name} {_COMMAND} [-n NAMESPACE] [FLAGS]"
    parser = ArgumentParser(_COMMAND, usage, _DESCRIPTION)
    add = parser.value
    namespace = f"{program.name}-system"
    add("-n", "--namespace", metavar="NAME", text=f"the manager's namespace (default {namespace})")
    prefixed = f"what the names of the manager's objects begin with (default {program.prefix})"
    add("--name-prefix", metavar="TEXT", text=prefixed)
    add("--pod", metavar="NAME", text="the manager's pod (default: the one that holds the lease)")
    add("--port", metavar="N", parse=whole(1, 65535), text=f"the console's port in the pod (default {_PORT})")
    parser.cluster()
    where = "where the console is, in place of a pod: https://HOST:PORT"
    add("--manager", metavar="URL", parse=_https, text=where)
    authority = "authority of the console's certificate, in PEM, as where it has --metrics-cert-path"
    add("--manager-ca-file", metavar="FILE", text=authority)
    parser.switch(
        "--insecure-skip-tls-verify", "take any certificate of the pod, and whoever is on the way to it"
    )
    token = "bearer token for the console, in place of the kubeconfig's, as of kubectl create token"  # noqa: S105
    add("--manager-token-file", metavar="FILE", text=token)
    account = "ask as this service account, by tokens that are good for the console alone"
    add("--service-account", metavar="NAMESPACE/NAME", parse=_account, text=account)
    own = f"where a browser on this machine finds it (default {_FREE_PORT}, which is a free port)"
    add("--bind-address", metavar="ADDRESS", parse=_loopback, text=own)
    parser.switch(_NO_BROWSER, "open no browser: the address is printed anyway")
    given = vars(parser.read(argv))
    for one, other in _APART:
        if one in given and other in given:
            flags = (f"--{each.replace('_', '-')}" for each in (one, other))
            raise UsageError(f"{_COMMAND}: {' and '.join(flags)} cannot be given together")
    return ConsoleArguments(**{"namespace": namespace, "name_prefix": program.prefix, **given})


_APART = (
    ("pod", "manager"),
    ("insecure_skip_tls_verify", "manager"),
    ("insecure_skip_tls_verify", "manager_ca_file"),
    ("service_account", "manager_token_file"),
)


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


async def _until_stopped(program: Program, arguments: ConsoleArguments, watchdog: Watchdog) -> None:
    watchdog.watch(asyncio.get_running_loop())
    with StopSignals(watchdog) as signals:
        await signals.unless_stopped(_show(program, arguments))


async def _show(program: Program, arguments: ConsoleArguments) -> None:
    """Raises what there is to say when it comes to an end."""
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
        routes = routes_of(proxy.pages(), proxy.pages())
        serving = serve("the console", arguments.bind_address, routes, flag="--bind-address")
        own = proxy.address(f"{(await stack.enter_async_context(serving)).address}")
        sys.stdout.write(f"The console of {target}, until interrupted: {own}\n")
        if is_own:
            sys.stdout.write("It gets your token; --service-account gives it one for the console alone.\n")
        sys.stdout.flush()
        if not arguments.no_browser:
            # Some browsers end only when they are closed, which this does not wait for.
            leads = stack.enter_context(_page_that_leads_to(own))
            Thread(target=webbrowser.open, args=(leads.as_uri(),), daemon=True).start()
        await (asyncio.Event().wait() if lines is None else _end_of(lines, target))


@contextmanager
def _page_that_leads_to(address: str) -> Iterator[Path]:
    """A file for this user alone: the command line of a browser can be seen by everybody on the machine."""
    with TemporaryDirectory(prefix="console-", ignore_cleanup_errors=True) as folder:
        page = Path(folder) / "console.html"
        page.touch(mode=0o600)
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">\n')
        yield page


async def _authorization(
    program: Program, arguments: ConsoleArguments, transport: Transport, config: ClusterConfig
) -> tuple[Authorization, bool]:
    """What is sent, and whether it is good for more than the console."""
    audience = audience_of(program)
    credentials: Credentials
    if arguments.service_account is not None:
        credentials = AccountToken(transport, *arguments.service_account, audience)
    elif arguments.manager_token_file is not None:
        credentials = TokenFile(Path(arguments.manager_token_file), label="--manager-token-file")
    else:
        header = await _own(config, None)
        if (account := account_of(_token_of(header))) is None:
            return partial(_own, config), True
        credentials = AccountToken(transport, *account, audience)
        try:
            await credentials.current()
        except ConfigError:  # few may make tokens of themselves
            return partial(_own, config), True

    async def ask(rejected: str | None) -> str:
        return (await credentials.current(rejected=rejected)).header or ""

    return ask, not is_for(_token_of(await ask(None)), audience)


def _token_of(header: str) -> str:
    return header.removeprefix(_BEARER)


async def _own(config: ClusterConfig, rejected: str | None) -> str:
    header = await config.authorization(rejected=rejected) or ""
    if not header.startswith(_BEARER):
        raise ConfigError(
            f"{config.source}: the user has no token, and the console takes nothing else: give one with "
            "--service-account or --manager-token-file"
        )
    return header


async def _trust(installed: Installed, transport: Transport) -> tuple[str, TlsFiles]:
    try:
        named, bundle = await installed.trust(transport)
    except (ApiError, ConfigError) as error:
        raise CannotRun(
            f"{_COMMAND}: nobody says whom the console's certificate has to be of: {in_one_line(error)}; "
            "--manager-ca-file does, and --insecure-skip-tls-verify takes any"
        ) from error
    return named, TlsFiles(Pem("the CA bundle of the manager's webhooks", data=bundle))


@asynccontextmanager
async def _forwarded(
    arguments: ConsoleArguments, target: str
) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
    """A port of this machine that leads there, and what kubectl says on, until it forwards no more."""
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
        raise CannotRun(f"{_COMMAND}: kubectl, which forwards the port, cannot be run: {error}") from error
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
    raise CannotRun(f"{_COMMAND}: kubectl does not forward to {target}; it says: {said}")


async def _end_of(lines: asyncio.StreamReader, target: str) -> NoReturn:
    said = "nothing"
    async for line in lines:
        said = line.decode(errors="replace").strip() or said
    raise CannotRun(f"{_COMMAND}: kubectl forwards to {target} no more; it says: {said}")
