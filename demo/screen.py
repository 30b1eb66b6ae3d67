"""How the demo shows itself: a live view on a terminal, lines anywhere else."""

from __future__ import annotations

import abc
import contextlib
import time
from typing import Self

from rich.console import Console
from rich.live import Live

from demo.board import Answer, Board, Entry, Note
from demo.view import render

__all__ = ["Screen", "choose_screen"]


class Screen(contextlib.AbstractContextManager["Screen"], abc.ABC):
    """Where a person looks."""

    @property
    def lost(self) -> bool:
        """Whether nobody can look any more: its terminal was closed, which not every program is told."""
        return False

    @abc.abstractmethod
    def say(self, text: str) -> None:
        """Something that stays on the screen."""

    @abc.abstractmethod
    def tell(self, news: Entry | Note | Answer) -> None:
        """Something has changed."""

    @abc.abstractmethod
    def settle(self, footer: str) -> None:
        """Everything has become ready."""

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

    def tell(self, news: Entry | Note | Answer) -> None:
        if isinstance(news, Answer):
            mark = "!" if news.refused else " "
            print(
                f"{time.strftime('%H:%M:%S')} {mark} {news.about}: {news.outcome}: {news.message}", flush=True
            )
            return
        if isinstance(news, Note):
            mark = "!" if news.warning else " "
            print(f"{news.time} {mark} event  {news.about}: {news.reason}: {news.message}", flush=True)
            return
        conditions = "  ".join(f"{name}={status}" for name, status, _ in news.conditions)
        print(f"{time.strftime('%H:%M:%S')}   {news.title}: {news.state}  {conditions}".rstrip(), flush=True)

    def settle(self, footer: str) -> None:
        print(f"everything is ready.\n\n{footer}", flush=True)

    def refresh(self, board: Board, footer: str) -> None:
        """Lines stay as they are."""


class View(Screen):
    """Tables that are redrawn in place."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._terminal = self._console.file.isatty()
        # What is rendered fits, so nothing has to be cut; and should the terminal shrink, the end is seen.
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="visible")

    @property
    def lost(self) -> bool:
        return self._terminal and not self._console.file.isatty()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        self._live.console.print(text, highlight=False, markup=False)

    def tell(self, news: Entry | Note | Answer) -> None:
        """The next refresh shows it."""

    def settle(self, footer: str) -> None:
        """The view shows it."""

    def refresh(self, board: Board, footer: str) -> None:
        # The last line is the cursor's.
        height = self._console.height - 1
        self._live.update(render(board, footer, self._console, height=height), refresh=True)
