from __future__ import annotations

import io

import pytest
from rich.console import Console

from demo.board import Board, Entry, Note
from demo.columns import Columns
from demo.view import render

FOOTER = "q: stop everything"


@pytest.mark.parametrize("height", range(8, 50, 3))
@pytest.mark.parametrize("width", [40, 140])
def test_render_fits_any_terminal_and_ends_with_the_footer(width: int, height: int):
    for pods in (0, 3, 30):
        board = Board([("Foo", "default", "f"), ("Memcached", "default", "m")], Columns([]))
        board.samples["Foo", "default", "f"] = Entry("foos", "Foo", "default", "f", "happy", True)
        for name in map("pod-{}".format, range(pods)):
            board.workloads["pods", "default", name] = Entry("pods", "Pod", "default", name, "Running", True)
        for number in range(3):
            board.keep(Note("10:00:00", False, "foo/f", f"Reason{number}", "Pod jack is there", custom=True))
        text = io.StringIO()
        console = Console(file=text, width=width, height=height)
        console.print(render(board, console, height=height, footer=FOOTER))
        lines = text.getvalue().splitlines()
        assert len(lines) <= height
        assert lines[-1] == FOOTER
