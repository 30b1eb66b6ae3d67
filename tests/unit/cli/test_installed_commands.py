"""Commands of packages that are installed beside a program."""

from __future__ import annotations

import pytest

from manager.cli.commands import GROUP
from tests.unit.cli.conftest import OPERATORS, Command, Install

MODULE = "hello_commands"
SOURCE = """
import click

from manager.cli.commands import LazyCommand, pass_invocation

COMMANDS = (
    LazyCommand("hello", "greet the operators", "hello_commands:hello"),
    LazyCommand("greet", "greet", "hello_commands:greet"),
    LazyCommand("version", "print another version", "hello_commands:hello"),
)
NUMBERS = (1, 2)

@click.group
def greet():
    pass

@greet.command("all")
def everybody():
    pass

@click.command
@click.argument("word")
@pass_invocation
def hello(invocation, word):
    print("hello", invocation.program.name, word, *(each.name for each in invocation.operators()))
    return 3
"""


@pytest.fixture
def install(install_package: Install) -> Install:
    def put(value: str) -> None:
        install_package(MODULE, SOURCE, f"hello = {value}", group=GROUP)

    return put


def test_installed_command_runs_with_the_operators_of_the_program(command: Command, install: Install):
    install(f"{MODULE}:COMMANDS")
    said = command("hello", "again", operators=OPERATORS)
    assert (said.code, said.err) == (3, "")
    assert said.out == "hello operator-manager again memcached foo pet\n"
    assert command("hello").refusal() == "hello: Missing argument 'WORD'."


def test_help_lists_installed_commands_and_each_name_once(command: Command, install: Install):
    install(f"{MODULE}:COMMANDS")
    listed = command("--help").out
    assert "\n  hello            greet the operators\n" in listed
    assert listed.count("\n  version ") == 1
    assert "another version" not in listed


def test_mistyped_installed_command_is_suggested(command: Command, install: Install):
    install(f"{MODULE}:COMMANDS")
    assert command("helo").refusal() == "No such command 'helo'. Did you mean 'hello'?"


def test_completion_offers_subcommands_of_an_installed_command(
    command: Command, install: Install, monkeypatch: pytest.MonkeyPatch
):
    install(f"{MODULE}:COMMANDS")
    monkeypatch.setenv("_OPERATOR_MANAGER_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "operator-manager greet ")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert command().out == "plain,all\n"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_module:X", "no_such_module:X, cannot be loaded: ModuleNotFoundError: No module named"),
        (f"{MODULE}:OTHERS", f"{MODULE}:OTHERS, cannot be loaded: AttributeError: "),
        (f"{MODULE}:hello", f"{MODULE}:hello, are not a sequence of manager.cli.commands.LazyCommand"),
        (f"{MODULE}:NUMBERS", f"{MODULE}:NUMBERS, are not a sequence of manager.cli.commands.LazyCommand"),
    ],
)
def test_broken_package_of_commands_is_named_in_one_line(
    command: Command, install: Install, value: str, said: str
):
    install(value)
    for argument in ("--help", "no-such-command"):
        told = command(argument).refusal(1)
        assert told.startswith("the commands of hello-operators 1.2, ")
        assert said in told


def test_own_commands_run_beside_a_broken_package_of_commands(command: Command, install: Install):
    install("no_such_module:X")
    assert command("version").code == 0
    assert command("run", "--help").code == 0
