"""The command `version`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import platform
from collections.abc import Sequence

from manager.cli.arguments import wants_help
from manager.operator import AnyOperator
from manager.program import Program
from manager.version import KUBERNETES_VERSIONS

__all__ = ["command"]

_HELP = """\
Print the version, that of Python, and the Kubernetes versions it is tested with.

Usage: {} version"""


def command(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Print the version; `operators` play no part."""
    del operators
    if wants_help("version", argv):
        print(_HELP.format(program.name))
        return 0
    print(f"{program.name} {program.version}")
    print(f"Python {platform.python_version()}")
    print(f"Kubernetes {', '.join(KUBERNETES_VERSIONS)}")
    return 0
