"""The command line of the benchmarks."""

from __future__ import annotations

import dataclasses
import datetime
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from benchmarks.machine import describe
from benchmarks.parts import PARTS, Sizes
from benchmarks.peers import PEERS, LeftOutError, Peer, Ready, lacks_of
from benchmarks.peers.interpreter import why_not_as_shipped
from benchmarks.peers.ours import on_python
from benchmarks.program import PROGRAM_CPUS, SERVER_CPUS, Program
from benchmarks.progress import Budget, Progress
from benchmarks.report.page import NAME, PROFILES, RAW, page
from benchmarks.report.quotes import with_quotes
from benchmarks.report.text import shown
from benchmarks.results import Results, Run
from benchmarks.shards import page as shards_page
from benchmarks.shards.figures import Figures
from benchmarks.suite import Suite, Taking
from tests.support.envtest import VARIABLE, why_not

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

T = TypeVar("T")

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks"
# The documents that may contain figures of the suite.
QUOTING = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), PAGE / "profiles.md")
KEPT = ROOT / ".local" / "benchmarks"
ROUNDS = 3
# A whole run also measures these interpreters if they are installed.
INTERPRETERS = ("3.11", "3.14")
# The time limit of fifty minutes, less the time by which the last step may exceed it.
MINUTES = 48
WHERE_FROM = "go run sigs.k8s.io/controller-runtime/tools/setup-envtest@latest use -p path"


DESCRIPTION = """Measure and compare operators on a real API server and etcd without other controllers.

A whole run writes docs/benchmarks/. A run with fewer parts, peers or rounds, other programs, --own-objects
or reserved processors is only printed, unless --write is given. All raw figures are stored in
.local/benchmarks/. KUBEBUILDER_ASSETS names the folder with the programs of the control plane. Only figures
of the same run are comparable.
"""


def _parser(parse: Callable[[str], T]) -> Callable[[str], T]:
    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return parsed


def _separated(known: Sequence[str], what: str) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names or [text]:
            if name not in known:
                raise ValueError(f"{name!r} is no {what}; there are {', '.join(known)}")
        return names

    return parse


_COUNT = click.IntRange(1)


@click.command(help=DESCRIPTION)
@click.option(
    "--only",
    multiple=True,
    type=_parser(_separated(list(PARTS), "part")),
    metavar="PART,...",
    help=f"measure only these parts: {', '.join(PARTS)}",
)
@click.option("--rounds", type=_COUNT, default=ROUNDS, show_default=True, help="rounds of every part")
@click.option(
    "--peers",
    type=_parser(_separated([peer.name for peer in PEERS], "peer")),
    metavar="NAME,...",
    help=f"measure only these peers: {', '.join(peer.name for peer in PEERS)}",
)
@click.option(
    "--program",
    "programs",
    multiple=True,
    type=_parser(Program.parse),
    metavar="NAME=COMMAND",
    help="also measure this Memcached operator, such as an older version of ours; the command contains"
    " {kubeconfig}, and may contain {concurrency}, {health}, {workload} and {metrics}",
)
@click.option(
    "--python",
    "pythons",
    multiple=True,
    type=_parser(on_python),
    metavar="PYTHON",
    help="also measure a cold start and one change of this project on this interpreter, a version or a"
    f" program; its environment is in .local/peers/ (in a whole run: {', '.join(INTERPRETERS)})",
)
@click.option(
    "--own-objects",
    type=_COUNT,
    metavar="N",
    help=f"number of finished objects in the parts done and backlog ({Sizes().own})",
)
@click.option(
    "--minutes",
    type=_COUNT,
    default=MINUTES,
    show_default=True,
    help="time limit of the run; steps that do not fit are skipped and reported",
)
@click.option("--write", is_flag=True, help="write the figures of a partial run to the page")
@click.option(
    "--render",
    is_flag=True,
    help="measure nothing; write the page, and quotes in other documents, from stored figures",
)
@click.option("--check", is_flag=True, help="with --render: write nothing, fail if a file is outdated")
def main(**given: Any) -> None:
    options = SimpleNamespace(**given)
    options.only = [part for parts in options.only for part in parts]
    if options.render:
        _render(check=options.check)
        return
    peers = _chosen(options)
    try:
        pinned = pin()
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if problem := why_not():
        raise click.UsageError(f"{problem}. One way to get one: {VARIABLE}=$({WHERE_FROM})")
    parts = [part for part in PARTS if not options.only or part in options.only]
    onto_page = options.write or (_is_whole(options) and not pinned)
    if unlike := why_not_as_shipped():
        advice = "`make bench` takes the interpreter that the images have"
        if onto_page:
            raise click.UsageError(f"{unlike}: such figures are not for the page; {advice}")
        print(f"{unlike}; {advice}", file=sys.stderr)
    try:
        results = _measure(peers, parts, options, pinned)
    except KeyboardInterrupt:
        print(f"\nstopped; {KEPT} has the figures so far", file=sys.stderr)
        sys.exit(130)
    print(shown(results))
    if onto_page:
        kept = PAGE / RAW
        results = Results.read(kept).merged_with(results) if kept.exists() else results
        results.write(kept)
        _write(results)
        print(f"written to {PAGE.relative_to(ROOT)}/", file=sys.stderr)


