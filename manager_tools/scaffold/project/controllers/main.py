"""The list of this project's operators."""

from __future__ import annotations

import sys

from manager_tools.scaffold.project.controllers.hello.greeting import GreetingOperator
from manager_tools.scaffold.project.controllers.program import PROGRAM, main

__all__ = ["OPERATORS", "PROGRAM", "main"]

OPERATORS = (GreetingOperator,)
"""The classes of all operators."""


if __name__ == "__main__":
    sys.exit(main())
