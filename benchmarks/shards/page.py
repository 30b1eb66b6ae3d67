"""The benchmark page's section about replicas with `--shards`; its text depends only on the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.report.tables import number, spread
from benchmarks.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from benchmarks.shards.figures import Change, Figures, Use

    Column = tuple[str, Callable[[Use], float]]

__all__ = ["RAW", "section", "verdicts"]

RAW = "shards.json"
MOST_SHARE, MOST_SECONDS = 0.4, 1.0
# The figures of each replica; the first AT_START figures belong to its start.
AT_START = 3
COLUMNS: Sequence[Column] = (
    ("MB received at the start", lambda use: use.start_mb),
    ("CPU s at the start", lambda use: use.start_cpu_s),
    ("MB of memory", lambda use: use.memory_mb),
    ("MB received for changes", lambda use: use.load_mb),
    ("CPU s for changes", lambda use: use.load_cpu_s),
)

INTRODUCTION = """\
## Replicas that share the objects

One, two and three managers with `--shards={shards}` run the Memcached operator. This section shows the data
that each manager receives, its memory and its CPU. The API server has the feature gate
`ShardedListAndWatch`; all processes share {cores} cores.

{date} UTC, in {minutes} minutes, on {machine}; {version}. Other programs caused a load of {others} at the
start.
"""
USE = """\
### Cost of each replica

There are {objects:,} finished Memcacheds in {namespaces} namespaces, each with its Deployment. All replicas
of a row start together. The start ends when every shard has a holder and every queue is empty. Memory is the
resident memory at the end of the start. For the changes, four clients give {load:,} Memcacheds another size,
as quickly as they can. Parentheses show a figure as a percentage of the single replica's figure. With one
object, a replica takes {idle} of memory. One of three replicas has 6 of {shards} shards, or 38 %. A
percentage above 38 % shows the fixed cost of a process, which does not depend on the number of objects.

Each replica receives and caches only the Deployments of its own Memcacheds, which it selects by a label.
"""
COMERS = """\
The next table shows a replica that joins others:
"""
CHANGES = """\
### Replicas that join and leave

The table has medians over the shards, with the shortest and the longest time. *Had to move* is the number of
objects that a leaving replica had, or that a new replica has at the end. *Without an owner* is the time from
a shard's release, or the kill of its holder, until another replica has the shard's Lease. At the release or
kill, the benchmark changes one object of the shard. *To a status* is the time until this change is
reconciled; all objects of the shard wait in the same queue. Lease duration, renew deadline and retry period
have their defaults: 15, 10 and 2 s.
"""
REPEAT = """\
### How to repeat it with replicas

```sh
make bench ONLY=shards   # measured and printed
make bench ONLY=shards ARGS=--write   # and kept for `python -m benchmarks --render`
make bench ONLY=shards ARGS=--objects=2000   # a quick trial with fewer objects
```

The received bytes are counted between replica and API server, including TLS. The replicas, the API server,
etcd and the benchmark share the cores. `{raw}` in the folder of this page has the figures.
"""


def section(figures: Figures) -> str:
    return "\n".join(_lines(figures)).rstrip() + "\n"


def verdicts(figures: Figures) -> Iterator[tuple[str, str, bool]]:
    (alone,), three = figures.uses["1"], figures.uses["3"]
    for heading, of in COLUMNS:
        most = max(of(use) / of(alone) for use in three)
        yield (
            f"each of three replicas: {heading}, at most 40 % of a single one's",
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
    yield "from three replicas to two only the objects of the leaving one move", found, only


def _lines(figures: Figures) -> Iterator[str]:
    machine = figures.machine
    described = f"{machine['processor']}, {machine['memory']}, {machine['system']}"
    described += f"; kube-apiserver {machine['kube-apiserver']}, etcd {machine['etcd']}"
    yield INTRODUCTION.format(
        shards=figures.shards,
        cores=machine["cores"],
        date=figures.date,
        minutes=figures.minutes,
        machine=described,
        version=figures.version,
        others=figures.others,
    )
    yield "### Aims of replicas\n"
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
        shards=figures.shards,
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
    (alone,) = figures.uses["1"]
    for _, of in columns:
        yield f"{number(of(use))} ({of(use) / of(alone):.0%})"


def _change(change: Change) -> list[str]:
    cells = (_spread(seconds) for seconds in (change.unowned_s, change.status_s))
    return [change.what, str(change.replicas), f"{change.moved:,}", f"{change.expected:,}", *cells]


def _spread(seconds: Sequence[float]) -> str:
    return spread(Summary.of(seconds)) if seconds else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"| {' | '.join(['---', *['--:'] * (len(header) - 1)])} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"
