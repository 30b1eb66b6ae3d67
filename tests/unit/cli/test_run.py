"""The command `run`: its flags, its exit codes, and its stop by signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

import pytest

from controllers.main import PROGRAM
from manager.cli.settings import OWN
from manager.election.coordinator import LeadershipLost
from manager.kube.errors import Unreachable
from manager.process.manager import CannotStart
from manager.server.server import CannotServe
from manager.telemetry.watchdog import Watchdog
from tests.support.settings import parse_flags
from tests.unit.cli.conftest import Assemble, Command, operator
from tests.unit.cli.test_operators import GREETING, INTERVAL, LABEL, setting
from tests.unit.cli.test_operators import OPERATORS as DECLARING
from tests.unit.conftest import LogLines


def failing(error: Exception) -> Callable[[asyncio.Event], Any]:
    async def fail(stop: asyncio.Event) -> None:
        raise error

    return fail


def test_run_starts_the_manager_with_its_flags_and_warns_of_an_unknown_environment_variable(
    command: Command, assemble: Assemble, monkeypatch: pytest.MonkeyPatch
):
    asked = assemble()
    outcome = command("run", "--controllers=*,-foo", "--leader-elect", "--concurrency=pet=3")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    [(settings, operators, _)] = asked
    assert settings.leader_elect
    assert settings.concurrency == {"pet": 3}
    assert operators == ["memcached", "pet"]
    monkeypatch.setenv("OPERATOR_MANAGER_LOGLEVEL", "debug")
    warning = json.loads(command("run").err)
    assert (warning["level"], warning["variable"]) == ("warn", "OPERATOR_MANAGER_LOGLEVEL")


def test_run_ends_on_a_signal_even_before_the_cluster_answers(
    command: Command, assemble: Assemble, monkeypatch: pytest.MonkeyPatch
):
    async def until_stopped(stop: asyncio.Event) -> None:
        signal.raise_signal(signal.SIGTERM)
        await stop.wait()

    @asynccontextmanager
    async def assembled(*_: object) -> AsyncIterator[None]:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()
        yield

    assemble(until_stopped)
    outcome = command("run")
    assert (outcome.code, json.loads(outcome.err)["signal"]) == (0, "SIGTERM")
    monkeypatch.setattr("manager.cli.run.assembled", assembled)
    assert command("run").code == 0


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Unreachable("connection refused"), "connection refused"),
        (LeadershipLost("the lease is gone"), "no longer the leader: the lease is gone"),
        (CannotServe("Address already in use"), "Address already in use"),
        (CannotStart("no route"), "no route"),
        (OSError("no space"), "no space"),
        (ExceptionGroup("a", [ExceptionGroup("b", [Unreachable("no\n way"), KeyError()])]), "no way"),
    ],
)
def test_run_exits_with_1_and_one_log_line_after_an_external_error(
    command: Command, assemble: Assemble, error: Exception, said: str
):
    assemble(failing(error))
    outcome = command("run", "--log-format=json")
    assert outcome.code == 1
    [line] = outcome.err.splitlines()
    told = json.loads(line)
    assert told["level"] == "error"
    assert told["error"].endswith(said)
    assert "stacktrace" not in told


def test_run_logs_the_traceback_of_an_expected_error_only_at_debug_level(
    command: Command, assemble: Assemble
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
    assemble(failing(KeyError("oops")))
    outcome = command("run")
    assert outcome.code == 1
    [line] = map(json.loads, outcome.err.splitlines())
    assert line["msg"] == "the manager stopped because of an unexpected error"
    assert "KeyError: 'oops'" in line["stacktrace"]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--leader-elekt"], "No such option '--leader-elekt'. (Did you mean one of: '--leader-elect', "),
        (["--store-lable=a"], "No such option '--store-lable'. (Did you mean one of: '--store-inter"),
        (["--log-lev=debug"], "No such option '--log-lev'."),
        (["--leader-elect=perhaps"], "invalid value 'perhaps' for --leader-elect: "),
        (["--controllers=mamcached"], "--controllers: unknown controller 'mamcached'"),
        (["--concurrency=bar=1"], "--concurrency: unknown controller 'bar'"),
        (["--max-concurrent-rollouts=bar=1"], "--max-concurrent-rollouts: unknown controller 'bar'"),
        (["--config=/nope"], "/nope: cannot read the settings file"),
    ],
)
def test_run_reports_an_invalid_flag_in_one_line_and_does_not_start(
    command: Command, monkeypatch: pytest.MonkeyPatch, argv: list[str], expected: str
):
    def assembled(*_: object) -> AbstractAsyncContextManager[None]:
        pytest.fail("the manager was started")

    monkeypatch.setattr("manager.cli.run.assembled", assembled)
    assert command("run", *argv, operators=DECLARING).refusal().startswith(f"run: {expected}")


def test_run_help_lists_settings_under_their_operator(command: Command):
    text = command("run", "--help", operators=DECLARING).out
    shown = text[text.index("\nOperator store:") :]
    assert " ".join(shown.split()) == (
        "Operator store: "
        "--store-label TEXT What it is called (default main; environment STORE_LABEL) "
        "--store-interval DURATION How often (default 10m; environment STORE_INTERVAL) "
        "Operator greeter: "
        "--greeting VALUE What to say (default none; environment GREETING)"
    )


def test_run_parses_only_the_settings_of_enabled_operators(
    command: Command, assemble: Assemble, monkeypatch: pytest.MonkeyPatch
):
    asked = assemble()
    monkeypatch.setenv("GREETING", "hello")
    assert command("run", "--store-interval=1m", operators=DECLARING).code == 0
    outcome = command("run", "--controllers=greeter", "--store-interval=nonsense", operators=DECLARING)
    assert (outcome.code, outcome.err) == (0, "")
    [(_, _, all_values), (_, _, values)] = asked
    assert (all_values[LABEL], all_values[INTERVAL], all_values[GREETING]) == ("main", 60.0, "hello")
    assert values[GREETING] == "hello"
    with pytest.raises(LookupError):
        values[INTERVAL]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--log-level=debug", "--log-level=warn"], {"log-level": "warn"}),
        (["--leader-elect"], {"leader-elect": "true"}),
        (["--leader-elect=false"], {"leader-elect": "false"}),
        (["--leader-elect", "false"], {"leader-elect": "false"}),
        (["--leader-elect", "--context=a"], {"leader-elect": "true", "context": "a"}),
        (["--controllers=*,-foo"], {"controllers": "*,-foo"}),
        (["--controllers", "-foo"], {"controllers": "-foo"}),
        (["--concurrency=a=1", "--concurrency", "b=2,c=3"], {"concurrency": "a=1,b=2,c=3"}),
        (["--kubeconfig="], {"kubeconfig": ""}),
        (["--namespaces="], {"namespaces": ""}),
        # Flags of operators have the same syntax.
        (["--store-label=a", "--log-level=debug"], {"store-label": "a", "log-level": "debug"}),
        (["--store-label", "a", "--store-label=b,c"], {"store-label": "b,c"}),
    ],
)
def test_parse_flags_accepts_the_flag_syntax_of_go(argv: list[str], expected: dict[str, str]):
    assert parse_flags(argv, DECLARING) == expected


def test_run_help_shows_for_every_setting_its_flag_and_its_variables_and_its_default(command: Command):
    text = command("run", "--help").out
    for own in OWN:
        assert f"\n  {own.flag} " in text
        assert all(name in text for name in own.variables(PROGRAM))
        said = " ".join(text.split()).partition(f" {own.flag} ")[2].partition(" environment ")[0]
        assert "(default " in said


def test_plan_command_flag_overrides_the_operator_setting_of_the_same_name(command: Command):
    same = operator("same", setting("timeout"))
    assert command("plan", "--all", "--timeout=soon", operators=[same]).refusal() == (
        'plan: Invalid value for \'--timeout\': a duration such as "15s", "1m30s" or "500ms" is expected'
    )


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


@contextmanager
def watched_signals() -> Iterator[tuple[Watchdog, asyncio.Event, threading.Event]]:
    """Yield a watchdog, the event that the first stop signal sets, and the event that `before_exit` sets.

    At the end, assert that the signal handlers are restored.
    """
    flushed, numbers = threading.Event(), (signal.SIGTERM, signal.SIGINT)
    handlers = [signal.getsignal(number) for number in numbers]
    with (
        Watchdog(stop_within=3600, before_exit=lambda _: flushed.set()) as watchdog,
        watchdog.stop_on_signals() as stop,
    ):
        assert signal.getsignal(signal.SIGTERM) is not handlers[0]
        yield watchdog, stop, flushed
    assert [signal.getsignal(number) for number in numbers] == handlers


@pytest.mark.each_loop
@pytest.mark.parametrize("taken", ["by nobody else", "by a handler of the loop"])
async def test_stop_signals_take_effect_when_another_library_set_the_wakeup_fd(exits: list[int], taken: str):
    loop = asyncio.get_running_loop()
    with watched_signals() as (_, stop, flushed):
        if taken == "by nobody else":
            signal.set_wakeup_fd(-1)
        else:
            loop.add_signal_handler(signal.SIGUSR1, print)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(stop.wait(), 10)
        signal.raise_signal(signal.SIGTERM)
        assert flushed.wait(10)  # the second signal flushes even if the loop is blocked
        loop.remove_signal_handler(signal.SIGUSR1)
    assert exits == [1]


@pytest.mark.parametrize("is_blocked", [False, True])
async def test_second_stop_signal_flushes_the_log_and_exits_even_if_the_loop_is_blocked(
    exits: list[int], log_lines: LogLines, is_blocked: bool
):
    with watched_signals() as (watchdog, stop, flushed):
        signal.raise_signal(signal.SIGTERM)
        if is_blocked:
            signal.raise_signal(signal.SIGTERM)
            assert flushed.wait(10)
            assert not stop.is_set()  # the loop has not run yet
        else:
            await asyncio.wait_for(stop.wait(), 10)
            assert watchdog.due() is not None
            assert not flushed.is_set()
            signal.raise_signal(signal.SIGINT)
            assert await asyncio.to_thread(flushed.wait, 10)
            assert [line["log_level"] for line in log_lines[:2]] == ["info", "error"]
    assert exits == [1]
    assert log_lines[-1]["event"] == "a second signal ends the process"
