"""The commands of the command line, each imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from manager.util.program import Program

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from manager.operator import AnyOperator

__all__ = ["GROUP", "Commands", "Invocation", "LazyCommand", "pass_invocation"]

GROUP = "operator_manager.commands"
"""The group of entry points that name sequences of `LazyCommand`."""


def origin_of(entry: EntryPoint) -> str:
    """Return the name and version of the package that has the entry point."""
    return "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


class Invocation:
    """The running program and its operators, for the command that the user has called."""

    def __init__(
        self, program: Program, operators: Sequence[AnyOperator] | Callable[[], Sequence[AnyOperator]] = ()
    ) -> None:
        """Make the command line of a program.

        Args:
            program: the names by which the cluster knows the process.
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
        """Make a command that is imported only when it runs.

        Args:
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
        "completion",
        "print a script that completes commands and flags in a shell",
        "manager.cli.completion:completion",
    ),
    LazyCommand("version", "print the version", "manager.cli.version:version"),
)


def installed_commands() -> Iterator[LazyCommand]:
    """Yield the commands of installed packages, in the order of their entry points' names.

    Raises `ClickException` for an entry point that cannot be loaded, or has other objects.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - 29 ms, which `version` does without

    for entry in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        what = f"the commands of {origin_of(entry)}, {entry.value}"
        try:
            found = entry.load()
        except Exception as error:
            said = " ".join(str(error).split())
            raise click.ClickException(f"{what}, cannot be loaded: {type(error).__name__}: {said}") from error
        if not isinstance(found, Sequence) or not all(isinstance(each, LazyCommand) for each in found):
            raise click.ClickException(f"{what}, are not a sequence of manager.cli.commands.LazyCommand")
        yield from found


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

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of the runtime, else one of the installed packages."""
        if cmd_name not in self.commands:
            self._add_installed()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the runtime's commands, then of the installed ones."""
        del ctx
        self._add_installed()
        return list(self.commands)

    def _add_installed(self) -> None:
        for each in installed_commands():
            self.commands.setdefault(str(each.name), each)

    def _show_version(self, context: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not context.resilient_parsing:
            with self.commands["version"].make_context("version", [], context) as shown:
                shown.command.invoke(shown)
            context.exit()
