from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import yaml

from manager import Context, Operator
from manager.cli import main
from manager.util.version import KUBERNETES_VERSIONS, VERSION
from tests.support.gadget import Gadget, GadgetOperator, OldGadget
from tests.unit.cli.conftest import OPERATORS, Command, operator
from tests.unit.manager_tools.commands.test_generate import AheadOperator, UnboundedOperator

COMMANDS = (
    *("run", "crds", "generate", "init", "create", "model", "simulate"),
    *("explain", "plan", "console", "migrate-storage", "version"),
)


@pytest.mark.parametrize("argv", [("--help",), ("-h",), ("help",)])
def test_help_lists_the_commands(command: Command, argv: tuple[str, ...]):
    outcome = command(*argv)
    assert outcome.code == 0
    assert outcome.err == ""
    assert all(f"\n  {name} " in outcome.out for name in COMMANDS)


def test_program_prints_help_and_fails_when_no_command_is_given(command: Command):
    outcome = command()
    assert (outcome.code, outcome.out) == (2, "")
    assert "Usage: operator-manager [OPTIONS] COMMAND" in outcome.err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_its_usage_as_help(command: Command, name: str):
    for argv in ((name, "--help"), (name, "-h"), ("help", name)):
        outcome = command(*argv)
        assert outcome.code == 0
        assert outcome.out.startswith(f"Usage: operator-manager {name} ")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("start",), "No such command 'start'."),
        (("crd",), "No such command 'crd'. Did you mean 'crds'?"),
        (("help", "start"), "No such command 'start'."),
        (("--verbose",), "No such option '--verbose'. Did you mean '--version'?"),
        (
            ("run", "--config", "a\nb\x1b[2J"),
            r"run: a\nb\x1b[2J: cannot read the settings file: No such file",
        ),
        (("version", "--short"), "version: No such option '--short'."),
        (("crds", "foo"), "crds: Got unexpected extra argument (foo)"),
        (("crds", "f\no"), r"crds: Got unexpected extra argument (f\no)"),
        (("init", "--domain"), "init: Option '--domain' requires an argument."),
        (("create", "api", "--kind=A"), "create api: Missing option '--group'."),
    ],
)
def test_command_line_errors_are_one_printable_line(command: Command, argv: tuple[str, ...], expected: str):
    told = command(*argv).refusal()
    assert told.startswith(expected)
    assert told.isprintable()


@pytest.mark.parametrize("argv", ["version", "--version"])
def test_version_tells_ours_pythons_and_kubernetes(command: Command, argv: str):
    outcome = command(argv)
    assert outcome.code == 0
    python = ".".join(map(str, sys.version_info[:3]))
    assert outcome.out.splitlines() == [
        f"operator-manager {VERSION}",
        f"Python {python}",
        f"Kubernetes {', '.join(KUBERNETES_VERSIONS)}",
    ]


def test_crds_are_one_yaml_stream(command: Command):
    outcome = command("crds", operators=OPERATORS[:1])
    assert (outcome.code, outcome.err) == (0, "")
    [crd] = yaml.safe_load_all(outcome.out)
    assert crd["kind"] == "CustomResourceDefinition"
    assert crd["metadata"]["name"] == "memcacheds.cache.example.com"


@pytest.mark.parametrize("name", ["crds", "generate", "simulate"])
def test_command_tells_in_one_line_when_a_model_is_wrong(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    (tmp_path / "config").mkdir()
    monkeypatch.chdir(tmp_path)
    outcome = command(name, operators=[UnboundedOperator])
    assert outcome.refusal(1) == (
        f"{name}: Unbounded.spec.anything: any value at all is accepted only with preserve_unknown()"
    )
    assert command(name, operators=[AheadOperator]).refusal(1) == (
        f"{name}: Ahead.spec.name: the server's regular expressions have no '(?!' "
        "(invalid or unsupported Perl syntax)"
    )


def test_crds_ask_the_manager_that_is_deployed_for_conversion(command: Command):
    outcome = command("crds", operators=[GadgetOperator])
    assert (outcome.code, outcome.err) == (0, "")
    [crd] = yaml.safe_load_all(outcome.out)
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"] == {
        "service": {
            "namespace": "operator-manager-system",
            "name": "operator-manager-webhook-service",
            "path": "/convert",
        },
        "url": None,
    }


@pytest.mark.parametrize(
    ("before", "meanwhile"),
    [(signal.default_int_handler, signal.SIG_DFL), (signal.SIG_IGN, signal.SIG_IGN)],
)
def test_command_replaces_the_interrupt_handler_while_it_runs(
    command: Command, monkeypatch: pytest.MonkeyPatch, before: Any, meanwhile: Any
):
    seen: list[Any] = []

    def look(*_: object) -> int:
        seen.append(signal.getsignal(signal.SIGINT))
        return 0

    monkeypatch.setattr("manager.cli.commands.version", click.Command("version", callback=look))
    original = signal.signal(signal.SIGINT, before)
    try:
        command("version")
        assert seen == [meanwhile]
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, original)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_main_ends_by_signals_as_the_first_process_of_a_container(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
):
    """The kernel drops a signal for which process 1 has no handler, and the pod would not end."""
    ended: list[int] = []
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(os, "_exit", ended.append)
    before = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL

    def command(*_: object) -> int:
        signal.raise_signal(number)
        return 0

    monkeypatch.setattr("manager.cli.commands.version", click.Command("version", callback=command))
    original = signal.signal(number, before)  # a shell has background jobs ignore SIGINT
    try:
        assert main(["version"], (), name="test", version="1") == 0
        assert ended == [128 + number]
        assert signal.getsignal(number) is before
    finally:
        signal.signal(number, original)


@pytest.mark.parametrize("argv", ["run", "crds"])
def test_command_reports_invalid_operators_in_one_line(command: Command, argv: str):
    class Lossy(Operator[Gadget]):
        versions = (OldGadget,)

        async def reconcile(self, obj: Gadget, ctx: Context) -> None: ...

    for operators, told in (
        ([Lossy], "Lossy has versions, and no method"),
        ([operator("foo"), operator("foo")], "Named and Named are both called foo: give one of them"),
        (
            [SimpleNamespace(name="lost")],
            "namespace(name='lost') is no operator, as in class Name(Operator[Kind])",
        ),
    ):
        assert command(argv, operators=operators).refusal(1).startswith(f"{argv}: {told}")
