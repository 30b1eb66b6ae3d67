"""The demo's output: a live view on a terminal, plain lines if the output is no terminal."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import os
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from typing import Self

from rich.console import Console

from demo.board import Answer, Board, Entry, Note
from demo.view import render

__all__ = ["Screen", "choose_screen"]

KEYS = "h: commands to try in another terminal   q: stop everything"
BACK = "any key: back   q: stop everything"


class Screen(contextlib.AbstractContextManager["Screen"], abc.ABC):
    """The demo's output."""

    @property
    def is_over(self) -> bool:
        """Return whether the user has pressed q, or has closed the terminal (this may send no signal)."""
        return False

    @abc.abstractmethod
    def say(self, text: str) -> None:
        """Print a text that stays on the screen after the demo."""

    @abc.abstractmethod
    def show_news(self, news: Entry | Note | Answer) -> None:
        """Show a changed object, an Event, or a webhook's response."""

    @abc.abstractmethod
    def settle(self, hints: str) -> None:
        """Report that everything is ready; `hints` are commands to try next, or "" if the demo ends now."""

    @abc.abstractmethod
    def refresh(self, board: Board, hints: str) -> None:
        """Update the screen; called several times a second."""


def choose_screen(*, plain: bool) -> Screen:
    """Return the live view for a terminal, otherwise plain lines."""
    return Lines() if plain else View()


class Lines(Screen):
    """An output with one line for each change."""

    def say(self, text: str) -> None:
        print(text, flush=True)

    def __exit__(self, *_: object) -> None:
        """Do nothing, because printed lines stay as they are."""

    def show_news(self, news: Entry | Note | Answer) -> None:
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

    def settle(self, hints: str) -> None:
        print(f"everything is ready.\n\n{hints}".rstrip(), flush=True)

    def refresh(self, board: Board, hints: str) -> None:
        """Do nothing, because printed lines stay as they are."""


class View(Screen):
    """The board on the terminal's alternate screen, redrawn continuously, with hints for another terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._terminal = self._console.file.isatty()
        self._board: Board | None = None
        self._hinting = False
        self._quit = False
        self._keys = contextlib.ExitStack()

    @property
    def is_over(self) -> bool:
        return self._quit or self._lost

    @property
    def _lost(self) -> bool:
        return self._terminal and not self._console.file.isatty()

    def __enter__(self) -> Self:
        self._console.set_alt_screen()
        self._console.show_cursor(show=False)
        self._keys.enter_context(keys(self._pressed))
        return self

    def __exit__(self, *_: object) -> None:
        self._keys.close()
        self._console.show_cursor()
        self._console.set_alt_screen(enable=False)
        if self._board is not None and not self._lost:  # print the last state, so that it stays on the screen
            self._console.print(render(self._board, self._console, height=self._console.height - 1))

    def _pressed(self, key: bytes) -> None:
        self._quit = self._quit or key in {b"q", b"Q"}
        self._hinting = key in {b"h", b"?"} and not self._hinting

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show_news(self, news: Entry | Note | Answer) -> None:
        """Do nothing, because the next refresh shows the change."""

    def settle(self, hints: str) -> None:
        """Do nothing, because the next refresh shows the hints."""

    def refresh(self, board: Board, hints: str) -> None:
        self._board = board
        # The last line is left for the cursor.
        height = self._console.height - 1
        if self._hinting:
            # Long lines are left to the terminal to break, so that a user copies them as a single line.
            drawn = f"{hints}\n\n{BACK}\n"
        else:
            with self._console.capture() as capture:
                self._console.print(render(board, self._console, height=height, footer=KEYS))
            drawn = capture.get()
        lines = "".join(f"{line}\x1b[K\r\n" for line in drawn.splitlines()[:height])
        self._console.file.write(f"\x1b[H{lines}\x1b[J")
        self._console.file.flush()


@contextlib.contextmanager
def keys(pressed: Callable[[bytes], None]) -> Iterator[None]:
    """Call the function for each pressed key, if the input is a terminal in the foreground."""
    file = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
    # A background process that changes the terminal is stopped by the system.
    if file is None or os.tcgetpgrp(file) != os.getpgrp():
        yield
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            key = os.read(file, 64)
        except OSError:  # the user has closed the terminal
            key = b""
        if key:
            pressed(key)
        else:
            loop.remove_reader(file)

    before = termios.tcgetattr(file)
    tty.setcbreak(file)
    loop.add_reader(file, read)
    try:
        yield
    finally:
        loop.remove_reader(file)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(file, termios.TCSADRAIN, before)
