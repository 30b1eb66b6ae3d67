"""The program `greeter` with the operators of this project."""

from __future__ import annotations

import sys

from manager.cli import main as run_command
from manager.util.program import Program
from manager_tools.scaffold.project.controllers.hello.greeting import GreetingOperator

__all__ = ["OPERATORS", "PROGRAM", "main"]

PROGRAM = Program("greeter", "0.1.0")
"""What a cluster sees of it is called so."""

OPERATORS = (GreetingOperator,)
"""Every operator."""


def main() -> int:
    """Run the command line; returns the exit code."""
    return run_command(sys.argv[1:], OPERATORS, name=PROGRAM.name, version=PROGRAM.version)


if __name__ == "__main__":
    sys.exit(main())
