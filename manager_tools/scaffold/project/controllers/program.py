"""The name and the command line of the program `greeter`."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from manager.cli import main as run_command
from manager.util.program import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from manager import AnyOperator

__all__ = ["PROGRAM", "main"]

PROGRAM = Program("greeter", "0.1.0")
"""Names in a cluster are derived from the program's name."""


def main() -> int:
    """Run the command line, and return its exit code."""
    return run_command(sys.argv[1:], _operators, name=PROGRAM.name, version=PROGRAM.version)


def _operators() -> Sequence[AnyOperator]:
    """Return the operators; the import is delayed until a command needs them."""
    module = importlib.import_module("manager_tools.scaffold.project.controllers.main")
    operators: Sequence[AnyOperator] = module.OPERATORS
    return operators
