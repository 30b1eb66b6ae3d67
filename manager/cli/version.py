"""The command `version`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING

from manager.cli.arguments import ArgumentParser
from manager.version import KUBERNETES_VERSIONS

if TYPE_CHECKING:
    from manager.operator import AnyOperator
    from manager.program import Program

_DESCRIPTION = "Print the version, that of Python, and the Kubernetes versions it is tested with."


def version(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Print the version; `operators` play no part."""
    del operators
    ArgumentParser("version", f"{program.name} version", _DESCRIPTION).read(argv)
    print(f"{program.name} {program.version}")
    print(f"Python {platform.python_version()}")
    print(f"Kubernetes {', '.join(KUBERNETES_VERSIONS)}")
    return 0
