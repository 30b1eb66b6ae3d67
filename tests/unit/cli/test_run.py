"""Operators that installed packages bring along, as entry points."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from manager.election.guard import LeadershipLost
from manager.kube.errors import ConfigError, Unreachable
from manager.process.manager import CannotStart
from manager.server.server import CannotListen
from manager.settings import SettingsError
from tests.unit.cli.conftest import Assemble, Command, Install


def failing(error: Exception) -> Callable[[asyncio.Event], Any]:
    async def fail(stop: asyncio.Event) -> None:
        raise error

    return fail


def test_run_exits_with_0_after_a_clean_end(command: Command, assemble: Assemble):
    asked = assemble()
    outcome = command("run", "--controllers=*,-foo", "--leader-elect", "--concurrency=pet=3")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    [(settings, operators, _)] = asked
    assert settings.leader_elect
    assert settings.concurrency == {"pet": 3}
    assert operators == ["memcached", "pet"]


@pytest.mark.parametrize("text", ["3", "1", "512", "-2", "04", "two", ""])
def test_run_refuses_a_number_of_shards_that_is_not_a_power_of_two(
    command: Command, assemble: Assemble, text: str
):
    assemble()
    told = command("run", f"--shards={text}").refusal()
    assert "--shards" in told
    assert "0, or a power of two from 2 to 256 is expected" in told


def test_run_stops_on_a_signal(command: Command, assemble: Assemble):
    async def until_stopped(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()

    assemble(until_stopped)
    outcome = command("run")
    assert outcome.code == 0
    [line] = outcome.err.splitlines()
    assert json.loads(line)["signal"] == "SIGTERM"


def test_run_ends_on_a_signal_before_the_cluster_answers(command: Command, monkeypatch: pytest.MonkeyPatch):
    @asynccontextmanager
    async def assembled(*_: object) -> AsyncIterator[None]:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr("manager.cli.run.assembled", assembled)
    assert command("run").code == 0


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Unreachable("connection refused"), "connection refused"),
        (LeadershipLost("the lease is gone"), "no longer the leader: the lease is gone"),
        (CannotListen("Address already in use"), "Address already in use"),
        (CannotStart("no route"), "no route"),
        (OSError("no space"), "no space"),
        (ExceptionGroup("a", [ExceptionGroup("b", [Unreachable("no\n way"), KeyError()])]), "no way"),
    ],
)
def test_run_fails_with_one_log_line_after_an_external_error(
    command: Command, assemble: Assemble, error: Exception, said: str
):
    assemble(failing(error))
    outcome = command("run", "--log-format=json")
    assert outcome.code == 1
    [line] = outcome.err.splitlines()
    told = json.loads(line)
    assert told["level"] == "error"
    assert told["msg"].endswith(said)
    assert "stacktrace" not in told


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("kubeconfig /nope: no such file"), 1), (SettingsError("MEMCACHED_IMAGE is empty"), 2)],
)
def test_run_reports_config_errors_in_plain_text_even_with_json_logs(
    command: Command, assemble: Assemble, error: Exception, code: int
):
    assemble(failing(error))
    outcome = command("run", "--log-format=json")
    assert outcome.refusal(code) == f"run: {error}"


def test_run_logs_the_traceback_of_a_start_error_at_debug(command: Command, assemble: Assemble):
    error = CannotStart("cannot start the connection to the store: KeyError: 'x'")
    error.__cause__ = KeyError("x")
    assemble(failing(error))
    outcome = command("run", "--log-format=json", "--log-level=debug")
    assert outcome.code == 1
    [line, detail] = map(json.loads, outcome.err.splitlines())
    assert (line["level"], detail["level"]) == ("error", "debug")
    assert "KeyError" in detail["stacktrace"]
    assert "stacktrace" not in line


@pytest.mark.parametrize("error", [KeyError("oops"), ValueError("oops"), AssertionError("oops")])
def test_run_logs_an_unexpected_error_with_its_traceback(
    command: Command, assemble: Assemble, error: Exception
):
    assemble(failing(error))
    outcome = command("run")
    assert outcome.code == 1
    [line] = outcome.err.splitlines()
    told = json.loads(line)
    assert told["msg"] == "stopped by an unexpected error"
    assert f"{type(error).__name__}: {error}" in told["stacktrace"]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--frobnicate"], "No such option '--frobnicate'."),
        (["--leader-elect=perhaps"], "invalid value 'perhaps' for --leader-elect: "),
        (["--graceful-shutdown-timeout=30"], "invalid value '30' for --graceful-shutdown-timeout: "),
        (["--controllers=mamcached"], "--controllers: unknown controller 'mamcached'"),
        (["--concurrency=bar=1"], "--concurrency: unknown controller 'bar'"),
        (["--max-concurrent-rollouts=bar=1"], "--max-concurrent-rollouts: unknown controller 'bar'"),
        (["--config=/nope"], "/nope: cannot read the settings file"),
    ],
)
def test_run_refuses_wrong_flags_in_one_line_before_it_starts(
    command: Command, monkeypatch: pytest.MonkeyPatch, argv: list[str], expected: str
):
    def assembled(*_: object) -> AbstractAsyncContextManager[None]:
        pytest.fail("it was started")

    monkeypatch.setattr("manager.cli.run.assembled", assembled)
    assert command("run", *argv).refusal().startswith(f"run: {expected}")


def test_run_names_the_environment_variable_of_a_wrong_value(
    command: Command, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPERATOR_MANAGER_CONTROLLERS", "nope")
    told = command("run").refusal()
    assert "the environment variable OPERATOR_MANAGER_CONTROLLERS: unknown controller 'nope'" in told


def test_run_warns_of_a_mistyped_environment_variable(
    command: Command, monkeypatch: pytest.MonkeyPatch, assemble: Assemble
):
    monkeypatch.setenv("OPERATOR_MANAGER_LOGLEVEL", "debug")
    assemble()
    outcome = command("run")
    [line] = outcome.err.splitlines()
    told = json.loads(line)
    assert (told["level"], told["variable"]) == ("warn", "OPERATOR_MANAGER_LOGLEVEL")


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


@pytest.fixture
def install(install_package: Install) -> Install:
    """Return a function that installs a package with the operators above, given an entry point's line."""

    def put(value: str, package: str = "hello-operators", group: str = "operator_manager.operators") -> None:
        install_package(MODULE, GREETER, value, group=group, package=package)

    return put


