"""Measures operators from outside, on a real API server and etcd with no other controllers.

    python -m benchmarks.drive converge [--objects 2000] [--rounds 3] [--program NAME=COMMAND]...
    python -m benchmarks.drive latency [--rate 100]... [--seconds 10] [--program NAME=COMMAND]...
    python -m benchmarks.drive pods [--pods 50000]

Figures of one run may be compared with each other, as the rounds of all programs are interleaved; figures of
different runs or machines may not. KUBEBUILDER_ASSETS names the folder with the control plane's programs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.convergence import Convergence, measure
from benchmarks.latency import measure as measure_latency
from benchmarks.peers.bare import bare_loop
from benchmarks.peers.ours import manager
from benchmarks.pods import measure_pods, pod_bytes
from benchmarks.program import CONCURRENCY, Program, Setting
from benchmarks.table import table
from tests.support.envtest import why_not

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS = {
    "from_start": "objects/s",
    "at_work": "at work/s",
    "cpu_ms": "CPU ms each",
    "total_cpu": "CPU s",
    "peak_mb": "MB",
    "server_cpu_ms": "server ms each",
    "writes": "writes each",
    "events": "events each",
    "conflicts": "409s",
    "late_writes": "late",
}


def converge(options: argparse.Namespace) -> None:
    programs = [bare_loop("bare"), manager("manager"), *options.program]
    if options.only:
        programs = [program for program in programs if program.name in options.only]
    results: list[Convergence] = []
    for round_number in range(1, options.rounds + 1):
        for program in programs:
            result = measure(program, options.objects, Setting(concurrency=options.concurrency))
            results.append(result)
            print(f"round {round_number}: {program.name}: {result.from_start:.0f} objects/s", file=sys.stderr)
    print(f"{options.objects} Memcacheds, {options.rounds} rounds; medians")
    print(table(["", *COLUMNS.values()], [_medians(program.name, results) for program in programs]))
    for program in programs:
        last = next(result for result in reversed(results) if result.program == program.name)
        print(f"\n{program.name}: requests of the last round")
        print(table(["", "count"], list(last.requests.items())))
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(result) for result in results], indent=1))


def latency(options: argparse.Namespace) -> None:
    programs = [manager("manager"), *options.program]
    results = [
        dataclasses.astuple(
            measure_latency(program, rate, options.seconds, Setting(concurrency=options.concurrency))
        )
        for rate in options.rate or [100, 300]
        for program in programs
    ]
    print(f"from the event of a new Memcached to that of its status, for {options.seconds} s, in ms")
    print(table(["", "new/s", "reached", "p50", "p99", "worst"], results))


def pods(options: argparse.Namespace) -> None:
    results = [dataclasses.astuple(result) for result in measure_pods(options.pods)]
    print(f"the manager, with pods of {pod_bytes()} bytes watched for their metadata")
    print(table(["pods", "s to sync", "CPU s", "peak MB", "MB"], results))


def _medians(name: str, results: Sequence[Convergence]) -> list[object]:
    own = [result for result in results if result.program == name]
    return [name, *(statistics.median(getattr(result, column) for result in own) for column in COLUMNS)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--concurrency", type=int, default=CONCURRENCY, help="objects worked on at a time (%(default)s)"
    )
    common.add_argument("--program", type=Program.parse, action="append", default=[], metavar="NAME=COMMAND")

    command = commands.add_parser("converge", parents=[common], help="a cold start with many objects waiting")
    command.add_argument("--objects", type=int, default=2000)
    command.add_argument("--rounds", type=int, default=3)
    command.add_argument("--only", action="append", metavar="NAME", help="leave the other programs out")
    command.add_argument("--json", type=Path, help="also write every round's figures to this file")
    command.set_defaults(run=converge)

    command = commands.add_parser("latency", parents=[common], help="new objects at a steady rate")
    command.add_argument("--rate", type=int, action="append", help="objects a second (100 and 300)")
    command.add_argument("--seconds", type=int, default=10)
    command.set_defaults(run=latency)

    command = commands.add_parser("pods", help="many pods, watched for their metadata")
    command.add_argument("--pods", type=int, default=50_000)
    command.set_defaults(run=pods)

    options = parser.parse_args()
    problem = why_not()
    if problem:
        parser.error(problem)
    options.run(options)


if __name__ == "__main__":
    main()
