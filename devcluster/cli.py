"""The command `devcluster`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import ipaddress
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from devcluster.admission_plugins import UnknownPlugin, check_plugins
from devcluster.arguments import CommandLine
from devcluster.loop import new_event_loop

if TYPE_CHECKING:
    from devcluster.cluster import DevCluster

__all__ = ["main"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_COLLECT_AFTER = (10_000, 20, 20)
"""The thresholds of the garbage collector; requests leave hardly any reference cycles."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?\Z")

GATES = ("ShardedListAndWatch",)
"""Feature gates that can be turned on."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; returns the exit code: 0 after a clean stop, 1 on failure, 2 on a wrong flag."""
    options = _commands().read(arguments)
    gc.disable()  # until it has started
    # All other failures are reported in one line; Python users get the traceback.
    from devcluster.local_files import ForeignFile  # noqa: PLC0415 -- after the flags are known to be right
    from devcluster.storage.errors import JournalFailed  # noqa: PLC0415

    try:
        _run(options)
    except ForeignFile as error:
        return _fail(f"--kubeconfig: {error}", 2)
    except JournalFailed as error:
        return _fail(f"--data: {error}", 1)
    except OSError as error:
        return _fail(_explain(error, options), 1)
    finally:
        gc.enable()
    return 0


def _commands() -> CommandLine:
    commands = CommandLine(
        "devcluster", "A Kubernetes control plane in one Python process.", distribution="operator-manager"
    )
    up = commands.add("up", "run one until interrupted")
    up.add_argument(
        "--bind-address",
        type=_address,
        default="127.0.0.1",
        metavar="IP",
        help="where to listen (default %(default)s: this machine only)",
    )
    up.add_argument("--port", type=_port, default=0, help="the port; 0, the default, takes one that is free")
    up.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="where to write the administrator's kubeconfig (default: a temporary file)",
    )
    up.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="keep the objects in this file, keys and tokens in FILE.files, so that they survive a restart",
    )
    up.add_argument(
        "--no-controllers", action="store_true", help="the API server only: no workload comes to life"
    )
    up.add_argument(
        "--pod-ready-delay",
        type=_duration,
        default=1.0,
        metavar="DURATION",
        help="how long a pod takes to become ready, such as 500ms or 2s (default 1s)",
    )
    up.add_argument(
        "--history",
        type=_count,
        metavar="N",
        help="how many changes watches and lists can go back (default 20000)",
    )
    up.add_argument(
        "--min-request-timeout",
        type=_duration,
        default=1800.0,
        metavar="DURATION",
        help="a watch that asks for no end lasts between one and two times as long (default 30m)",
    )
    up.add_argument(
        "--enable-admission-plugins",
        type=_plugins,
        default=(),
        metavar="NAMES",
        help="admission plugins beside the usual ones: OwnerReferencesPermissionEnforcement",
    )
    up.add_argument(
        "--feature-gates",
        type=_gates,
        default=(),
        metavar="NAME=true,...",
        help=f"what is off by default, or not yet on: {', '.join(GATES)}",
    )
    up.offer("--enable-admission-plugins", ["OwnerReferencesPermissionEnforcement"])
    up.offer("--feature-gates", [f"{gate}=true" for gate in GATES])
    return commands


def _run(options: argparse.Namespace) -> None:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_up(options))


async def _up(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Signals are handled from the start, so that an interrupted start ends cleanly too.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    from devcluster.cluster import DevCluster  # noqa: PLC0415 -- the bulk of the start

    cluster = DevCluster(
        address=options.bind_address,
        port=options.port,
        data=options.data,
        kubeconfig=options.kubeconfig,
        controllers=not options.no_controllers,
        pod_ready_delay=options.pod_ready_delay,
        history=options.history,
        min_request_timeout=options.min_request_timeout,
        admission_plugins=options.enable_admission_plugins,
        feature_gates=options.feature_gates,
    )
    async with cluster:
        # Whatever the start has made is there to stay, and need not be looked through again.
        gc.freeze()
        gc.set_threshold(*_COLLECT_AFTER)
        gc.enable()
        _announce(cluster)
        await stop.wait()
        _say("devcluster: stopping")


def _announce(cluster: DevCluster) -> None:
    _say(f"devcluster: serving Kubernetes at {cluster.server_url}")
    if not ipaddress.ip_address(cluster.address).is_loopback:
        _say(f"devcluster: whoever reaches {cluster.address} and has a token can use it")
    _say(f"export KUBECONFIG={cluster.kubeconfig_path}")
    _say("devcluster: ready; Ctrl-C stops it")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"devcluster: {message}\n")
    return code


def _explain(error: OSError, options: argparse.Namespace) -> str:
    """Return the error's message with the flag that caused it."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.filename is None:
        return (
            f"--bind-address, --port: cannot listen on {options.bind_address} port {options.port}: {reason}"
        )
    for flag, path in (("--data", options.data), ("--kubeconfig", options.kubeconfig)):
        # Files are written under a temporary name in the same directory first.
        if path is not None and Path(error.filename).parent == path.parent:
            return f"{flag}: {path}: {reason}"
    return f"{error.filename}: {reason}"


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        _refuse(f"{text!r} is not an IP address")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:  # noqa: PLR2004 -- the limit of TCP
        _refuse(f"{text!r} is not a port: a number from 0 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal():
        _refuse(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def _plugins(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    try:
        check_plugins(names)
    except UnknownPlugin as error:
        _refuse(str(error))
    return names


def _gates(text: str) -> tuple[str, ...]:
    given = dict(each.strip().partition("=")[::2] for each in text.split(","))
    for name, value in given.items():
        if name not in GATES:
            _refuse(f"{name!r} is unknown here; it has {', '.join(GATES)}")
        if value not in {"true", "false"}:
            _refuse(f"{name} is true or false, not {value!r}")
    return tuple(name for name, value in given.items() if value == "true")


def _duration(text: str) -> float:
    match = _DURATION.match(text)
    if match is None:
        _refuse(f"{text!r} is not a duration such as 500ms, 2s or 1m")
    return float(match[1]) * _UNITS[match[2] or "s"]


def _refuse(message: str) -> NoReturn:
    raise argparse.ArgumentTypeError(message)
