"""The live view: what fits of the board into a terminal of any size, most telling first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from demo.board import Board, Entry

__all__ = ["render"]

WIDE = 130
"""From so many columns on, there is room for values and reasons side by side."""
EVENTS_AT_LEAST, EVENTS_AT_MOST = 4, 12
HEAD = 1
BORDERS, PADDINGS = 2, 4


def render(board: Board, footer: str, console: Console, *, height: int) -> Group:
    """The whole view in at most `height` lines: Events are left out first, what to do next never is."""
    width = console.width
    lines = len(Text(footer).wrap(console, max(1, width - PADDINGS)))
    box = Panel(Text(footer), title="look further", title_align="left", border_style="dim")
    left = height - lines - BORDERS
    samples = _samples(board, width, left)
    left -= samples.row_count + HEAD
    workloads = [
        entry
        for entry in board.workloads.values()
        if (entry.plural, entry.name) != ("services", "kubernetes")
    ]
    summary = len(workloads) + HEAD > left - EVENTS_AT_LEAST - HEAD
    parts = [samples]
    if workloads and left > HEAD:
        parts.append(_summary(workloads, left - HEAD) if summary else _workloads(workloads))
        left -= parts[-1].row_count + HEAD
    if board.answers and left > HEAD:
        parts.insert(1, _answers(board, left - HEAD))
        left -= parts[1].row_count + HEAD
    if board.notes and left > HEAD:
        parts.append(_events(board, min(left - HEAD, EVENTS_AT_MOST)))
        left -= parts[-1].row_count + HEAD
    if left >= len(parts):
        return Group(*(each for part in parts for each in (part, Text())), box)
    return Group(*parts, box)


def _table(*columns: str) -> Table:
    """The last column has what is left of the line, and is cut where that is too little."""
    table = Table(expand=True, box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(
            column,
            header_style="dim" if number else "bold",
            overflow="ellipsis",
            no_wrap=True,
            ratio=1 if column == columns[-1] else None,
        )
    return table


def _samples(board: Board, width: int, room: int) -> Table:
    wide = width >= WIDE
    table = _table("Custom resources", "now", "as kubectl shows it", *(["because"] if wide else []))
    keys = [*board.expected, *sorted(board.samples.keys() - set(board.expected))]
    rows = max(1, room - HEAD)
    cut = len(keys) - rows + 1 if len(keys) > rows else 0
    for key in keys[: len(keys) - cut]:
        entry = board.samples.get(key)
        if entry is None:
            table.add_row(f"{key[0].lower()}/{key[2]}", Text("not there", "dim"))
            continue
        values = Text("  ").join(Text.assemble((f"{name} ", "dim"), text) for name, text in entry.columns)
        because = Text(entry.because, "dim")
        if wide:
            table.add_row(entry.title, _state(entry), values, because)
        else:
            table.add_row(entry.title, _state(entry), values if entry.ready or not because else because)
    if cut:
        table.add_row(Text(f"and {cut} more", "dim"))
    return table


def _workloads(entries: Sequence[Entry]) -> Table:
    table = _table("Workloads", "now")
    for entry in sorted(entries, key=_order):
        table.add_row(entry.title, _state(entry))
    return table


def _summary(entries: Sequence[Entry], room: int) -> Table:
    """A line for each kind, with the names of those that are not ready."""
    table = _table("Workloads", "now")
    plurals = list(dict.fromkeys(entry.plural for entry in sorted(entries, key=_order)))
    for plural in plurals[:room]:
        each = [entry for entry in entries if entry.plural == plural]
        waiting = [entry for entry in each if not entry.ready]
        text = Text(f"{len(each) - len(waiting)} of {len(each)} ready", "yellow" if waiting else "green")
        for entry in waiting:
            text.append(f"   {entry.name}: {entry.state}", "dim")
        table.add_row(plural, text)
    return table


def _answers(board: Board, room: int) -> Table:
    table = _table("Webhooks", "asked", "answer")
    for answer in board.answers[:room]:
        outcome = Text(answer.outcome, "yellow" if answer.refused else "green")
        table.add_row(answer.about, outcome, answer.brief)
    return table


def _events(board: Board, room: int) -> Table:
    """What the operators tell, and every warning; what pods go through on their way is seen above."""
    table = _table("Events", "about", "reason", "message")
    for note in [note for note in board.notes if note.custom or note.warning][-room:]:
        reason = Text(note.reason, "yellow" if note.warning else "")
        table.add_row(note.time, note.about, reason, note.message)
    return table


def _order(entry: Entry) -> tuple[bool, str, str]:
    return entry.plural == "pods", entry.plural, entry.name


def _state(entry: Entry) -> Text:
    return Text(entry.state, "green" if entry.ready else "yellow")
