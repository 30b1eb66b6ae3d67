"""What the commands have in common when they read their arguments."""

from __future__ import annotations

import argparse
import difflib
import shutil
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar, get_args

from manager.settings import parse_text, parse_truth

T = TypeVar("T")

_WIDTHS = 60, 110


class UsageError(Exception):
    """An unknown command, flag or argument: one line that names it."""


class CannotRun(Exception):
    """What the command needs cannot be used: one line that says why."""


class OperatorUnusable(CannotRun):
    """An operator, or all together, cannot be of this program."""


class ArgumentParser(argparse.ArgumentParser):
    """Raises where argparse would print its usage and end the process; leaves out what is not given."""

    def __init__(self, command: str, usage: str | None = None, description: str | None = None) -> None:
        """With a `usage`, such as `program run [FLAGS]`, there is `--help`, which ends with `SystemExit`."""
        super().__init__(
            usage=usage,
            description=description,
            formatter_class=_Help,
            add_help=usage is not None,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
        self._command = command

    def value(
        self, *flags: str, metavar: str, parse: Callable[[str], object] = parse_text, text: str
    ) -> None:
        """Take a flag with a value, which `parse` reads; its `ValueError` says what is expected."""
        self.add_argument(*flags, metavar=metavar, type=argument(parse), help=text)

    def switch(self, flag: str, text: str) -> None:
        """Take a flag that is true where it stands alone, and may say false."""
        self.add_argument(flag, nargs="?", const=True, metavar="BOOL", type=argument(parse_truth), help=text)

    def cluster(self) -> None:
        """Take `--kubeconfig` and `--context`."""
        told = "the cluster's kubeconfig (default: as for kubectl, or the pod's own)"
        self.value("--kubeconfig", metavar="FILE", text=told)
        self.value("--context", metavar="NAME", text="context of the kubeconfig (default: its current one)")

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """What is given. Raises `UsageError` for what is unknown, and for what has to be there and is not."""
        given, operands = self.read_with_operands(argv)
        if operands:
            self.error(unknown_argument(operands[0], ()))
        return given

    def read_with_operands(self, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """The same, and what stands between and after the flags."""
        given, rest = self.parse_known_args(argv)
        for argument in rest:
            if argument.startswith("-") or not argument:
                flags = (flag for action in self._actions for flag in action.option_strings)
                self.error(unknown_argument(argument, flags))
        return given, rest

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`."""
        message = message.removeprefix("argument ")
        flag, colon, _ = message.partition(": expected ")
        what = f"{flag} needs a value, as in {flag}=VALUE" if colon else message
        raise UsageError(f"{self._command}: {what}")


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        width = min(max(shutil.get_terminal_size().columns, _WIDTHS[0]), _WIDTHS[1])
        super().__init__(prog, max_help_position=8, width=width)

    def _split_lines(self, text: str, width: int) -> list[str]:
        # A flag in the text stays in one piece.
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)


def unknown_argument(argument: str, flags: Iterable[str]) -> str:
    """What to say of an unknown argument; one of `flags` may have been meant."""
    if not argument.startswith("-"):
        return f"unexpected argument {argument!r}"
    flag = argument.partition("=")[0]
    close = difflib.get_close_matches(flag, list(flags), n=1)
    return f"unknown flag {flag!r}" + (f"; did you mean {close[0]}?" if close else "")


def argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """What reads the value of a flag, for argparse: of what `parse` refuses, its `ValueError` is told."""

    def read(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{error}, not {text!r}") from error

    return read


def one_of(choices: Any) -> Callable[[str], Any]:
    """What reads one of the texts of a `Literal`."""
    *others, last = map(repr, get_args(choices))

    def parse(text: str) -> str:
        if text not in get_args(choices):
            raise ValueError(f"{', '.join(others)} or {last} is expected")
        return text

    return parse


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """What reads a whole number within these bounds."""
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or not least <= int(text) <= (most or int(text)):
            raise ValueError(f"a whole number {bounds} is expected")
        return int(text)

    return parse
