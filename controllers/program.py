"""The program `operator-manager`: its name, and its command line."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, cast

from manager.cli import main as run_command
from manager.util.program import Program
from manager.util.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from manager import AnyOperator

__all__ = ["PROGRAM", "main"]

PROGRAM = Program("operator-manager", VERSION)
"""It is released together with the library."""


def main() -> int:
    """Run the command line; returns the exit code."""
    return run_command(sys.argv[1:], _operators, name=PROGRAM.name, version=PROGRAM.version)


def _operators() -> Sequence[AnyOperator]:
    """Those of the list, which is imported only where a command needs it."""
    return cast("Sequence[AnyOperator]", importlib.import_module("controllers.main").OPERATORS)
