from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from manager.cli.settings import Settings
from manager.http.server import CannotListen
from manager.kube.errors import ConfigError, Unreachable
from manager.leader import LeadershipLost
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


def test_a_clean_end_is_success(command: Command, assemble: Callable[[Run], list[Any]]):
    asked = assemble(run_and_end)
    outcome = command("run", "--controllers=*,-foo", "--leader-elect", "--concurrency=pet=3")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    [(settings, operators)] = asked
    assert settings.leader_elect
    assert settings.concurrency == {"pet": 3}
    assert operators == ["memcached", "pet"]


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
        ConfigError("kubeconfig /nope: no such file"),
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
    async def fail(stop: asyncio.Event) -> None:
        raise error

    assemble(fail)
    outcome = command("run", "--log-format=json")
    assert outcome.code == 1
    [line] = outcome.err.splitlines()
    told = json.loads(line)
    assert told["level"] == "error"
    cause = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
    assert told["msg"].endswith(" ".join(str(cause).split()))
    assert "stacktrace" not in told


def test_what_is_told_in_one_line_is_told_in_full_to_whoever_debugs(
    command: Command, assemble: Callable[[Run], list[Any]]
):
    async def fail(stop: asyncio.Event) -> None:
        raise CannotStart("cannot start the connection to the store: KeyError: 'x'") from KeyError("x")

    assemble(fail)
    outcome = command("run", "--log-format=json", "--log-level=debug")
    assert outcome.code == 1
    [line, detail] = map(json.loads, outcome.err.splitlines())
    assert (line["level"], detail["level"]) == ("error", "debug")
    assert "KeyError" in detail["stacktrace"]
    assert "stacktrace" not in line


def test_a_fault_in_the_program_comes_with_its_traceback(
    command: Command, assemble: Callable[[Run], list[Any]]
):
    async def fail(stop: asyncio.Event) -> None:
        raise KeyError("oops")

    assemble(fail)
    outcome = command("run")
    assert outcome.code == 1
    [line] = outcome.err.splitlines()
    told = json.loads(line)
    assert told["msg"] == "stopped by an unexpected error"
    assert "KeyError: 'oops'" in told["stacktrace"]


def test_a_setting_that_an_operator_refuses_is_wrong_usage(
    command: Command, assemble: Callable[[Run], list[Any]]
):
    async def fail(stop: asyncio.Event) -> None:
        raise SettingsError("MEMCACHED_IMAGE is empty")

    assemble(fail)
    outcome = command("run")
    assert (outcome.code, outcome.err) == (2, "operator-manager: run: MEMCACHED_IMAGE is empty\n")


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
