"""How the demo shows itself: a live view on a terminal, lines anywhere else."""

from __future__ import annotations

import abc
import contextlib
import time
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from demo.board import Board, Entry, Note

__all__ = ["Screen", "choose_screen"]

EVENTS_SHOWN = 8
WORKLOADS_SHOWN = 14
WIDTHS = {"TIME": 8, "REASON": 18, "STATE": 24, "NOW": 9, "CONDITIONS": 34}


class Screen(contextlib.AbstractContextManager["Screen"], abc.ABC):
    """Where a person looks."""

    @abc.abstractmethod
    def say(self, text: str) -> None:
        """Something that stays on the screen."""

    @abc.abstractmethod
    def tell(self, news: Entry | Note) -> None:
        """Something has changed."""

    @abc.abstractmethod
    def refresh(self, board: Board, footer: str) -> None:
        """Called several times a second."""


def choose_screen(*, plain: bool) -> Screen:
    """The live view, or lines."""
    return Lines() if plain else View()


class Lines(Screen):
    """One line for each thing that happens."""

    def say(self, text: str) -> None:
        print(text, flush=True)

    def __exit__(self, *_: object) -> None:
        """Lines stay as they are."""

    def tell(self, news: Entry | Note) -> None:
        if isinstance(news, Note):
            mark = "!" if news.warning else " "
            print(f"{news.time} {mark} event  {news.about}: {news.reason}: {news.message}", flush=True)
            return
        conditions = "  ".join(f"{name}={status}" for name, status, _ in news.conditions)
        print(f"{time.strftime('%H:%M:%S')}   {news.title}: {news.state}  {conditions}".rstrip(), flush=True)

    def refresh(self, board: Board, footer: str) -> None:
        """Lines stay as they are."""


class View(Screen):
    """Tables that are redrawn in place."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live = Live(console=self._console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        self._live.console.print(text, highlight=False, markup=False)

    def tell(self, news: Entry | Note) -> None:
        """The next refresh shows it."""

    def refresh(self, board: Board, footer: str) -> None:
        self._live.update(render(board, footer), refresh=True)


def render(board: Board, footer: str) -> Group:
    """The whole view."""
    parts = [_samples(board), _workloads(board), _events(board)]
    return Group(*parts, Panel(Text(footer), title="look further", title_align="left", border_style="dim"))


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", expand=True, box=None, pad_edge=False
    )
    for column in columns:
        # What has no width of its own shares what is left, and is cut first.
        width = WIDTHS.get(column)
        table.add_column(
            column,
            header_style="dim",
            overflow="ellipsis",
            no_wrap=True,
            width=width,
            ratio=None if width else 1,
        )
    return table


def _samples(board: Board) -> Table:
    table = _table("Custom resources", "OBJECT", "NOW", "CONDITIONS", "BECAUSE")
    for key in board.expected:
        entry = board.samples.get(key)
        if entry is None:
            table.add_row(f"{key[0].lower()}/{key[1]}", Text("to come", "dim"), "", "")
            continue
        conditions = Text("  ").join(
            Text(name, "green" if status == "True" else "yellow" if status == "Unknown" else "dim")
            for name, status, _ in entry.conditions
        )
        said = next((message for _, _, message in entry.conditions if message), "")
        table.add_row(entry.title, _state(entry), conditions, Text(said, "dim"))
    return table


def _workloads(board: Board) -> Table:
    table = _table("Workloads", "OBJECT", "STATE")
    shown = sorted(
        board.workloads.values(), key=lambda entry: (entry.plural == "pods", entry.plural, entry.name)
    )
    shown = [entry for entry in shown if entry.name != "kubernetes"]
    for entry in shown[:WORKLOADS_SHOWN]:
        table.add_row(entry.title, _state(entry))
    if len(shown) > WORKLOADS_SHOWN:
        table.add_row(Text(f"and {len(shown) - WORKLOADS_SHOWN} more", "dim"), "")
    return table


def _events(board: Board) -> Table:
    table = _table("Events", "TIME", "ABOUT", "REASON", "MESSAGE")
    for note in list(board.notes)[-EVENTS_SHOWN:]:
        table.add_row(
            note.time, note.about, Text(note.reason, "yellow" if note.warning else ""), note.message
        )
    return table


def _state(entry: Entry) -> Text:
    return Text(entry.state, "green" if entry.ready else "yellow")
