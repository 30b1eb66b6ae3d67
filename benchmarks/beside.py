"""Compare the CPU time per new object of several checkouts whose managers run at the same time.

    python -m benchmarks.beside NAME=CHECKOUT... [--objects 300] [--rounds 5]

Each CHECKOUT has its own `.venv` (`make venv`). Its manager reconciles the Memcacheds of one namespace, and
all managers of a round start together, on the same API server. Successive runs differ by 20 % on a machine
whose speed varies; simultaneous runs are slowed down equally. Single rounds still differ by 5 %, so a smaller
difference needs many rounds. Compare ratios only, because simultaneous managers slow each other down.
KUBEBUILDER_ASSETS names the folder with the control plane's programs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.program import ROOT
from benchmarks.sessions.process import wait_quiet
from benchmarks.status_watch import StatusWatch
from benchmarks.table import table
from tests.support.crds import install_crds
from tests.support.daemon import Daemon, DaemonDied
from tests.support.envtest import BARE, EnvtestControlPlane, why_not
from tests.support.memcacheds import memcached, memcached_path

TIMEOUT = 300.0
FIRST = 50
"""The number of objects before the first round, which open connections and warm up the code."""
IDLE = 0.02
"""The largest share of CPU of an idle manager."""


@dataclasses.dataclass(frozen=True, slots=True)
class Managed:
    """A manager that reconciles the objects of its own namespace."""

    name: str
    namespace: str
    process: Daemon


def start(plane: EnvtestControlPlane, name: str, checkout: Path, folder: Path, number: int) -> Managed:
    namespace = f"beside-{number}"
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    command = [
        str(checkout / ".venv" / "bin" / "operator-manager"),
        "run",
        f"--kubeconfig={plane.kubeconfig}",
        f"--namespaces={namespace}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--webhook-bind-address=0",
        "--console-bind-address=0",
        "--controllers=memcached",
        "--log-level=warn",
    ]
    process = Daemon(name, command, log=folder / f"{namespace}.log")
    process.start()
    return Managed(name, namespace, process)


def measure(checkouts: dict[str, Path], objects: int, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in checkouts}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plane = stack.enter_context(EnvtestControlPlane(folder / "plane", parts=BARE, measured=True))
        install_crds(plane)
        watch = stack.enter_context(StatusWatch(plane))
        managed: list[Managed] = []
        for number, (name, checkout) in enumerate(checkouts.items()):
            managed.append(start(plane, name, checkout, folder, number))
            stack.callback(managed[-1].process.stop)
        for number in range(rounds + 1):
            count = objects if number else FIRST
            for each in managed:
                each.process.check()
                if number:
                    each.process.freeze()
                # Names differ between namespaces too, because the watch identifies objects by name.
                names = (f"{each.namespace}-{number}-{index}" for index in range(count))
                plane.api.create_many(memcached_path(each.namespace), map(memcached, names))
            before = [each.process.cpu_seconds() for each in managed]
            for each in managed:
                each.process.thaw()
            for each in managed:
                watch.wait((FIRST + number * objects) * len(managed), each.process, TIMEOUT)
            for each in managed:  # wait until the manager has also sent its Events
                if not wait_quiet(each.process, at_least=0.0, timeout=TIMEOUT, share=IDLE):
                    raise TimeoutError(f"{each.name} was not idle after {TIMEOUT:.0f} s")
            for each, cpu in zip(managed, before, strict=True):
                if number:
                    found[each.name].append(1000 * (each.process.cpu_seconds() - cpu) / count)
            print(f"round {number} of {rounds}" if number else "ready", file=sys.stderr)
    return found


def report(found: dict[str, list[float]]) -> None:
    first = next(iter(found.values()))
    rows = []
    for name, measured in found.items():
        ratios = [mine / theirs for mine, theirs in zip(measured, first, strict=True)]
        spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f})"
        rows.append([name, f"{statistics.median(measured):.2f}", spread])
    print(table(["", "CPU ms each", "of the first"], rows))


def checkout(text: str) -> tuple[str, Path]:
    name, _, folder = text.partition("=")
    program = Path(folder).absolute() / ".venv" / "bin" / "operator-manager"
    if not name or not folder or not program.exists():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=CHECKOUT with {program} in it (make venv)")
    return name, Path(folder).absolute()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("others", metavar="NAME=CHECKOUT", type=checkout, nargs="+")
    parser.add_argument("--objects", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if (reason := why_not()) is not None:
        sys.exit(f"benchmarks.beside: {reason}")
    checkouts = {"this": ROOT, **dict(options.others)}
    try:
        report(measure(checkouts, options.objects, options.rounds))
    except (DaemonDied, TimeoutError) as error:
        sys.exit(f"benchmarks.beside: {error}")


if __name__ == "__main__":
    main()
