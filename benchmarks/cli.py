"""The command line of the suite."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import describe
from benchmarks.parts import PARTS, Sizes
from benchmarks.peers import PEERS, LeftOutError, Peer, Ready, lacks_of
from benchmarks.peers.interpreter import why_not_as_shipped
from benchmarks.peers.ours import on_python
from benchmarks.program import PROGRAM_CPUS, SERVER_CPUS, Program
from benchmarks.progress import Budget, Progress, minutes
from benchmarks.report.page import NAME, RAW, files_of
from benchmarks.report.quotes import with_quotes
from benchmarks.report.text import shown
from benchmarks.results import Results, Run
from benchmarks.shards import page as shards_page
from benchmarks.shards.figures import Figures
from benchmarks.suite import Suite, Taking
from tests.support.envtest import VARIABLE, why_not

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks"
# The documents that may quote figures.
QUOTING = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), PAGE / "profiles.md")
KEPT = ROOT / ".local" / "benchmarks"
ROUNDS = 3
# A run for the page also measures these interpreters, if the machine has them.
INTERPRETERS = ("3.11", "3.14")
# The budget of fifty minutes, less the overrun of the last step.
MINUTES = 48
WHERE_FROM = "go run sigs.k8s.io/controller-runtime/tools/setup-envtest@latest use -p path"


def main(arguments: Sequence[str], description: str) -> int:
    """Run the command line, and return the exit code."""
    parser = _parser(description)
    options = parser.parse_args(arguments)
    if options.render:
        return _render(parser, check=options.check)
    peers = _chosen(parser, options)
    try:
        pinned = pin()
    except ValueError as error:
        parser.error(str(error))
    problem = why_not()
    if problem:
        parser.error(f"{problem}. One way to get one: {VARIABLE}=$({WHERE_FROM})")
    parts = [part for part in PARTS if not options.only or part in options.only]
    onto_page = options.write or (_is_whole(options) and not pinned)
    unlike = why_not_as_shipped()
    if unlike:
        advice = "`make bench` takes the interpreter that the images have"
        if onto_page:
            parser.error(f"{unlike}: such figures are not for the page; {advice}")
        print(f"{unlike}; {advice}", file=sys.stderr)
    try:
        results = _measure(peers, parts, options, pinned)
    except KeyboardInterrupt:
        print(f"\nstopped; {KEPT} has the figures so far", file=sys.stderr)
        return 130
    print(shown(results))
    if onto_page:
        kept = PAGE / RAW
        results = Results.read(kept).merged_with(results) if kept.exists() else results
        results.write(kept)
        _write(parser, results)
        print(f"written to {PAGE.relative_to(ROOT)}/", file=sys.stderr)
    return 0


def _parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(PARTS)
    parser.add_argument(
        "--only",
        action="extend",
        type=_parts,
        default=[],
        metavar="PART,...",
        help=f"only these parts: {names}",
    )
    parser.add_argument("--rounds", type=_at_least_one, default=ROUNDS, help="of every part (%(default)s)")
    parser.add_argument(
        "--peers",
        type=_peers,
        metavar="NAME,...",
        help=f"only these: {', '.join(peer.name for peer in PEERS)}",
    )
    parser.add_argument(
        "--program",
        type=_program,
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="measure another Memcached operator too, such as an older version of this one; the command"
        " contains {kubeconfig}, {concurrency} and {health} as placeholders",
    )
    parser.add_argument(
        "--python",
        type=_interpreter,
        action="append",
        default=[],
        metavar="PYTHON",
        help="measure this project on this interpreter too, a version or a program, in a cold start and one"
        f" change; its environment is made in .local/peers/ (a whole run: {', '.join(INTERPRETERS)})",
    )
    parser.add_argument(
        "--own-objects",
        type=_at_least_one,
        metavar="N",
        help=f"finished objects in the parts done and backlog ({Sizes().own})",
    )
    parser.add_argument(
        "--minutes",
        type=_at_least_one,
        default=MINUTES,
        help="for all of it (%(default)s): rounds that do not fit are left out, and it is said which",
    )
    parser.add_argument(
        "--write", action="store_true", help="put the figures of a partial run on the page too"
    )
    parser.add_argument(
        "--render",
        action="store_true",
        help="measure nothing; make the page, and what documents quote, from its figures",
    )
    parser.add_argument(
        "--check", action="store_true", help="with --render: write nothing, fail if something is not current"
    )
    return parser


def _parts(text: str) -> list[str]:
    return _among(text, list(PARTS), "part")


def _peers(text: str) -> list[str]:
    return _among(text, [peer.name for peer in PEERS], "peer")


def _among(text: str, known: Sequence[str], what: str) -> list[str]:
    """Split a list with commas; every name must be known."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names or [text]:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is no {what}; there are {', '.join(known)}")
    return names


