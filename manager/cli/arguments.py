"""The arguments of a command that takes none."""

from __future__ import annotations

from collections.abc import Sequence

from manager.cli.errors import UsageError

__all__ = ["wants_help"]


def wants_help(command: str, argv: Sequence[str]) -> bool:
    """Whether help is asked for. Raises `UsageError` for any other argument."""
    for argument in argv:
        if argument in {"-h", "--help"}:
            return True
        what = "flag" if argument.startswith("-") else "argument"
        raise UsageError(f"{command}: unknown {what} {argument!r}")
    return False
