"""The name and the command line of the program `operator-manager`."""

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

PROGRAM = Program("operator-manager", VERSION)
"""The program has the library's version."""


def main() -> int:
    """Run the command line, and return its exit code."""
    return run_command(sys.argv[1:], _operators, name=PROGRAM.name, version=PROGRAM.version)


def _operators() -> Sequence[AnyOperator]:
    return cast("Sequence[AnyOperator]", importlib.import_module("controllers.main").OPERATORS)
