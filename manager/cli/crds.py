"""`operator-manager crds`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

from collections.abc import Sequence

from manager.cli.arguments import wants_help
from manager.cli.operator import Operator

__all__ = ["command"]

_HELP = """\
Print the custom resource definitions of all operators as one YAML stream.

Usage: operator-manager crds | kubectl apply -f -"""


def command(argv: Sequence[str], operators: Sequence[Operator]) -> int:
    """Print the definitions of every kind of `operators`."""
    if wants_help("crds", argv):
        print(_HELP)
        return 0
    from manager.codegen import custom_resource_definitions, yaml_stream  # noqa: PLC0415 - help needs neither

    kinds = [kind for operator in operators for kind in operator.load().KINDS]
    print(yaml_stream(custom_resource_definitions(kinds)), end="")
    return 0