def _chosen(options: SimpleNamespace) -> list[Peer]:
    peers = [peer for peer in PEERS if options.peers is None or peer.name in options.peers]
    if options.pythons:
        peers += options.pythons
    elif _is_whole(options):
        for version in INTERPRETERS:
            try:
                peers.append(on_python(version))
            except ValueError as error:
                print(f"not compared with Python {version}: {error}", file=sys.stderr)
    for program in options.programs:
        if program.name in {peer.name for peer in PEERS}:
            raise click.UsageError(f"--program: {program.name} is the name of a peer")
        peers.append(_given(program))
    return peers


def _given(program: Program) -> Peer:
    lacks = {}
    if not program.tells_readiness:
        lacks = dict.fromkeys(("takeover", "others", "done"), "its command has no {health}")
    if not any("{workload}" in part for part in program.command):
        others = ("pods-metadata", "pods", "deployments-metadata", "deployments", "ten")
        lacks |= dict.fromkeys(others, "its command has no {workload}")
    return Peer(
        name=program.name,
        make=lambda: Ready(program=program, version="as given on the command line"),
        about="a program given on the command line",
        lacks=lacks,
    )


def _is_whole(options: SimpleNamespace) -> bool:
    return (
        not (options.only or options.peers or options.programs or options.own_objects)
        and options.rounds >= ROUNDS
    )


def pin() -> str:
    """Move this process off the reserved processors; return a sentence about them for the report, or "".

    Raises ValueError if only one of the two environment variables is set, or if one has an invalid value.
    """
    lists = {name: os.environ[name] for name in (SERVER_CPUS, PROGRAM_CPUS) if os.environ.get(name)}
    if not lists:
        return ""
    if len(lists) == 1:
        raise ValueError(f"{SERVER_CPUS} and {PROGRAM_CPUS} have to be set both")
    there = os.sched_getaffinity(0)
    server, program = (_processors(name, text, there) for name, text in lists.items())
    os.sched_setaffinity(0, there - server - program or server)
    return (
        f"The control plane had processors {lists[SERVER_CPUS]} to itself, and the measured program"
        f" {lists[PROGRAM_CPUS]}."
    )


def _processors(name: str, text: str, there: set[int]) -> set[int]:
    found = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not first.isdecimal() or not last.isdecimal():
            raise ValueError(f"{name}={text} is no list of processors such as 0,2-5")
        found |= set(range(int(first), int(last) + 1))
    if not found or not found <= there:
        raise ValueError(f"{name}={text}: there are processors {', '.join(map(str, sorted(there)))}")
    return found


def _measure(peers: Sequence[Peer], parts: Sequence[str], options: SimpleNamespace, pinned: str) -> Results:
    rounds, sizes = options.rounds, Sizes()
    if options.own_objects:
        sizes = dataclasses.replace(sizes, own=options.own_objects)
    ready, left_out = _build(peers)
    began = time.monotonic()
    run = Run(
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
        rounds=rounds,
        machine=describe(Path(os.environ[VARIABLE])) | ({"pinned": pinned} if pinned else {}),
        versions={peer.name: built.version for peer, built in ready},
        about={peer.name: peer.about for peer in peers},
        left_out=left_out,
        lacks={peer.name: lacks_of(peer) for peer, _ in ready},
        sizes=sizes.as_json(),
    )
    results = Results.begin(run, parts)
    path = KEPT / f"{run.date.replace(' ', '-').replace(':', '')}.json"

    def save() -> None:
        run.minutes = round((time.monotonic() - began) / 60, 1)
        results.write(path)

    def cut(what: str) -> None:
        run.cut.append(what)
        progress.note(what)

    progress = Progress()
    taking = [Taking(peer.name, built.program, lacks_of(peer)) for peer, built in ready]
    budget = Budget(options.minutes * 60, cut)
    suite = Suite(taking, parts, results, rounds=rounds, sizes=sizes, save=save, budget=budget)
    progress.note(f"{len(taking)} programs, {rounds} rounds; figures go to {path}")
    suite.run(progress)
    save()
    return results


def _build(peers: Iterable[Peer]) -> tuple[list[tuple[Peer, Ready]], dict[str, str]]:
    ready, left_out = [], {}
    for peer in peers:
        try:
            ready.append((peer, peer.make()))
        except LeftOutError as error:
            left_out[peer.name] = str(error)
            print(f"{peer.name} is left out: {error}", file=sys.stderr)
    return ready, left_out


def _render(*, check: bool) -> None:
    """Render the report, and its figures in other documents; with `check`, only list outdated files."""
    try:
        results = Results.read(PAGE / RAW) if (PAGE / RAW).exists() else Results()
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--render: {error}") from None
    if not check:
        _write(results)
        return
    stale = [path for path, text in _wanted(results).items() if text != _found(path)]
    for path in stale:
        print(f"{path} is not current; python -m benchmarks --render makes it so", file=sys.stderr)
    sys.exit(1 if stale else 0)


def _write(results: Results) -> None:
    for path, text in _wanted(results).items():
        if text != _found(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def _wanted(results: Results) -> dict[Path, str]:
    wanted = {PAGE / NAME: page(results, has_profiles=(PAGE / PROFILES).exists())}
    if (raw := PAGE / shards_page.RAW).exists():
        wanted[PAGE / NAME] = f"{wanted[PAGE / NAME]}\n{shards_page.section(Figures.read(raw))}"
    for path in QUOTING:
        try:
            wanted[path] = with_quotes(wanted.get(path) or path.read_text(), results)
        except ValueError as error:
            raise click.UsageError(f"{path}: {error}") from None
    return wanted


def _found(path: Path) -> str | None:
    return path.read_text() if path.exists() else None
