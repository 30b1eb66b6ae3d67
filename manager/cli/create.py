"""The command `create`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from manager.cli.arguments import ArgumentParser, UsageError, unknown_argument
from manager.operator import AnyOperator
from manager.program import Program
from manager.scaffold import Names, ScaffoldError, create_api
from manager.scaffold.names import plural_of
from manager.scaffold.writing import beginnings, domain_of

__all__ = ["command"]

_DESCRIPTION = """\
Add a kind to the project in this folder: model, operator, sample, test, list entry, generated manifests.

Nothing that is there already is overwritten; `git checkout . && git clean -fd apis controllers config tests`
takes all of it back."""

_NEEDED = ("--group", "--version", "--kind")


def command(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Write the files, and say which and what to do next; `operators` play no part."""
    del operators
    usage = f"{program.name} create api --group GROUP --version VERSION --kind KIND [FLAGS]"
    parser = ArgumentParser("create api", usage, _DESCRIPTION)
    for flag, text in (
        ("--group", "a word; the project's domain is put to it, as hello.example.com"),
        ("--version", "such as v1 or v1alpha1"),
        ("--kind", "such as Greeting"),
        ("--plural", "of the kind, where English makes it otherwise"),
    ):
        parser.add_argument(flag, metavar=flag[2:].upper(), help=text)
    scope = "its objects are in no namespace"
    parser.add_argument("--cluster-scoped", action="store_true", default=False, help=scope)
    child = f"begin with an operator that has a child of this kind: {', '.join(beginnings())}"
    parser.add_argument("--owns", metavar="KIND", help=child)
    flags, operands = parser.read_with_operands(argv)
    if operands[:1] != ["api"]:
        wrong = f"{operands[0]!r} cannot be created; " if operands else ""
        raise UsageError(f"create: {wrong}create api is what there is")
    if operands[1:]:
        parser.error(unknown_argument(operands[1], ()))
    for flag in _NEEDED:
        if not hasattr(flags, flag[2:]):
            parser.error(f"{flag} is needed")
    root = Path()
    try:
        names = Names(
            program=program.name,
            domain=domain_of(root),
            group=flags.group,
            version=flags.version,
            kind=flags.kind,
            plural=getattr(flags, "plural", plural_of(flags.kind)),
        )
        owns = getattr(flags, "owns", None)
        written = create_api(root, names, cluster_scoped=flags.cluster_scoped, owns=owns)
    except ScaffoldError as error:
        raise UsageError(f"create api: {error}") from error
    for what, paths in (
        ("wrote", written.new),
        ("changed", written.changed),
        ("generated", written.generated),
    ):
        for path in paths:
            print(f"{what} {path}")
    print(
        f"Next: say in apis/{names.group}/{names.version}/{names.module}.py what users may write, and in "
        f"controllers/{names.group}/{names.module}.py what is done about it; then make generate, and "
        f".venv/bin/pytest tests/test_{names.module}.py."
    )
    return 0
