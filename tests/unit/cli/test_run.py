"""Operators that installed packages bring along, as entry points."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from manager.cli import run
from manager.cli.failure import cause_of, in_one_line, is_expected
from manager.cli.settings import Settings
from manager.http.server import CannotListen
from manager.kube.errors import ConfigError, Unreachable
from manager.leader.lease import LeadershipLost
from manager.manager import CannotStart
from manager.operator import AnyOperator
from manager.program import Program
from manager.settings import SettingsError, SettingValues
from manager.watchdog import Watchdog
from tests.unit.cli.conftest import Command

Run = Callable[[asyncio.Event], Any]


class FakeManager:
    """A manager of which only its run matters."""

    def __init__(self, run: Run) -> None:
        self.run = run


@pytest.fixture
def assemble(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], list[tuple[Settings, list[str]]]]:
    """Puts a fake in the place of the manager; answers what it was to be made from."""

    def use(run: Run) -> list[tuple[Settings, list[str]]]:
        asked: list[tuple[Settings, list[str]]] = []

        @asynccontextmanager
        async def assembled(
            program: Program,
            settings: Settings,
            operators: Sequence[AnyOperator],
            declared: SettingValues,
            known: Sequence[AnyOperator],
            watchdog: Watchdog,
        ) -> AsyncIterator[FakeManager]:
            assert {operator.name for operator in operators} <= {operator.name for operator in known}
            assert watchdog.due() is None
            asked.append((settings, [operator.name for operator in operators]))
            yield FakeManager(run)

        monkeypatch.setattr("manager.cli.run.assembled", assembled)
        return asked

    return use


async def run_and_end(stop: asyncio.Event) -> None:
    await asyncio.sleep(0)


def failing(error: Exception) -> Run:
    async def fail(stop: asyncio.Event) -> None:
        raise error

    return fail


def test_a_clean_end_is_success(command: Command, assemble: Callable[[Run], list[Any]]):
    asked = assemble(run_and_end)
    outcome = command("run", "--controllers=*,-foo", "--leader-elect", "--concurrency=pet=3")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    [(settings, operators)] = asked
    assert settings.leader_elect
    assert settings.concurrency == {"pet": 3}
    assert operators == ["memcached", "pet"]


@pytest.mark.parametrize("text", ["3", "1", "512", "-2", "04", "two", ""])
def test_a_number_of_shards_that_is_no_power_of_two_is_refused(
    command: Command, assemble: Callable[[Run], list[Any]], text: str
):
    assemble(run_and_end)
    outcome = command("run", f"--shards={text}")
    assert outcome.code == 2
    [line] = outcome.err.splitlines()
    assert "--shards" in line
    assert "0, or a power of two from 2 to 256 is expected" in line


def test_a_signal_stops_the_manager(command: Command, assemble: Callable[[Run], list[Any]]):
    async def until_stopped(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()

    assemble(until_stopped)
    outcome = command("run")
    assert outcome.code == 0
    [line] = outcome.err.splitlines()
    assert json.loads(line)["signal"] == "SIGTERM"


def test_a_signal_before_the_cluster_answers_ends_the_start(
    command: Command, monkeypatch: pytest.MonkeyPatch
):
    @asynccontextmanager
    async def assembled(*_: object) -> AsyncIterator[FakeManager]:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        yield FakeManager(run_and_end)

    monkeypatch.setattr("manager.cli.run.assembled", assembled)
    assert command("run").code == 0


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("cannot reach https://127.0.0.1:1: connection refused"),
        LeadershipLost("the lease was not renewed in time"),
        CannotListen("cannot serve metrics on :8080: Address already in use"),
        CannotStart("cannot start the connection to the store: no route"),
        ExceptionGroup("group", [Unreachable("cannot reach\n it")]),
    ],
)
def test_what_comes_from_outside_ends_in_one_line_and_failure(
    command: Command, assemble: Callable[[Run], list[Any]], error: Exception
):
    assemble(failing(error))
    outcome = command("run", "--log-format=json")
    assert outcome.code == 1
    [line] = outcome.err.splitlines()
    told = json.loads(line)
    assert told["level"] == "error"
    cause = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
    assert told["msg"].endswith(" ".join(str(cause).split()))
    assert "stacktrace" not in told


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("kubeconfig /nope: no such file"), 1), (SettingsError("MEMCACHED_IMAGE is empty"), 2)],
)
def test_what_is_wrong_in_a_file_or_setting_is_told_as_a_wrong_flag_is_whatever_the_format_of_the_log(
    command: Command, assemble: Callable[[Run], list[Any]], error: Exception, code: int
):
    assemble(failing(error))
    outcome = command("run", "--log-format=json")
    assert (outcome.code, outcome.out, outcome.err) == (code, "", f"operator-manager: run: {error}\n")


def test_what_is_told_in_one_line_is_told_in_full_to_whoever_debugs(
    command: Command, assemble: Callable[[Run], list[Any]]
):
    error = CannotStart("cannot start the connection to the store: KeyError: 'x'")
    error.__cause__ = KeyError("x")
    assemble(failing(error))
    outcome = command("run", "--log-format=json", "--log-level=debug")
    assert outcome.code == 1
    [line, detail] = map(json.loads, outcome.err.splitlines())
    assert (line["level"], detail["level"]) == ("error", "debug")
    assert "KeyError" in detail["stacktrace"]
    assert "stacktrace" not in line


def test_a_fault_in_the_program_comes_with_its_traceback(
    command: Command, assemble: Callable[[Run], list[Any]]
):
    assemble(failing(KeyError("oops")))
    outcome = command("run")
    assert outcome.code == 1
    [line] = outcome.err.splitlines()
    told = json.loads(line)
    assert told["msg"] == "stopped by an unexpected error"
    assert "KeyError: 'oops'" in told["stacktrace"]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--frobnicate"], "unknown flag '--frobnicate'"),
        (["--leader-elect=perhaps"], "invalid value 'perhaps' for --leader-elect: "),
        (["--graceful-shutdown-timeout=30"], "invalid value '30' for --graceful-shutdown-timeout: "),
        (
            ["--controllers=mamcached"],
            "--controllers: unknown controller 'mamcached'; did you mean 'memcached'?",
        ),
        (["--controllers=-pet"], "--controllers: '-pet' leaves no controller to run"),
        (["--concurrency=bar=1"], "--concurrency: unknown controller 'bar'"),
        (["--config=/nope"], "/nope: cannot read the settings file"),
    ],
)
def test_wrong_flags_end_in_one_line_before_anything_is_done(
    command: Command, monkeypatch: pytest.MonkeyPatch, argv: list[str], expected: str
):
    def assembled(*_: object) -> AbstractAsyncContextManager[None]:
        pytest.fail("it was started")

    monkeypatch.setattr("manager.cli.run.assembled", assembled)
    outcome = command("run", *argv)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"operator-manager: run: {expected}")
    assert outcome.err.count("\n") == 1


def test_a_name_given_wrongly_in_the_environment_names_the_variable(
    command: Command, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPERATOR_MANAGER_CONTROLLERS", "nope")
    outcome = command("run")
    assert outcome.code == 2
    assert "the environment variable OPERATOR_MANAGER_CONTROLLERS: unknown controller 'nope'" in outcome.err


def test_a_mistyped_variable_is_warned_about(
    command: Command, monkeypatch: pytest.MonkeyPatch, assemble: Callable[[Run], list[Any]]
):
    monkeypatch.setenv("OPERATOR_MANAGER_LOGLEVEL", "debug")
    assemble(run_and_end)
    outcome = command("run")
    [line] = outcome.err.splitlines()
    told = json.loads(line)
    assert (told["level"], told["variable"]) == ("warn", "OPERATOR_MANAGER_LOGLEVEL")


def test_the_cause_in_a_group_is_its_first_error():
    cause = ValueError("deep")
    group = ExceptionGroup("outer", [ExceptionGroup("inner", [cause, KeyError("other")])])
    assert cause_of(group) is cause
    assert cause_of(cause) is cause


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("x"),
        Unreachable("x"),
        LeadershipLost("x"),
        CannotListen("x"),
        CannotStart("x"),
        OSError("x"),
    ],
)
def test_what_comes_from_outside_needs_no_traceback(error: Exception):
    assert is_expected(error)


@pytest.mark.parametrize("error", [ValueError("x"), AttributeError("x"), AssertionError()])
def test_a_fault_in_the_program_needs_one(error: Exception):
    assert not is_expected(error)


def test_one_line_is_enough():
    assert in_one_line(ConfigError("kubeconfig k:\n  not YAML")) == "kubeconfig k: not YAML"
    assert in_one_line(LeadershipLost("the lease is gone")) == "no longer the leader: the lease is gone"


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
        (f"{MODULE}:Setting", f"{MODULE}:Setting, is not an operator class with a kind"),
        (f"{MODULE}:Foo", "is not an operator class with a kind"),
        (f"{MODULE}:Many", "is not an operator class with a kind"),
        (MODULE, "is not an operator class with a kind"),
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
