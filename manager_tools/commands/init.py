"""The command `init`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from manager.cli.arguments import ArgumentParser, UsageError, unknown_argument
from manager.operator import AnyOperator
from manager.program import Program
from manager_tools.scaffold import Names, ScaffoldError
from manager_tools.scaffold import init as write_project

_DESCRIPTION = """\
Begin a project: a kind, its operator, a sample, a test, a demo, manifests and an image.

Nothing that is there already is overwritten."""


def init(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Write the project, and say what to do next; `operators` play no part."""
    del operators
    usage = f"{program.name} init DIR --domain DOMAIN [--name NAME]"
    parser = ArgumentParser("init", usage, _DESCRIPTION)
    told = "what the groups of your kinds end with, such as example.com"
    parser.add_argument("--domain", metavar="DOMAIN", help=told)
    parser.add_argument("--name", metavar="NAME", help="the program's name; default that of the folder")
    given, folders = parser.read_with_operands(argv)
    if folders[1:]:
        parser.error(unknown_argument(folders[1], ()))
    if not folders or "domain" not in given:
        parser.error("the folder and the domain are needed, as in init DIR --domain=example.com")
    folder = Path(folders[0])
    try:
        names = Names(program=getattr(given, "name", folder.resolve().name), domain=given.domain)
        write_project(folder, names)
    except ScaffoldError as error:
        raise UsageError(f"init: {error}") from error
    print(f"{folder} is a project now: the program {names.program}, with the kind {names.kind}.")
    checkout = _checkout()
    first = f", make venv OPERATOR_MANAGER={checkout}" if checkout else ""
    print(f"Next: cd {folder}, git init{first}, then make test, make demo, and make for what else there is.")
    return 0


def _checkout() -> Path | None:
    """The checkout that this library runs from; None where it is installed."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() and (root / "devcluster").is_dir() else None
