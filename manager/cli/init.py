"""The command `init`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from manager.cli.arguments import ArgumentParser, unknown_argument
from manager.cli.errors import UsageError
from manager.operator import AnyOperator
from manager.program import Program
from manager.scaffold import Names, ScaffoldError, init

__all__ = ["command"]

_HELP = """\
Begin a project: a kind, its operator, a sample, a test, a demo, manifests and an image.

Usage: {} init DIR --domain DOMAIN [--name NAME]

Nothing that is there already is overwritten.

Flags:
  --domain DOMAIN
        what the groups of your kinds end with, such as example.com
  --name NAME
        the program's name; default that of the folder"""

_FLAGS = ("--domain", "--name")


def command(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Write the project, and say what to do next; `operators` play no part."""
    del operators
    if {"-h", "--help"}.intersection(argv):
        print(_HELP.format(program.name))
        return 0
    parser = ArgumentParser("init")
    for flag in _FLAGS:
        parser.add_argument(flag)
    given, rest = parser.parse_known_args(argv)
    folders = [each for each in rest if not each.startswith("-")]
    if unknown := [each for each in rest if each not in folders] or folders[1:]:
        raise UsageError(f"init: {unknown_argument(unknown[0], _FLAGS)}")
    if not folders or "domain" not in given:
        raise UsageError("init: the folder and the domain are needed, as in init DIR --domain=example.com")
    folder = Path(folders[0])
    try:
        names = Names(program=getattr(given, "name", folder.resolve().name), domain=given.domain)
        init(folder, names)
    except ScaffoldError as error:
        raise UsageError(f"init: {error}") from error
    print(f"{folder} is a project now: the program {names.program}, with the kind {names.kind}.")
    print(f"Next: cd {folder}, git init, then make test, make demo, and make for what else there is.")
    return 0
