"""The page of replicas that share the objects, made of figures alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.report.tables import number, spread
from benchmarks.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from benchmarks.shards.figures import Change, Figures, Use

    Column = tuple[str, Callable[[Use], float]]

__all__ = ["NAME", "RAW", "page"]

NAME, RAW = "shards.md", "shards.json"
MOST_SHARE, MOST_SECONDS = 0.4, 1.0
# What is measured of each replica; so many of it at its start.
AT_START = 3
COLUMNS: Sequence[Column] = (
    ("MB received at the start", lambda use: use.start_mb),
    ("CPU s at the start", lambda use: use.start_cpu_s),
    ("MB of memory", lambda use: use.memory_mb),
    ("MB received for changes", lambda use: use.load_mb),
    ("CPU s for changes", lambda use: use.load_cpu_s),
)

INTRODUCTION = """\
# Replicas that share the objects

What one, two and three managers with `--shards={ranges}` each receive, hold and use. They run the Memcached
operator on one API server with the feature gate `ShardedListAndWatch`, and share {cores} cores with it.

{date} UTC, in {minutes} minutes, on {machine}; {version}. When it began, the machine's load was {others},
of other programs.
"""
USE = """\
## What each replica uses

{objects:,} finished Memcacheds in {namespaces} namespaces, each with its Deployment. All replicas of a row
start together, and the start is over when the ranges are shared out and nobody has anything left to do.
Memory is resident memory then. For the changes, {load:,} Memcacheds get another size, as quickly as four
clients can ask for it. In parentheses: the share of what the only replica has. With one object in all, a
replica has {idle} of memory. Of 16 ranges, the largest part of three is 6, which is 38 %: what a replica uses
above that is what a process uses that has no objects.

Each replica receives and holds the Deployments of its own Memcacheds, by their label.
"""
COMERS = """\
One that comes to others which share the objects:
"""
CHANGES = """\
## Replicas that come and go

Medians over the ranges, with the shortest and the longest. *Had to move* counts the objects of a replica that
has gone, or those that a new one has in the end. *Without an owner* is a range from its release, or from the
kill of its holder, until another replica has its Lease. One of its objects is changed in that moment; *to a
status* is until this has been done, which waits for its turn among all that the other replica looks at then.
Lease duration, renew deadline and retry period are the defaults: 15, 10 and 2 s.
"""
REPEAT = """\
## How to repeat it

```sh
make bench ONLY=shards   # measured and printed
make bench ONLY=shards ARGS=--write   # and put on this page
make bench ONLY=shards ARGS=--objects=2000   # fewer objects, to see that it works
```

Bytes are counted between the replica and the API server, as TLS. The replicas, the API server, etcd and the
suite share the cores. The figures are in `{raw}` beside this page.
"""


def page(figures: Figures) -> str:
    """As Markdown."""
    return "\n".join(_lines(figures)).rstrip() + "\n"


def verdicts(figures: Figures) -> Iterator[tuple[str, str, bool]]:
    """Each aim, what was found, and whether it is reached."""
    (alone,), three = figures.uses["1"], figures.uses["3"]
    for heading, of in COLUMNS:
        most = max(of(use) / of(alone) for use in three)
        yield (
            f"each of three: {heading}, at most 40 % of the only one's",
            f"at most {most:.0%}",
            most <= MOST_SHARE,
        )
    terminated = [second for each in figures.changes if "SIGTERM" in each.what for second in each.unowned_s]
    most = max(terminated)
    yield "after SIGTERM no object without an owner for 1 s", f"at most {number(most)} s", most < MOST_SECONDS
    for each in figures.changes:
        if each.what == "one comes" and each.replicas == 3:
            share = each.moved / figures.objects
            yield "from two replicas to three less than half of all objects move", f"{share:.0%}", share < 0.5
    gone = [each for each in figures.changes if each.what != "one comes" and each.replicas == 2]
    only = all(each.moved == each.expected for each in gone)
    found = ", ".join(f"{each.moved:,} of {each.expected:,}" for each in gone)
    yield "from three to two only the objects of the one that has gone move", found, only


def _lines(figures: Figures) -> Iterator[str]:
    yield "<!-- made by `.venv/bin/python -m benchmarks.shards --write`; do not edit -->"
    machine = figures.machine
    described = f"{machine['processor']}, {machine['memory']}, {machine['system']}"
    described += f"; kube-apiserver {machine['kube-apiserver']}, etcd {machine['etcd']}"
    yield INTRODUCTION.format(
        ranges=figures.ranges,
        cores=machine["cores"],
        date=figures.date,
        minutes=figures.minutes,
        machine=described,
        version=figures.version,
        others=figures.others,
    )
    yield "## Aims\n"
    yield from _table(
        ["aim", "found", ""],
        ([aim, found, "reached" if good else "**not reached**"] for aim, found, good in verdicts(figures)),
    )
    yield ""
    yield USE.format(
        objects=figures.objects,
        namespaces=figures.namespaces,
        load=figures.load,
        idle=f"{number(figures.idle_mb)} MB",
    )
    yield from _table(["replicas", "objects", *(heading for heading, _ in COLUMNS)], _uses(figures))
    yield ""
    yield COMERS
    yield from _table(["", "objects", *(heading for heading, _ in COLUMNS[:AT_START])], _comers(figures))
    yield ""
    yield CHANGES
    headings = ["", "replicas then", "moved", "had to move", "s without an owner", "s to a status"]
    yield from _table(headings, map(_change, figures.changes))
    yield ""
    yield REPEAT.format(raw=RAW)


def _uses(figures: Figures) -> Iterator[list[str]]:
    for count, uses in figures.uses.items():
        for use in uses:
            yield [count, f"{use.objects:,}", *_shares(figures, use, COLUMNS)]


def _comers(figures: Figures) -> Iterator[list[str]]:
    for change in figures.changes:
        if change.came is not None:
            shares = _shares(figures, change.came, COLUMNS[:AT_START])
            yield [f"to {change.replicas - 1}", f"{change.came.objects:,}", *shares]


def _shares(figures: Figures, use: Use, columns: Iterable[Column]) -> Iterator[str]:
    """Each figure, and its share of the only replica's."""
    (alone,) = figures.uses["1"]
    for _, of in columns:
        yield f"{number(of(use))} ({of(use) / of(alone):.0%})"


def _change(change: Change) -> list[str]:
    cells = (_spread(seconds) for seconds in (change.unowned_s, change.status_s))
    return [change.what, str(change.replicas), f"{change.moved:,}", f"{change.expected:,}", *cells]


def _spread(seconds: Sequence[float]) -> str:
    """The median, and the shortest and the longest."""
    return spread(Summary.of(seconds)) if seconds else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"| {' | '.join(['---', *['--:'] * (len(header) - 1)])} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"
