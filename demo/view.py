"""The live view: the most important lines of the board, as many as fit on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from demo.board import Board, Entry

__all__ = ["render"]

WIDE = 130
"""The number of terminal columns from which the view shows values and reasons side by side."""
EVENTS_AT_LEAST, EVENTS_AT_MOST = 6, 12
HEAD = 1


def render(board: Board, console: Console, *, height: int, footer: str = "") -> Group:
    """Render the whole view in at most `height` lines; the last line is the footer.

    If space is short, the view counts the workloads instead of listing them, to make room for Events.
    """
    width = console.width
    end = [Text(footer, "dim", no_wrap=True, overflow="ellipsis")] if footer else []
    left = height - len(end)
    samples = _samples(board, width, left)
    left -= samples.row_count + HEAD
    parts: list[RenderableType] = [samples]
    if board.answers and left > HEAD:
        answers = _answers(board, left - HEAD)
        parts.append(answers)
        left -= answers.row_count + HEAD
    workloads = [
        entry
        for entry in board.workloads.values()
        if (entry.plural, entry.name) != ("services", "kubernetes")
    ]
    if workloads and left > 0:
        shown, lines = _workloads(workloads, left - EVENTS_AT_LEAST - HEAD)
        parts.append(shown)
        left -= lines
    if board.notes and left > HEAD:
        events = _events(board, min(left - HEAD, EVENTS_AT_MOST))
        parts.append(events)
        left -= events.row_count + HEAD
    if left >= len(parts):
        return Group(*(each for part in parts for each in (part, Text())), *end)
    return Group(*parts, *end)


def _table(*columns: str) -> Table:
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
    said = ["as kubectl shows it", "because"] if wide else ["as kubectl shows it, and because"]
    table = _table("Custom resources", "now", *said)
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
            # The more important text comes first: the line may be too short for two texts.
            both = (values, because) if entry.ready else (because, values)
            table.add_row(entry.title, _state(entry), Text("  ").join(each for each in both if each))
    if cut:
        table.add_row(Text(f"and {cut} more", "dim"))
    return table


def _workloads(entries: Sequence[Entry], room: int) -> tuple[RenderableType, int]:
    """Render one line per workload; if `room` lines are too few, one per kind; if still too few, one line.

    Return the lines and their number.
    """
    ordered = sorted(entries, key=_order)
    plurals = list(dict.fromkeys(entry.plural for entry in ordered))
    kinds = [(plural, [entry for entry in ordered if entry.plural == plural]) for plural in plurals]
    if len(ordered) + HEAD <= room:
        table = _table("Workloads", "now")
        for entry in ordered:
            table.add_row(entry.title, _state(entry))
        return table, len(ordered) + HEAD
    if len(kinds) + HEAD <= room:
        table = _table("Workloads", "now")
        for plural, each in kinds:
            table.add_row(plural, Text.assemble(_count(each, " of ", " ready"), _waiting(each)))
        return table, len(kinds) + HEAD
    counts = [Text.assemble(f"{plural} ", _count(each, "/")) for plural, each in kinds]
    line = Text.assemble(("Workloads", "bold"), "  ", Text("  ").join(counts), _waiting(ordered))
    line.no_wrap, line.overflow = True, "ellipsis"
    return line, 1


def _count(entries: Sequence[Entry], of: str, end: str = "") -> tuple[str, str]:
    ready = sum(entry.ready for entry in entries)
    return f"{ready}{of}{len(entries)}{end}", "green" if ready == len(entries) else "yellow"


def _waiting(entries: Sequence[Entry]) -> tuple[str, str]:
    return "".join(f"   {entry.name}: {entry.state}" for entry in entries if not entry.ready), "dim"


def _answers(board: Board, room: int) -> Table:
    table = _table("Webhooks", "asked", "answer")
    for answer in board.answers[:room]:
        outcome = Text(answer.outcome, "yellow" if answer.refused else "green")
        table.add_row(answer.about, outcome, answer.brief)
    return table


def _events(board: Board, room: int) -> Table:
    table = _table("Events", "about", "reason", "message")
    for note in [*board.notes][-room:]:
        reason = Text(note.reason, "yellow" if note.warning else "")
        table.add_row(note.time, note.about, reason, note.message)
    return table


def _order(entry: Entry) -> tuple[bool, str, str]:
    return entry.plural == "pods", entry.plural, entry.name


def _state(entry: Entry) -> Text:
    return Text(entry.state, "green" if entry.ready else "yellow")
