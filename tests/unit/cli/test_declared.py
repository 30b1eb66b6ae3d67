"""Flags of `run`: those of the manager, and the settings that operators declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import pytest

from apis.cache.v1.memcached import Memcached
from controllers.main import PROGRAM
from manager import Operator, Watch
from manager.api import ApiModel, Resource, crd
from manager.cli.operators import declared_settings
from manager.cli.settings import OWN
from manager.settings import Setting, SettingsError, UndeclaredSetting, parse_bool
from manager.util.duration import parse_duration
from tests.support.settings import parse_flags
from tests.unit.cli.conftest import Assemble, Command, Plain, operator

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


# Names.


def test_declared_settings_come_in_the_order_of_their_operators():
    assert declared_settings(OPERATORS, PROGRAM) == (LABEL, INTERVAL, GREETING)


def test_declared_settings_list_a_shared_setting_once():
    assert declared_settings([STORE, operator("other", LABEL)], PROGRAM) == (*(LABEL, INTERVAL),)


def test_setting_declared_by_two_operators_is_refused_with_both_names(command: Command):
    twice = (STORE, operator("other", setting("store-label")))
    for each in COMMANDS:
        assert command(each, operators=twice).refusal(1) == (
            f"{each}: the operator other declares --store-label, "
            "but --store-label belongs to the operator store"
        )


COMMANDS = ("run", "crds", "generate", "simulate", "plan")


class Idle(Operator[Memcached]):
    """Operator that does nothing."""


@crd()
class Second(Resource, group="cache.example.com", version="v1", kind="Memcached", plural="memcacheds"):
    """Another model of the same kind."""


@crd()
class SamePlural(Resource, group="cache.example.com", version="v1", plural="memcacheds"):
    """Another kind with the same plural."""


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((Idle,), "Idle has no reconcile, and no webhook either: it would do nothing"),
        (
            (Memcached,),
            "<class 'apis.cache.v1.memcached.Memcached'> is no operator, as in class Name(Operator",
        ),
        (("memcached",), "'memcached' is no operator, as in class Name(Operator[Kind])"),
        (
            (type("Other", (Plain,), {"kind": Second, "name": "other"}),),
            "Memcached: a version is there twice: v1, by apis.cache.v1.memcached.Memcached and tests.unit.",
        ),
        (
            (type("Other", (Plain,), {"kind": SamePlural, "name": "other"}),),
            "SamePlural: Memcached has the plural memcacheds already",
        ),
        (
            (operator("b", setting("log-level")),),
            "the operator b declares --log-level, but --log-level belongs",
        ),
        (
            (operator("b", setting("operator-manager-colour")),),
            "the operator b declares --operator-manager-colour, but OPERATOR_MANAGER_* is the manager's own",
        ),
        (
            (operator("b", setting("store-port")),),
            "the operator b declares --store-port, but Kubernetes sets STORE_PORT for a Service of that name",
        ),
    ],
    ids=["idle", "a kind", "a text", "model", "plural", "flag", "prefix", "service"],
)
def test_commands_refuse_invalid_operators_alike(command: Command, more: tuple[Any, ...], told: str):
    for each in COMMANDS:
        assert command(each, operators=(*OPERATORS, *more)).refusal(1).startswith(f"{each}: {told}")


def test_crds_lists_a_kind_of_two_operators_once(command: Command):
    both = (operator("first"), operator("second"))
    assert command("crds", operators=both).out == command("crds", operators=both[:1]).out


@pytest.mark.parametrize(
    ("declare", "told"),
    [
        (
            lambda: type("Bad", (Plain,), {"owns": ("Deployment",)}),
            "Bad.owns takes kinds, or `Owns(Kind, ...)`, and",
        ),
        (lambda: setting("Bad"), "'Bad' cannot name a setting: lower-case words joined by"),
        (lambda: Watch(Memcached), "Watch(Memcached) needs either label or enqueue"),
        (lambda: type("Bad", (ApiModel,), {"__annotations__": {"size": 5}}), "Unable to generate"),
    ],
    ids=["attribute", "setting", "source", "model"],
)
def test_class_that_the_library_refuses_is_told_in_one_line_with_its_place(
    command: Command, declare: Callable[[], Any], told: str
):
    def operators() -> list[Any]:
        return [declare()]

    for each in COMMANDS:
        _, place, line, said = command(each, operators=operators).refusal(1).split(":", 3)
        assert place.endswith("test_declared.py")
        assert line.isdigit()
        assert said.startswith(f" {told}")


def test_command_passes_on_an_exception_of_the_application(command: Command):
    def operators() -> list[Any]:
        raise ValueError("their own")

    with pytest.raises(ValueError, match=r"^their own$"):
        command("crds", operators=operators)


def test_default_of_a_setting_may_be_what_a_file_has(command: Command):
    numbers = (
        operator(
            "numbers",
            Setting("count", int, default=8, description="How many"),
            Setting("ratio", float, default=0.5, description="Which part"),
            Setting("store-open", parse_bool, default=True, description="Whether"),
        ),
    )
    assert [each.default_value() for each in declared_settings(numbers, PROGRAM)] == [8, 0.5, True]
    shown = " ".join(command("run", "--help", operators=numbers).out.split())
    assert all(f"(default {each};" in shown for each in ("8", "0.5", "true"))
    with pytest.raises(ValueError, match=r"^the default \[\] of the setting 'x': a text is expected$"):
        Setting("x", default=[], description="")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"^the setting 'x' needs a description"):
        Setting("x")  # type: ignore[call-overload]


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
def test_setting_with_the_name_of_a_manager_flag_is_refused(name: str, told: str):
    with pytest.raises(SettingsError, match=f"^the operator bold declares --{name}, but {told}$"):
        declared_settings([operator("bold", setting(name))], PROGRAM)


# Flags and help.


def test_run_help_lists_settings_under_their_operator(command: Command):
    text = command("run", "--help", operators=OPERATORS).out
    shown = text[text.index("\nOperator store:") :]
    assert " ".join(shown.split()) == (
        "Operator store: "
        "--store-label TEXT What it is called (default main; environment STORE_LABEL) "
        "--store-interval DURATION How often (default 10m; environment STORE_INTERVAL) "
        "Operator greeter: "
        "--greeting VALUE What to say (default none; environment GREETING)"
    )


# Running.


def test_run_passes_settings_from_flags_and_environment_to_operators(
    command: Command, assemble: Assemble, monkeypatch: pytest.MonkeyPatch
):
    asked = assemble()
    monkeypatch.setenv("GREETING", "hello")
    assert command("run", "--store-interval=1m", operators=OPERATORS).code == 0
    [(_, _, values)] = asked
    assert (values[LABEL], values[INTERVAL], values[GREETING]) == ("main", 60.0, "hello")


def test_settings_of_an_operator_that_does_not_run_are_accepted_and_left_unread(
    command: Command, assemble: Assemble
):
    asked = assemble()
    outcome = command("run", "--controllers=greeter", "--store-interval=nonsense", operators=OPERATORS)
    assert (outcome.code, outcome.err) == (0, "")
    [(_, _, values)] = asked
    assert values[GREETING] is None
    with pytest.raises(UndeclaredSetting):
        values[INTERVAL]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], {}),
        (["--log-level=debug"], {"log-level": "debug"}),
        (["--log-level", "debug"], {"log-level": "debug"}),
        (["--log-level=debug", "--log-level=warn"], {"log-level": "warn"}),
        (["--leader-elect"], {"leader-elect": "true"}),
        (["--leader-elect=true"], {"leader-elect": "true"}),
        (["--leader-elect=false"], {"leader-elect": "false"}),
        (["--leader-elect", "false"], {"leader-elect": "false"}),
        (["--leader-elect", "--context=a"], {"leader-elect": "true", "context": "a"}),
        (["--controllers=*,-foo"], {"controllers": "*,-foo"}),
        (["--controllers=-foo"], {"controllers": "-foo"}),
        (["--controllers", "-foo"], {"controllers": "-foo"}),
        (["--concurrency=a=1", "--concurrency", "b=2,c=3"], {"concurrency": "a=1,b=2,c=3"}),
        (["--namespaces=a", "--namespaces=b"], {"namespaces": "a,b"}),
        (["--kubeconfig="], {"kubeconfig": ""}),
        (["--metrics-bind-address=[::]:8080"], {"metrics-bind-address": "[::]:8080"}),
        # The operators' flags parse alike.
        (["--store-label=a", "--log-level=debug"], {"store-label": "a", "log-level": "debug"}),
        (["--store-label", "a", "--store-label=b,c"], {"store-label": "b,c"}),
        (["--greeting="], {"greeting": ""}),
    ],
)
def test_parse_flags_reads_flags_as_go_programs_do(argv: list[str], expected: dict[str, str]):
    assert parse_flags(argv, OPERATORS) == expected


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--leader-elekt"], "No such option '--leader-elekt'. (Did you mean one of: '--leader-elect', "),
        (
            ["--leader-elekt=true"],
            "No such option '--leader-elekt'. (Did you mean one of: '--leader-elect', ",
        ),
        (["--store-lable=a"], "No such option '--store-lable'. (Did you mean one of: '--store-inter"),
        (["--store-label"], "Option '--store-label' requires an argument."),
        (["--zzz", "value"], "No such option '--zzz'."),
        (["--kube=x"], "No such option '--kube'."),
        (["--log-lev=debug"], "No such option '--log-lev'."),
        (["-v"], "No such option '-v'."),
        (["now"], "Got unexpected extra argument (now)"),
        (["--kubeconfig"], "Option '--kubeconfig' requires an argument."),
    ],
)
def test_parse_flags_reports_a_wrong_flag_in_one_line(argv: list[str], expected: str):
    with pytest.raises(click.UsageError) as error:
        parse_flags(argv, OPERATORS)
    assert error.value.format_message().startswith(expected)
    assert "\n" not in error.value.format_message()


@pytest.mark.parametrize("setting", OWN, ids=lambda setting: setting.name)
def test_run_help_shows_every_setting_with_its_flag_and_variables(command: Command, setting: Setting[Any]):
    text = command("run", "--help").out
    assert f"\n  {setting.flag} " in text
    assert all(name in text for name in setting.variables(PROGRAM))
    # And what holds without it.
    said = " ".join(text.split()).partition(f" {setting.flag} ")[2].partition(" environment ")[0]
    assert "(default " in said


@pytest.mark.parametrize(
    "default", ["15s", "30s", "127.0.0.1:8080", "127.0.0.1:8081", "info", "auto", "false", "*"]
)
def test_run_help_shows_defaults_as_a_user_would_write_them(command: Command, default: str):
    assert f"(default {default};" in " ".join(command("run", "--help").out.split())


def test_run_help_is_the_same_inside_and_outside_a_pod(command: Command, monkeypatch: pytest.MonkeyPatch):
    outside = command("run", "--help").out
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert command("run", "--help").out == outside


def test_run_help_lists_the_controllers(command: Command):
    assert "The controllers are: memcached, foo, pet." in command("run", "--help").out


@pytest.mark.parametrize("columns", ["20", "80", "400"])
def test_run_help_lines_have_at_most_120_characters(
    command: Command, monkeypatch: pytest.MonkeyPatch, columns: str
):
    monkeypatch.setenv("COLUMNS", columns)
    assert max(map(len, command("run", "--help").out.splitlines())) <= 120


def test_plan_flag_comes_before_the_setting_of_that_name(command: Command):
    same = operator("same", setting("timeout"))
    assert command("plan", "--all", "--timeout=soon", operators=[same]).refusal() == (
        'plan: Invalid value for \'--timeout\': a duration such as "15s", "1m30s" or "500ms" is expected'
    )
