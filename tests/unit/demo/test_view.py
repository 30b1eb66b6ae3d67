from __future__ import annotations

import io
import os
import pty

import pytest
from rich.console import Console

from demo.board import Answer, Board, Entry, Note
from demo.columns import Columns
from demo.screen import View
from demo.view import render

FOOTER = "kubectl get pods\nCtrl-C stops everything."


def board(*, pods: int = 20, ready: bool = True) -> Board:
    shown = Board([("Foo", "default", "f"), ("Memcached", "default", "m")], Columns([]))
    shown.samples["Foo", "default", "f"] = Entry(
        "foos",
        "Foo",
        "default",
        "f",
        "happy",
        True,
        [("Happy", "True", "jack is there")],
        [("Friend", "jack")],
    )
    for number in range(pods):
        name = f"pod-{number:02d}"
        state = "Running, ready" if ready or number else "Pending"
        entry = Entry("pods", "Pod", "default", name, state, ready or number > 0)
        shown.workloads["pods", "default", name] = entry
    shown.notes += [
        Note("10:00:00", False, "pod/pod-00", "Scheduled", "on a node"),
        Note("10:00:01", True, "pod/pod-01", "Failed", "it broke"),
        Note("10:00:02", False, "foo/f", "BecameHappy", "Pod jack is there", custom=True),
    ]
    return shown


def shown(what: Board, *, width: int = 100, height: int = 60, footer: str = FOOTER) -> str:
    text = io.StringIO()
    console = Console(file=text, width=width, height=height)
    console.print(render(what, footer, console, height=height))
    return text.getvalue()


def test_a_tall_terminal_shows_everything() -> None:
    text = shown(board())
    for wanted in (
        "foo/f",
        "happy",
        "Friend jack",
        "memcached/m",
        "not there",
        "pod/pod-00",
        "pod/pod-19",
        FOOTER[:16],
    ):
        assert wanted in text


def test_events_are_those_of_custom_resources_and_warnings() -> None:
    text = shown(board())
    assert "BecameHappy" in text
    assert "it broke" in text
    assert "Scheduled" not in text


def test_where_room_is_short_workloads_are_counted_and_those_that_are_not_ready_named() -> None:
    text = shown(board(ready=False), height=20)
    assert "19 of 20 ready" in text
    assert "pod-00: Pending" in text
    assert "pod-01" not in text.replace("pod/pod-01", "")
    assert "BecameHappy" in text


def test_a_wide_terminal_has_values_and_reasons_side_by_side() -> None:
    assert "jack is there" not in shown(board(pods=0), width=100).split("Events")[0]
    text = shown(board(pods=0), width=140).split("Events")[0]
    assert "Friend jack" in text
    assert "jack is there" in text


@pytest.mark.parametrize("height", range(8, 50, 3))
@pytest.mark.parametrize("width", [40, 100, 140])
def test_it_fits_and_says_what_to_do_next_whatever_the_terminal(width: int, height: int) -> None:
    for pods in (0, 3, 30):
        lines = shown(board(pods=pods), width=width, height=height).splitlines()
        assert len(lines) <= height
        assert any("Ctrl-C stops" in line for line in lines)


@pytest.mark.parametrize(
    "long", ["export KUBECONFIG=/" + "#" * 150, "health and " + "#" * 55 + " " + "#" * 95]
)
def test_long_commands_are_wrapped_not_cut(long: str) -> None:
    text = shown(board(), footer=long, width=60, height=16)
    assert text.count("#") == 150
    assert len(text.splitlines()) <= 16


def test_what_webhooks_say_is_above_what_goes_on() -> None:
    what = board()
    refusal = 'Pet.petstore.example.com "pet-unborn" is invalid: spec.birthday: must not be in the future'
    what.answers = [
        Answer("pet/pet-unborn", "refused", refusal, refused=True),
        Answer("pet/pet-old", "converted", "v1alpha1 type dog -> v1beta1 species dog"),
    ]
    text = shown(what)
    assert "pet/pet-unborn  refused    spec.birthday: must not be in the future" in text
    assert "pet/pet-old     converted  v1alpha1 type dog -> v1beta1 species dog" in text
    assert text.index("Webhooks") < text.index("Workloads")


@pytest.mark.parametrize("height", range(8, 30))
def test_with_them_it_fits_all_the_same(height: int) -> None:
    what = board()
    what.answers = [Answer(f"pet/{number}", "refused", "no") for number in range(2)]
    assert len(shown(what, height=height).splitlines()) <= height


@pytest.mark.skipif(not hasattr(pty, "openpty"), reason="no terminals here")
def test_a_terminal_that_was_closed_is_lost() -> None:
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as file:
        view = View(Console(file=file))
        before = view.lost
        os.close(leader)
        assert (before, view.lost) == (False, True)
