from __future__ import annotations

import io
import os
import pty
import sys
import termios
from collections.abc import Iterator

import pytest
from rich.console import Console

from demo.board import Board, Entry, Note
from demo.columns import Columns
from demo.screen import View
from demo.view import render
from tests.support.eventually import eventually_async

FOOTER = "q: stop everything"


def board(*, pods: int = 20) -> Board:
    shown = Board([("Foo", "default", "f"), ("Memcached", "default", "m")], Columns([]))
    because, columns = [("Happy", "True", "jack is there")], [("Friend", "jack")]
    foo = Entry("foos", "Foo", "default", "f", "happy", True, because, columns)
    shown.samples["Foo", "default", "f"] = foo
    for number in range(pods):
        name = f"pod-{number:02d}"
        shown.workloads["pods", "default", name] = Entry("pods", "Pod", "default", name, "Running", True)
    for note in (
        Note("10:00:01", True, "pod/pod-01", "Failed", "it broke"),
        Note("10:00:02", False, "foo/f", "BecameHappy", "Pod jack is there", custom=True),
    ):
        shown.keep(note)
    return shown


def shown(what: Board, *, width: int = 100, height: int = 60) -> str:
    text = io.StringIO()
    console = Console(file=text, width=width, height=height)
    console.print(render(what, console, height=height, footer=FOOTER))
    return text.getvalue()


@pytest.mark.parametrize("height", range(8, 50, 3))
@pytest.mark.parametrize("width", [40, 100, 140])
def test_render_fits_any_terminal_and_ends_with_the_footer(width: int, height: int):
    for pods in (0, 3, 30):
        lines = shown(board(pods=pods), width=width, height=height).splitlines()
        assert len(lines) <= height
        assert lines[-1] == FOOTER


def test_render_shows_every_line_on_a_tall_terminal():
    text = shown(board())
    for wanted in ("foo/f", "Friend jack  jack is there", "memcached/m", "not there", "pod-00", "pod-19"):
        assert wanted in text


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Replace stdin by a terminal; yield the file descriptor that presses its keys."""
    leader, follower = pty.openpty()
    with os.fdopen(follower, "r+b", buffering=0) as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp())
        yield leader
    os.close(leader)


async def test_view_switches_between_hints_and_board_on_keys(keyboard: int):
    command = "kubectl get pods --kubeconfig=/" + "#" * 150
    text = io.StringIO()
    with View(Console(file=text, width=80, height=24)) as view:

        async def there(*, hints: bool) -> bool:
            text.truncate(0)
            view.refresh(board(), command)
            # In one piece, however long it is, so that it can be copied.
            return (command in text.getvalue(), "Custom resources" in text.getvalue()) == (hints, not hints)

        assert await there(hints=False)
        for key, hints in ((b"h", True), (b"x", False), (b"h", True), (b"h", False)):
            os.write(keyboard, key)  # the kernel passes it on when it likes
            await eventually_async(lambda hints=hints: there(hints=hints))


async def test_view_is_over_once_q_is_pressed_and_restores_the_terminal(keyboard: int):
    before, text = termios.tcgetattr(sys.stdin), io.StringIO()
    with View(Console(file=text, width=80, height=24)) as view:
        assert not termios.tcgetattr(sys.stdin)[3] & termios.ICANON
        view.refresh(board(), "")
        text.truncate(0)
        assert not view.is_over
        os.write(keyboard, b"q")

        async def over() -> bool:
            return view.is_over

        await eventually_async(over)
    assert termios.tcgetattr(sys.stdin) == before
    assert "memcached/m" in text.getvalue()
    assert FOOTER not in text.getvalue()


def test_view_is_over_once_its_terminal_is_closed():
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as file:
        view = View(Console(file=file))
        assert not view.is_over
        os.close(leader)
        assert view.is_over
