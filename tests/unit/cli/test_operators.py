"""Discovery of the program's operators and of installed operators, and their settings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apis.cache.v1.memcached import Memcached
from controllers.main import OPERATORS as SHIPPED
from controllers.main import PROGRAM
from manager import Context, Operator, Watch
from manager.api import ApiModel, Resource, crd
from manager.cli.operators import declared_settings, enabled_operators, owned_by
from manager.operator import AnyOperator
from manager.settings import Setting, SettingsError
from manager.util.duration import parse_duration
from manager_kinds.apps_v1 import Deployment
from tests.support.kinds import Gadget, OldGadget
from tests.unit.cli.conftest import OPERATORS as SELECTED
from tests.unit.cli.conftest import Assemble, Command, Install, Plain, operator

LABEL = Setting("store-label", default="main", description="What it is called", placeholder="TEXT")
INTERVAL = Setting("store-interval", parse_duration, default="10m", description="How often")
GREETING = Setting("greeting", description="What to say")
OPERATORS = (operator("store", LABEL, INTERVAL), operator("greeter", GREETING), operator("plain"))


def setting(name: str) -> Setting[str | None]:
    return Setting(name, description="")


@pytest.fixture(autouse=True)
def none_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in declared_settings(OPERATORS, PROGRAM):
        monkeypatch.delenv(each.variable, raising=False)


def test_declared_settings_have_the_order_of_their_operators():
    assert declared_settings((*OPERATORS, operator("other", LABEL)), PROGRAM) == (LABEL, INTERVAL, GREETING)


COMMANDS = ("run", "crds", "generate", "simulate", "plan")


class Idle(Operator[Memcached]):
    """Operator that reconciles nothing."""


class Lossy(Operator[Gadget]):
    """Operator without a conversion method for its other version."""

    versions = (OldGadget,)

    async def reconcile(self, obj: Gadget, ctx: Context) -> None: ...


@crd()
class Second(Resource, group="cache.example.com", version="v1", kind="Memcached", plural="memcacheds"):
    """Second model class of the same kind."""


@crd()
class SamePlural(Resource, group="cache.example.com", version="v1", plural="memcacheds"):
    """Different kind with the same plural."""


def of_kind(kind: type[Resource]) -> AnyOperator:
    return type("Other", (Plain,), {"kind": kind, "name": "other"})


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((Idle,), "Idle has no reconcile, and no webhook either: it would do nothing"),
        ((Lossy,), "Lossy has versions, but no method"),
        ((operator("plain"),), "Named and Named are both called plain: give one of them another"),
        ((Memcached,), "<class 'apis.cache.v1.memcached.Memcached'> is no operator, as in class"),
        (("memcached",), "'memcached' is no operator, as in class Name(Operator[Kind])"),
        ((of_kind(Second),), "Memcached: a version is defined twice: v1, by apis.cache.v1.memcached."),
        ((of_kind(SamePlural),), "SamePlural: Memcached has the plural memcacheds already"),
        *(
            ((operator("b", setting(name)),), f"the operator b declares --{name}, but {told}")
            for name, told in (
                ("log-level", "--log-level belongs to the manager itself"),
                ("help", "--help belongs to the manager itself"),
                ("watch-namespace", "WATCH_NAMESPACE belongs to the manager itself"),
                ("operator-manager-log-level", "OPERATOR_MANAGER_LOG_LEVEL belongs to the manager itself"),
                ("operator-manager-colour", "OPERATOR_MANAGER_* is the manager's own"),
                ("store-label", "--store-label belongs to the operator store"),
                ("store-port", "Kubernetes sets STORE_PORT for a Service of that name"),
            )
        ),
    ],
)
def test_every_command_refuses_invalid_operators_with_the_same_message(
    command: Command, more: tuple[Any, ...], told: str
):
    for each in COMMANDS:
        assert command(each, operators=(*OPERATORS, *more)).refusal(1).startswith(f"{each}: {told}")


def test_crds_command_prints_a_crd_once_when_two_operators_reconcile_its_kind(command: Command):
    both = (operator("first"), operator("second"))
    assert command("crds", operators=both).out == command("crds", operators=both[:1]).out


@pytest.mark.parametrize(
    ("declare", "told"),
    [
        (lambda: type("Bad", (Plain,), {"owns": ("Deployment",)}), "Bad.owns takes a tuple of kinds, or of"),
        (lambda: setting("Bad"), "'Bad' cannot name a setting: lower-case words joined by"),
        (lambda: Watch(Memcached), "Watch(Memcached) needs either label or enqueue"),
        (lambda: type("Bad", (ApiModel,), {"__annotations__": {"size": 5}}), "Unable to generate"),
    ],
    ids=["attribute", "setting", "source", "model"],
)
def test_invalid_operator_class_is_reported_in_one_line_with_file_and_line(
    command: Command, declare: Callable[[], Any], told: str
):
    def operators() -> list[Any]:
        return [declare()]

    for each in COMMANDS:
        _, place, line, said = command(each, operators=operators).refusal(1).split(":", 3)
        assert place.endswith("test_operators.py")
        assert line.isdigit()
        assert said.startswith(f" {told}")


def test_command_propagates_an_exception_from_the_function_that_returns_the_operators(command: Command):
    def operators() -> list[Any]:
        raise ValueError("their own")

    with pytest.raises(ValueError, match=r"^their own$"):
        command("crds", operators=operators)


def enabled(*entries: str) -> list[str]:
    return [operator.name for operator in enabled_operators(SELECTED, entries, where="--controllers")]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (("*",), ["memcached", "foo", "pet"]),
        (("*", "-foo"), ["memcached", "pet"]),
        (("-foo", "*"), ["memcached", "pet"]),
        (("pet", "memcached"), ["memcached", "pet"]),
        (("foo", "-foo"), ["foo"]),
        (("-foo", "foo", "*"), ["memcached", "pet"]),
    ],
)
def test_controllers_setting_uses_the_first_of_several_entries_for_a_controller(
    entries: tuple[str, ...], expected: list[str]
):
    assert enabled(*entries) == expected


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        *(
            (
                ("*", entry),
                "unknown controller 'memcache'; did you mean 'memcached'? the controllers are memcached, ",
            )
            for entry in ("memcache", "-memcache")
        ),
        (("-foo",), "'-foo' leaves no controller to run; to run all but some"),
        (("*", "-memcached", "-foo", "-pet"), "'*,-memcached,-foo,-pet' leaves no controller to run"),
    ],
)
def test_controllers_setting_is_refused_for_an_unknown_name_or_without_any_controller(
    entries: tuple[str, ...], problem: str
):
    with pytest.raises(SettingsError) as error:
        enabled(*entries)
    assert str(error.value).startswith(f"--controllers: {problem}")


def test_owned_by_maps_each_reconciled_kind_to_the_child_kinds_that_its_operators_declare():
    assert owned_by(SHIPPED)[Memcached.gvk] == [Deployment.gvk]


SOURCE = """
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
    """Return a function that installs `SOURCE` as a package with the given entry point."""

    def put(value: str, package: str = "hello-operators", group: str = "operator_manager.operators") -> None:
        install_package(MODULE, SOURCE, value, group=group, package=package)

    return put