def _program(text: str) -> Program:
    try:
        return Program.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _interpreter(text: str) -> Peer:
    try:
        return on_python(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _at_least_one(text: str) -> int:
    with contextlib.suppress(ValueError):
        if int(text) >= 1:
            return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")


def _chosen(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[Peer]:
    """Return the peers in the order of the tables, then the given programs."""
    peers = [peer for peer in PEERS if options.peers is None or peer.name in options.peers]
    if options.python:
        peers += options.python
    elif _is_whole(options):
        for version in INTERPRETERS:
            try:
                peers.append(on_python(version))
            except ValueError as error:
                print(f"not compared with Python {version}: {error}", file=sys.stderr)
    for program in options.program:
        if program.name in {peer.name for peer in PEERS}:
            parser.error(f"--program: {program.name} is the name of a peer")
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


def _is_whole(options: argparse.Namespace) -> bool:
    return (
        not (options.only or options.peers or options.program or options.own_objects)
        and options.rounds >= ROUNDS
    )


def pin() -> str:
    """Move the suite away from processors that are for others alone; a sentence about it, empty if none are.

    Raises:
        ValueError: a variable has another form, or names processors that are not there.
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


def _measure(
    peers: Sequence[Peer], parts: Sequence[str], options: argparse.Namespace, pinned: str
) -> Results:
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

    taking = [Taking.of(peer, built) for peer, built in ready]
    budget = Budget(options.minutes * 60, cut)
    suite = Suite(taking, parts, results, rounds=rounds, sizes=sizes, save=save, budget=budget)
    expected = suite.seconds()
    progress = Progress(expected)
    progress.note(f"{len(taking)} programs, {rounds} rounds; about {minutes(expected)}; figures go to {path}")
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


def _render(parser: argparse.ArgumentParser, *, check: bool) -> int:
    """Write the page and what other documents quote, or say which of them are not current."""
    try:
        results = Results.read(PAGE / RAW) if (PAGE / RAW).exists() else Results()
    except (OSError, ValueError) as error:
        parser.error(f"--render: {error}")
    stale = [path for path, text in _wanted(parser, results).items() if text != _found(path)]
    if check:
        for path in stale:
            print(f"{path} is not current; python -m benchmarks --render makes it so", file=sys.stderr)
        return 1 if stale else 0
    _write(parser, results)
    return 0


def _write(parser: argparse.ArgumentParser, results: Results) -> None:
    for path, text in _wanted(parser, results).items():
        if text is None:
            path.unlink(missing_ok=True)
        elif text != _found(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def _wanted(parser: argparse.ArgumentParser, results: Results) -> dict[Path, str | None]:
    wanted = files_of(results, PAGE)
    if (raw := PAGE / shards_page.RAW).exists():
        wanted[PAGE / NAME] = f"{wanted[PAGE / NAME]}\n{shards_page.section(Figures.read(raw))}"
    for path in QUOTING:
        try:
            wanted[path] = with_quotes(wanted.get(path) or path.read_text(), results)
        except ValueError as error:
            parser.error(f"{path}: {error}")
    return wanted


def _found(path: Path) -> str | None:
    return path.read_text() if path.exists() else None
