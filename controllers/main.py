"""The program `operator-manager` with the operators of this project."""

from __future__ import annotations

import sys

from controllers.cache.memcached import MemcachedOperator
from controllers.example.wordpress import WordpressOperator
from controllers.myapp.mysrv import MySrvOperator
from controllers.petstore.pet import PetOperator
from controllers.tutorial.foo import FooOperator
from manager import AnyOperator
from manager.cli import main as run_command
from manager.program import Program
from manager.version import VERSION

__all__ = ["OPERATORS", "PROGRAM", "main"]

PROGRAM = Program("operator-manager", VERSION)
"""It is released together with the library."""

OPERATORS: tuple[AnyOperator, ...] = (
    MemcachedOperator,
    FooOperator,
    PetOperator,
    WordpressOperator,
    MySrvOperator,
)
"""Every operator."""


def main() -> int:
    """Run the command line; returns the exit code."""
    return run_command(sys.argv[1:], OPERATORS, name=PROGRAM.name, version=PROGRAM.version)


if __name__ == "__main__":
    sys.exit(main())