def test_run_starts_installed_and_built_in_operators_and_help_names_the_package(
    command: Command, install: Install, assemble: Assemble
):
    asked = assemble()
    install(f"hi = {MODULE}:Greeter", group="greenhouse.operators", package="other-operators")
    assert "greeter" not in command("run", "--help").out, "the package is for another program"
    install(f"hi = {MODULE}:Greeter")
    for argv in (["--greeter-words=bye"], ["--controllers=greeter"], ["--controllers=*,-greeter"]):
        assert command("run", *argv).code == 0
    assert [operators for _, operators, _ in asked] == [
        ["memcached", "foo", "pet", "greeter"],
        ["greeter"],
        ["memcached", "foo", "pet"],
    ]
    help_ = command("run", "--help").out
    assert "The controllers are: memcached, foo, pet, greeter.\n" in help_
    assert "greeter comes from the installed package hello-operators 1.2.\n" in help_
    assert "\nOperator greeter:\n  --greeter-words VALUE\n" in help_


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_module:X", "no_such_module:X, cannot be loaded: ModuleNotFoundError: No module named"),
        (f"{MODULE}:GREETING", "cannot be loaded: AttributeError"),
        (f"{MODULE}:Setting", f"{MODULE}:Setting, is not an operator class with a kind"),
        (f"{MODULE}:Many", "is not an operator class with a kind"),
    ],
)
@pytest.mark.parametrize("argv", [("run",), ("crds",), ("run", "--help")], ids=" ".join)
def test_run_error_names_an_installed_operator_that_cannot_be_loaded(
    command: Command, install: Install, value: str, said: str, argv: tuple[str, ...]
):
    install(f"hi = {value}")
    told = command(*argv).refusal(1)
    assert told.startswith(f"{argv[0]}: the operator hi of hello-operators 1.2, ")
    assert said in told
    assert [command(each).code for each in ("version", "--version", "--help")] == [0] * 3


def test_run_refuses_two_installed_operators_with_the_same_name(command: Command, install: Install):
    (Path(sys.path[0]) / f"{MODULE}_again.py").write_text(SOURCE)
    install(f"a = {MODULE}:Greeter")
    install(f"b = {MODULE}_again:Greeter", package="other-operators")
    assert command("run").refusal(1) == (
        "run: Greeter of hello-operators 1.2 and Greeter of other-operators 1.2 are both called greeter: "
        "give one of them another `name`"
    )