def test_run_starts_installed_operators_beside_built_in_ones(
    command: Command, install: Install, assemble: Assemble
):
    asked = assemble()
    install(f"hi = {MODULE}:Greeter")
    assert command("run", "--greeter-words=bye").code == 0
    assert command("run", "--controllers=greeter").code == 0
    assert command("run", "--controllers=*,-greeter").code == 0
    assert [operators for _, operators, _ in asked] == [
        ["memcached", "foo", "pet", "greeter"],
        ["greeter"],
        ["memcached", "foo", "pet"],
    ]


def test_run_help_names_the_package_of_an_installed_operator(command: Command, install: Install):
    install(f"hi = {MODULE}:Greeter")
    help_ = command("run", "--help").out
    assert "The controllers are: memcached, foo, pet, greeter.\n" in help_
    assert "greeter comes from the installed package hello-operators 1.2.\n" in help_
    assert "\nOperator greeter:\n  --greeter-words VALUE\n" in help_


def test_run_ignores_entry_points_of_another_program(command: Command, install: Install):
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
def test_run_names_a_broken_installed_operator_in_one_line(
    command: Command, install: Install, value: str, said: str, argv: tuple[str, ...]
):
    install(f"hi = {value}")
    told = command(*argv).refusal(1)
    assert told.startswith(f"{argv[0]}: the operator hi of hello-operators 1.2, ")
    assert said in told


def test_run_refuses_an_installed_operator_with_the_name_of_a_built_in_one(
    command: Command, install: Install
):
    install(f"hi = {MODULE}:Second")
    assert command("run").refusal(1) == (
        "run: Named and Second of hello-operators 1.2 are both called foo: give one of them another `name`"
    )


def test_run_refuses_two_installed_operators_of_one_name(command: Command, install: Install):
    (Path(sys.path[0]) / f"{MODULE}_again.py").write_text(GREETER)
    install(f"a = {MODULE}:Greeter")
    install(f"b = {MODULE}_again:Greeter", package="other-operators")
    assert command("run").refusal(1) == (
        "run: Greeter of hello-operators 1.2 and Greeter of other-operators 1.2 are both called greeter: "
        "give one of them another `name`"
    )


@pytest.mark.parametrize("argv", ["version", "--version", "--help"])
def test_version_and_help_work_beside_a_broken_operator_package(
    command: Command, install: Install, argv: str
):
    install("hi = no_such_module:X")
    assert command(argv).code == 0
