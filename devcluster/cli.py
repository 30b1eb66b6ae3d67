"""Command line of `devcluster`."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.shell_completion import shell_complete

from devcluster.admission_plugins import OWNER_REFERENCES, check_plugins
from devcluster.loop import new_event_loop
from devcluster.schema.formats import parse_duration

if TYPE_CHECKING:
    from devcluster.cluster import DevCluster

_COLLECT_AFTER = (10_000, 20, 20)
"""The thresholds of the garbage collector; requests leave few reference cycles."""
_FILE = click.Path(path_type=Path)

GATES = ("ShardedListAndWatch",)
"""Feature gates that can be turned on."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command, then exit: with 0 after a clean stop, 1 after a failure, 2 for a wrong flag."""
    commands.main(arguments, prog_name="devcluster")


@click.group(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 110,
        "show_default": True,
    }
)
@click.version_option(package_name="operator-manager", message="%(prog)s %(version)s")
def commands() -> None:
    """Run a Kubernetes control plane in one Python process."""


@commands.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands and flags in a shell."""
    group = context.find_root().command
    shell_complete(group, {}, "devcluster", "_DEVCLUSTER_COMPLETE", f"{shell}_source")


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IP address") from None


def _duration(text: str) -> float:
    nanoseconds = parse_duration(text)
    if nanoseconds is None or nanoseconds < 0:
        raise ValueError(f"{text!r} is not a duration such as 500ms, 2s or 1m30s")
    return nanoseconds / 1e9


def _plugins(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if text)
    check_plugins(names)
    return names


def _gates(text: str) -> tuple[str, ...]:
    given = dict(each.strip().partition("=")[::2] for each in text.split(",") if text)
    for name, value in given.items():
        if name not in GATES:
            raise ValueError(f"unknown feature gate {name!r}; devcluster has {', '.join(GATES)}")
        if value not in {"true", "false"}:
            raise ValueError(f"{name} is true or false, not {value!r}")
    return tuple(name for name, value in given.items() if value == "true")


def _offering(*values: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    return lambda _, __, typed: [each for each in values if each.startswith(typed)]


@commands.command()
@click.option(
    "--bind-address",
    "address",
    type=_address,
    default="127.0.0.1",
    metavar="IP",
    help="address to listen on",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="port; 0 takes a free port")
@click.option(
    "--kubeconfig",
    type=_FILE,
    metavar="FILE",
    show_default="a temporary file",
    help="file to write the administrator's kubeconfig to",
)
@click.option(
    "--data",
    type=_FILE,
    metavar="FILE",
    show_default="none",
    help="keep the objects in this file, keys and tokens in FILE.files, so that they survive a restart",
)
@click.option(
    "--no-controllers",
    "controllers",
    flag_value=False,
    default=True,
    show_default=False,
    help="run only the API server; without controllers, no workload starts",
)
@click.option(
    "--pod-ready-delay",
    type=_duration,
    default="1s",
    metavar="DURATION",
    help="time until a pod becomes ready, such as 500ms or 2s",
)
@click.option(
    "--pod-stop-delay",
    type=_duration,
    default="0s",
    metavar="DURATION",
    help="time until a deleted pod has stopped, at most its grace period",
)
@click.option(
    "--history",
    type=click.IntRange(0),
    metavar="N",
    show_default="20000",
    help="number of past changes that watches and lists of old versions can use",
)
@click.option(
    "--min-request-timeout",
    type=_duration,
    default="30m",
    metavar="DURATION",
    help="minimum duration of a watch without a timeout; the maximum is twice as long",
)
@click.option(
    "--enable-admission-plugins",
    "admission_plugins",
    type=_plugins,
    default="",
    metavar="NAMES",
    shell_complete=_offering(OWNER_REFERENCES),
    show_default="none",
    help=f"additional admission plugins: {OWNER_REFERENCES}",
)
@click.option(
    "--feature-gates",
    type=_gates,
    default="",
    metavar="NAME=true,...",
    shell_complete=_offering(*(f"{gate}=true" for gate in GATES)),
    show_default="none",
    help=f"turn on features that are off by default: {', '.join(GATES)}",
)
def up(**options: Any) -> None:
    """Run a control plane until interrupted."""
    gc.disable()  # until the cluster has started
    # Errors of flags and files are printed as one line: a traceback helps only Python developers.
    from devcluster.local_files import ForeignFile  # noqa: PLC0415 - 45 ms, 15 MB, not for the help
    from devcluster.storage.records import JournalFailed  # noqa: PLC0415 - 6 ms, 2 MB, likewise

    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_up(options))
    except ForeignFile as error:
        _fail(f"--kubeconfig: {error}", 2)
    except JournalFailed as error:
        _fail(f"--data: {error}", 1)
    except OSError as error:
        _fail(_explain(error, options), 1)
    finally:
        gc.enable()


async def _up(options: Mapping[str, Any]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Signals are handled from the start, so that an interrupted start also ends cleanly.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    from devcluster.cluster import DevCluster  # noqa: PLC0415 - 110 ms more, 12 MB

    async with DevCluster(**options) as cluster:
        # Objects that exist after the start live for ever, so the garbage collector can skip them.
        gc.freeze()
        gc.set_threshold(*_COLLECT_AFTER)
        gc.enable()
        _announce(cluster)
        await stop.wait()
        click.echo("devcluster: stopping")


def _announce(cluster: DevCluster) -> None:
    click.echo(f"devcluster: serving Kubernetes at {cluster.server_url}")
    if not ipaddress.ip_address(cluster.address).is_loopback:
        click.echo(f"devcluster: everyone with a token who can reach {cluster.address} can use it")
    click.echo(f"export KUBECONFIG={cluster.kubeconfig_path}")
    click.echo("devcluster: ready; Ctrl-C stops it")


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"devcluster: {message}", err=True)
    raise SystemExit(code)


def _explain(error: OSError, options: Mapping[str, Any]) -> str:
    """Return the message for an OSError, with the flag whose value caused it."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.filename is None:
        return (
            f"--bind-address, --port: cannot listen on {options['address']} port {options['port']}: {reason}"
        )
    for flag, path in (("--data", options["data"]), ("--kubeconfig", options["kubeconfig"])):
        # Files are written under a temporary name in the same directory first.
        if path is not None and Path(error.filename).parent == path.parent:
            return f"{flag}: {path}: {reason}"
    return f"{error.filename}: {reason}"
