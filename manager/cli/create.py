"""The command `create`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from manager.cli.arguments import ArgumentParser, unknown_argument
from manager.cli.errors import UsageError
from manager.operator import AnyOperator
from manager.program import Program
from manager.scaffold import Names, ScaffoldError, create_api
from manager.scaffold.names import plural_of
from manager.scaffold.writing import beginnings, domain_of

__all__ = ["command"]

_HELP = """\
Add a kind to the project in this folder: model, operator, sample, test, list entry, generated manifests.

Usage: {} create api --group GROUP --version VERSION --kind KIND [FLAGS]

Nothing that is there already is overwritten; `git checkout . && git clean -fd apis controllers config tests`
takes all of it back.

Flags:
  --group GROUP
        a word; the project's domain is put to it, as hello.example.com
  --version VERSION
        such as v1 or v1alpha1
  --kind KIND
        such as Greeting
  --plural PLURAL
        of the kind, where English makes it otherwise
  --cluster-scoped
        its objects are in no namespace
  --owns KIND
        begin with an operator that has a child of this kind: {}"""

_VALUES = ("--group", "--version", "--kind", "--plural", "--owns")
_SWITCH = "--cluster-scoped"


def command(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Write the files, and say which and what to do next; `operators` play no part."""
    del operators
    if {"-h", "--help"}.intersection(argv):
        print(_HELP.format(program.name, ", ".join(beginnings())))
        return 0
    if not argv or argv[0] != "api":
        given = f"{argv[0]!r} cannot be created; " if argv else ""
        raise UsageError(f"create: {given}create api is what there is")
    parser = ArgumentParser("create api")
    for flag in _VALUES:
        parser.add_argument(flag)
    parser.add_argument(_SWITCH, action="store_true", default=False)
    flags, rest = parser.parse_known_args(argv[1:])
    if rest:
        raise UsageError(f"create api: {unknown_argument(rest[0], (*_VALUES, _SWITCH))}")
    for flag in _VALUES[:3]:
        if not hasattr(flags, flag[2:]):
            raise UsageError(f"create api: {flag} is needed")
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
