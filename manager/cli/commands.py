"""The commands of the command line: a record of each, and those that installed packages add."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from manager.cli.arguments import CannotRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoint

    from manager.operator import AnyOperator
    from manager.program import Program

__all__ = ["GROUP", "Command", "Runner", "installed_commands", "origin_of"]

GROUP = "operator_manager.commands"
"""The group of entry points that name sequences of `Command`."""

Runner: TypeAlias = "Callable[[Sequence[str], Sequence[AnyOperator], Program], int]"


@dataclass(frozen=True, slots=True)
class Command:
    """A command, whose module is imported when the command is run.

    Attributes:
        name: the word that users type.
        summary: its line in the list of commands.
        target: `module:function` of its `Runner`.
        operators: which ones the function gets: none, those of the program, or the installed ones as well.
        subcommands: words that have to follow the name.
    """

    name: str
    summary: str
    target: str
    operators: Literal["none", "own", "all"] = "all"
    subcommands: tuple[str, ...] = ()

    def load(self) -> Runner:
        """Import the function."""
        module, _, function = self.target.partition(":")
        return cast("Runner", getattr(importlib.import_module(module), function))


def installed_commands() -> Iterator[Command]:
    """Yield the commands of installed packages, in the order of their entry points' names.

    Raises `CannotRun` for an entry point that cannot be loaded, or names something else.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - 29 ms, which `version` does without

    for entry in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        what = f"the commands of {origin_of(entry)}, {entry.value}"
        try:
            found = entry.load()
        except Exception as error:
            said = " ".join(str(error).split())
            raise CannotRun(f"{what}, cannot be loaded: {type(error).__name__}: {said}") from error
        if not isinstance(found, Sequence) or not all(isinstance(each, Command) for each in found):
            raise CannotRun(f"{what}, are not a sequence of manager.cli.commands.Command")
        yield from found


def origin_of(entry: EntryPoint) -> str:
    """Return the name and version of the package that has the entry point."""
    return "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
