"""The commands of the command line, each imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from manager.program import Program

if TYPE_CHECKING:
    from manager.operator import AnyOperator

__all__ = ["Commands", "Invocation", "LazyCommand", "pass_invocation"]


class Invocation:
    """The program that runs, and its operators, for the command that is asked for."""

    def __init__(
        self, program: Program, operators: Sequence[AnyOperator] | Callable[[], Sequence[AnyOperator]] = ()
    ) -> None:
        """Args:
        program: what the cluster knows the process by.
        operators: the program's own, or a function that imports them.
        """
        self.program = program
        self._own = operators
        self._all: tuple[AnyOperator, ...] | None = None

    @property
    def completion_variable(self) -> str:
        """The environment variable by which a shell asks for completions."""
        return f"_{self.program.variables}COMPLETE"

    def own_operators(self) -> tuple[AnyOperator, ...]:
        """Import the program's own operators. Raises `OperatorUnusable`."""
        return self._import(installed=False)

    def operators(self) -> tuple[AnyOperator, ...]:
        """Import the program's own operators and the installed ones, once. Raises `OperatorUnusable`."""
        if self._all is None:
            self._all = self._import(installed=True)
        return self._all

    def _import(self, *, installed: bool) -> tuple[AnyOperator, ...]:
        from manager.cli.operators import all_operators, own_operators  # noqa: PLC0415 - not for the version

        return all_operators(own_operators(self._own), self.program, installed=installed)


pass_invocation = click.make_pass_decorator(Invocation)


class LazyCommand(click.Command):
    """A command whose module is imported when the command is asked for."""

    def __init__(self, name: str, summary: str, target: str) -> None:
        """Args:
        name: the word that users type.
        summary: its line in the list of commands.
        target: `module:attribute` of the command itself.
        """
        super().__init__(name, short_help=summary)
        self._target = target

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Import the command and parse its arguments."""
        module, _, attribute = self._target.partition(":")
        command = cast("click.Command", getattr(importlib.import_module(module), attribute))
        return command.make_context(info_name, args, parent, **extra)


_OWN = (
    LazyCommand("run", "run the controllers until interrupted", "manager.cli.run:run"),
    LazyCommand(
        "crds",
        "print the custom resource definitions, ready for kubectl apply --server-side",
        "manager.cli.generating:crds",
    ),
    LazyCommand("generate", "write what is generated under config/", "manager.cli.generating:generate"),
    LazyCommand("init", "begin a project of your own", "manager.cli.init:init"),
    LazyCommand("create", "add a kind and its operator to a project", "manager.cli.create:create"),
    LazyCommand("model", "write the model of a kind that others have defined", "manager.cli.model:model"),
    LazyCommand(
        "simulate",
        "try the operators in a simulated cluster where things go wrong",
        "manager.cli.simulate:simulate",
    ),
    LazyCommand("explain", "tell why an object is not ready", "manager.cli.explain:explain"),
    LazyCommand("plan", "tell what the operators would do to existing objects", "manager.cli.plan:plan"),
    LazyCommand(
        "console", "open the console of a cluster's manager in a browser", "manager.cli.console:console"
    ),
    LazyCommand(
        "migrate-storage",
        "have every object stored in the storage version of its definition",
        "manager.cli.migrate_storage:migrate_storage",
    ),
    LazyCommand(
        "completion",
        "print a script that completes commands and flags in a shell",
        "manager.cli.completion:completion",
    ),
    LazyCommand("version", "print the version", "manager.cli.version:version"),
)


class Commands(click.Group):
    """The commands of a program, with suggestions for mistyped ones."""

    def __init__(self) -> None:
        version = click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=self._show_version,
            help="print the version",
        )
        super().__init__(
            commands={each.name: each for each in _OWN if each.name},
            params=[version],
            help="Run and examine a Kubernetes controller manager.",
            context_settings={
                "help_option_names": ["-h", "--help"],
                "max_content_width": 110,
                "show_default": True,
            },
        )

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of their declaration."""
        del ctx
        return list(self.commands)

    def _show_version(self, context: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not context.resilient_parsing:
            with self.commands["version"].make_context("version", [], context) as shown:
                shown.command.invoke(shown)
            context.exit()
