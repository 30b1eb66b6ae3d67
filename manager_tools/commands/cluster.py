"""Common parts of several commands: flags for a cluster, a connection to it, and names of kinds."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from manager.api import Resource, crd_options, is_crd
from manager.cli.failure import cause_of, in_one_line, is_expected, server_version
from manager.kube.config import ClusterConfig, load_config
from manager.kube.http_wire import HttpWire
from manager.kube.transport import Transport
from manager.settings import parse_text
from manager.telemetry.metrics import Metrics
from manager.util.address import is_loopback
from manager.util.program import Program
from manager.util.small_file import read_small_file

F = TypeVar("F", bound=Callable[..., Any])


def text_flag(*names: str, text: str, default: str | None = None, metavar: str = "NAME") -> Callable[[F], F]:
    """Declare a flag with a text value; the help shows `default` as the value of a missing flag."""
    return click.option(*names, type=parse_text, metavar=metavar, show_default=default, help=text)


def file_flag(*names: str, text: str, default: str | None = None, **more: Any) -> Callable[[F], F]:
    """Declare a flag for a file name, which shells complete; the help shows `default` as its default."""
    complete = click.Path().shell_complete
    return click.option(
        *names,
        type=parse_text,
        metavar="FILE",
        shell_complete=complete,
        show_default=default,
        help=text,
        **more,
    )


def cluster_flags(command: F) -> F:
    """Add the flags `--kubeconfig` and `--context` to a command."""
    kubeconfig = file_flag(
        "--kubeconfig", default="as for kubectl, or the pod's own", text="kubeconfig of the cluster"
    )
    context = text_flag("--context", default="the current context", text="context of the kubeconfig")
    return kubeconfig(context(command))


def manager_url(text: str) -> str:
    """Parse the URL of a manager's console, or "none". Raises `ValueError` for an invalid URL."""
    if text == "none":
        return text
    try:
        url = urlsplit(text)
        usable = url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname or ""))
        whole = usable and url.hostname and url.port != 0 and url.path in ("", "/") and not url.query
    except ValueError:
        whole = False
    if not whole:
        raise ValueError("https://HOST:PORT, http://127.0.0.1:PORT or none is expected")
    return text.rstrip("/")


def manager_namespace(program: Program) -> str:
    """Return the namespace in which a manager is installed by default."""
    return f"{program.name}-system"


@asynccontextmanager
async def connected(
    program: Program, command: str, *, kubeconfig: str | None, context: str | None
) -> AsyncIterator[tuple[Transport, ClusterConfig]]:
    """Connect one command to the API server; yield the transport and the configuration of the cluster.

    Raises `ConfigError` and `ServerUnusable`.
    """
    config = await load_config(kubeconfig=kubeconfig, context=context, environ=os.environ)
    agent = f"{program.agent} {command}"
    transport = Transport(HttpWire(config), metrics=Metrics(), rng=random.Random(), user_agent=agent)
    try:
        await server_version(transport, config)
        yield transport, config
    finally:
        await transport.aclose()


def read_input(file: str, longest: int) -> bytes:
    """Read a file, or stdin for "-". Raises OSError if it cannot be read or has more than `longest` bytes."""
    if file != "-":
        return read_small_file(file, longest=longest)
    raw = sys.stdin.buffer.read(longest + 1)
    if len(raw) > longest:
        raise OSError(0, f"it is longer than {longest >> 20} MiB")
    return raw


@contextmanager
def ended_in_one_line() -> Iterator[None]:
    """Show an expected error as one line: replace it by a `ClickException` with its message."""
    try:
        yield
    except Exception as error:
        cause = cause_of(error)
        if isinstance(cause, BrokenPipeError):
            raise cause from error  # the program that reads our output has ended
        if is_expected(cause):
            raise click.ClickException(in_one_line(cause)) from error
        raise


class UnknownKind(click.UsageError):
    """An error: no kind has the given name."""


def kind_named(name: str, kinds: Sequence[type[Resource]]) -> type[Resource]:
    """Find a kind by its name, plural, short name or full name, in upper or lower case.

    Raises `UnknownKind` if none of `kinds` has the name, and `UsageError` if several kinds have the name.
    """
    found: dict[str, type[Resource]] = {}
    for kind in kinds:
        full = f"{kind.plural}.{kind.gvk.group}"
        options = crd_options(kind)
        also = (options.singular or kind.gvk.kind, *options.short_names) if is_crd(kind) else ()
        if name.lower() in {each.lower() for each in (full, kind.gvk.kind, kind.plural, *also)}:
            found[full] = kind
    if len(found) > 1:
        raise click.UsageError(f"{name!r} is ambiguous: {', '.join(found)}")
    for kind in found.values():
        return kind
    ours = ", ".join(dict.fromkeys(kind.gvk.kind for kind in kinds))
    raise UnknownKind(f"unknown kind {name!r}; known kinds are {ours}")
