"""Settings that operators declare, on the command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from controllers.main import PROGRAM
from manager.cli.arguments import UsageError
from manager.cli.flags import parse_flags
from manager.cli.operators import declared_settings
from manager.duration import parse_duration
from manager.settings import Setting, SettingsError, SettingValues, UndeclaredSetting
from tests.unit.cli.conftest import Command, operator

LABEL = Setting("store-label", default="main", description="What it is called", placeholder="TEXT")
INTERVAL = Setting("store-interval", parse_duration, default="10m", description="How often")
GREETING = Setting("greeting", description="What to say")
STORE, GREETER = operator("store", LABEL, INTERVAL), operator("greeter", GREETING)
OPERATORS = (STORE, GREETER, operator("plain"))


def setting(name: str) -> Setting[str | None]:
    return Setting(name, description="")


@pytest.fixture(autouse=True)
def none_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in declared_settings(OPERATORS, PROGRAM):
        monkeypatch.delenv(each.variable, raising=False)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[SettingValues]:
    """The values that managers were to be made with; they are made by nobody."""
    seen: list[SettingValues] = []

    class Ended:
        async def run(self, stop: asyncio.Event) -> None:
            """End at once."""

    @asynccontextmanager
    async def assembled(*arguments: object) -> AsyncIterator[Ended]:
        [values] = [each for each in arguments if isinstance(each, SettingValues)]
        seen.append(values)
        yield Ended()

    monkeypatch.setattr("manager.cli.run.assembled", assembled)
    return seen


# Names.


def test_all_are_known_in_the_order_of_their_operators():
    assert declared_settings(OPERATORS, PROGRAM) == (LABEL, INTERVAL, GREETING)


def test_one_that_operators_share_is_one():
    assert declared_settings([STORE, operator("other", LABEL)], PROGRAM) == (*(LABEL, INTERVAL),)


def test_a_name_that_two_operators_declare_is_told_with_both(command: Command):
    twice = (STORE, operator("other", setting("store-label")))
    outcome = command("run", operators=twice)
    assert outcome.code == 2
    assert outcome.err == (
        "operator-manager: run: the operator other declares --store-label, "
        "but --store-label belongs to the operator store\n"
    )


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("log-level", "--log-level belongs to the manager itself"),
        ("help", "--help belongs to the manager itself"),
        ("watch-namespace", "WATCH_NAMESPACE belongs to the manager itself"),
        ("operator-manager-log-level", "OPERATOR_MANAGER_LOG_LEVEL belongs to the manager itself"),
        ("operator-manager-colour", r"OPERATOR_MANAGER_\* is the manager's own"),
    ],
)
def test_a_name_of_the_managers_own_is_refused(name: str, told: str):
    with pytest.raises(SettingsError, match=f"^the operator bold declares --{name}, but {told}$"):
        declared_settings([operator("bold", setting(name))], PROGRAM)


# Flags and help.


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--store-label=a", "--log-level=debug"], {"store-label": "a", "log-level": "debug"}),
        (["--store-label", "a", "--store-label=b,c"], {"store-label": "b,c"}),
        (["--greeting="], {"greeting": ""}),
    ],
)
def test_their_flags_are_read_as_the_managers_own_are(argv: list[str], expected: dict[str, str]):
    assert parse_flags(argv, OPERATORS, PROGRAM) == expected


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--store-lable=a"], "run: unknown flag '--store-lable'; did you mean --store-label?"),
        (["--store-label"], "run: --store-label needs a value, as in --store-label=VALUE"),
    ],
)
def test_what_is_wrong_with_their_flags_is_told_alike(argv: list[str], told: str):
    with pytest.raises(UsageError) as error:
        parse_flags(argv, OPERATORS, PROGRAM)
    assert str(error.value) == told


def test_help_shows_them_under_their_operator(command: Command):
    text = command("run", "--help", operators=OPERATORS).out
    shown = text[text.index("\nOperator store:") :]
    assert shown == (
        "\nOperator store:\n"
        "  --store-label TEXT\n        What it is called (default main; environment STORE_LABEL)\n"
        "  --store-interval DURATION\n        How often (default 10m; environment STORE_INTERVAL)\n"
        "\nOperator greeter:\n"
        "  --greeting VALUE\n        What to say (default none; environment GREETING)\n"
    )


# Running.


def test_operators_that_run_get_what_was_given(
    command: Command, given: list[SettingValues], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GREETING", "hello")
    assert command("run", "--store-interval=1m", operators=OPERATORS).code == 0
    [values] = given
    assert (values[LABEL], values[INTERVAL], values[GREETING]) == ("main", 60.0, "hello")


def test_settings_of_an_operator_that_does_not_run_are_accepted_and_left_unread(
    command: Command, given: list[SettingValues]
):
    outcome = command("run", "--controllers=greeter", "--store-interval=nonsense", operators=OPERATORS)
    assert (outcome.code, outcome.err) == (0, "")
    [values] = given
    assert values[GREETING] is None
    with pytest.raises(UndeclaredSetting):
        values[INTERVAL]


def test_a_wrong_value_ends_in_one_line_before_anything_is_done(command: Command, given: list[SettingValues]):
    outcome = command("run", "--store-interval=nonsense", operators=OPERATORS)
    assert (outcome.code, outcome.out, given) == (2, "", [])
    assert outcome.err.startswith("operator-manager: run: invalid value 'nonsense' for --store-interval: ")
    assert outcome.err.count("\n") == 1
