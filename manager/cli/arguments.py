"""What the commands have in common when they read their arguments."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from typing import NoReturn

from manager.cli.errors import UsageError

__all__ = ["ArgumentParser", "unknown_argument", "wants_help"]


class ArgumentParser(argparse.ArgumentParser):
    """Raises where argparse would print its usage and end the process; leaves out what is not given."""

    def __init__(self, command: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
        self._command = command

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`. argparse comes here for one thing only: a flag without its value."""
        flag = message.removeprefix("argument ").partition(":")[0]
        raise UsageError(f"{self._command}: {flag} needs a value, as in {flag}=VALUE")


def unknown_argument(argument: str, flags: Iterable[str]) -> str:
    """What to say of an argument that is none of `flags`."""
    if not argument.startswith("-"):
        return f"unexpected argument {argument!r}"
    flag = argument.partition("=")[0]
    close = difflib.get_close_matches(flag, list(flags), n=1)
    return f"unknown flag {flag!r}" + (f"; did you mean {close[0]}?" if close else "")


def wants_help(command: str, argv: Sequence[str]) -> bool:
    """Whether help is asked for, of a command without arguments. Raises `UsageError` for any other."""
    for argument in argv:
        if argument in {"-h", "--help"}:
            return True
        what = "flag" if argument.startswith("-") else "argument"
        raise UsageError(f"{command}: unknown {what} {argument!r}")
    return False
