"""Operators that installed packages bring along, as entry points."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from manager.cli import run
from manager.cli.settings import Settings
from manager.operator import AnyOperator
from manager.program import Program
from tests.unit.cli.conftest import Command

GREETER = """
from apis.tutorial.v1.foo import Foo
from manager import Context, Operator, Setting


class Greeter(Operator[Foo]):
    name = "greeter"
    words = Setting("greeter-words", default="hello", description="What to say")

    async def reconcile(self, foo: Foo, ctx: Context) -> None:
        ...


class Second(Greeter):
    name = "foo"


class Many(Operator):
    name = "many"
"""
MODULE = "hello_from_outside"
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package whose entry points are these, with a module beside it."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{MODULE}.py").write_text(GREETER)

    def put(value: str, package: str = "hello-operators", group: str = "operator_manager.operators") -> None:
        folder = tmp_path / f"{package.replace('-', '_')}-1.2.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        (folder / "entry_points.txt").write_text(f"[{group}]\n{value}\n")
        importlib.invalidate_caches()

    yield put
    sys.modules.pop(MODULE, None)


def test_an_installed_operator_runs_beside_ours(
    command: Command, install: Install, monkeypatch: pytest.MonkeyPatch
):
    asked: list[list[str]] = []

    class Ended:
        async def run(self, stop: asyncio.Event) -> None:
            """End at once."""

    @asynccontextmanager
    async def assembled(
        program: Program, settings: Settings, operators: Sequence[AnyOperator], *_: object
    ) -> AsyncIterator[Ended]:
        asked.append([each.name for each in operators])
        yield Ended()

    monkeypatch.setattr(run, "assembled", assembled)
    install(f"hi = {MODULE}:Greeter")
    assert command("run", "--greeter-words=bye").code == 0
    assert command("run", "--controllers=greeter").code == 0
    assert command("run", "--controllers=*,-greeter").code == 0
    assert asked == [
        ["memcached", "foo", "pet", "greeter"],
        ["greeter"],
        ["memcached", "foo", "pet"],
    ]


def test_help_says_where_it_comes_from(command: Command, install: Install):
    install(f"hi = {MODULE}:Greeter")
    help_ = command("run", "--help").out
    assert "The controllers are: memcached, foo, pet, greeter.\n" in help_
    assert "greeter comes from the installed package hello-operators 1.2.\n" in help_
    assert "\nOperator greeter:\n  --greeter-words VALUE\n" in help_


def test_what_is_installed_for_another_program_is_left_alone(command: Command, install: Install):
    install(f"hi = {MODULE}:Greeter", group="greenhouse.operators")
    assert "greeter" not in command("run", "--help").out


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_module:X", "no_such_module:X, cannot be loaded: ModuleNotFoundError: No module named"),
        (f"{MODULE}:None_", f"{MODULE}:None_, cannot be loaded: AttributeError: "),
        (f"{MODULE}:GREETING", "cannot be loaded: AttributeError"),
        (f"{MODULE}:Setting", f"{MODULE}:Setting, is no class of an operator with a kind"),
        (f"{MODULE}:Foo", "is no class of an operator with a kind"),
        (f"{MODULE}:Many", "is no class of an operator with a kind"),
        (MODULE, "is no class of an operator with a kind"),
    ],
)
@pytest.mark.parametrize("argv", [("run",), ("crds",), ("run", "--help")], ids=" ".join)
def test_a_broken_one_is_named_in_one_line(
    command: Command, install: Install, value: str, said: str, argv: tuple[str, ...]
):
    install(f"hi = {value}")
    outcome = command(*argv)
    assert (outcome.code, outcome.out) == (1, "")
    [line] = outcome.err.splitlines()
    assert line.startswith("operator-manager: the operator hi of hello-operators 1.2, ")
    assert said in line


def test_one_that_has_the_name_of_ours_is_named_with_both(command: Command, install: Install):
    install(f"hi = {MODULE}:Second")
    outcome = command("run")
    assert outcome.code == 1
    assert outcome.err == (
        "operator-manager: Named and Second of hello-operators 1.2 are both called foo: "
        "give one of them another `name`\n"
    )


def test_two_of_one_name_are_named_with_both(command: Command, install: Install):
    (Path(sys.path[0]) / f"{MODULE}_again.py").write_text(GREETER)
    install(f"a = {MODULE}:Greeter")
    install(f"b = {MODULE}_again:Greeter", package="other-operators")
    outcome = command("run")
    assert outcome.code == 1
    assert outcome.err == (
        "operator-manager: Greeter of hello-operators 1.2 and Greeter of other-operators 1.2 are both called "
        "greeter: give one of them another `name`\n"
    )


@pytest.mark.parametrize("argv", ["version", "--version", "--help"])
def test_what_needs_no_operator_answers_also_beside_a_broken_one(
    command: Command, install: Install, argv: str
):
    install("hi = no_such_module:X")
    assert command(argv).code == 0
