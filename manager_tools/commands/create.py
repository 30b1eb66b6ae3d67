"""The command `create`, which adds kinds and webhooks to a project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from manager.cli.commands import Invocation, pass_invocation
from manager_tools.scaffold import Answers, Names, ScaffoldError, Written, create_api, create_webhook
from manager_tools.scaffold.writing import CHILD_KINDS, domain_of, plural_of

_BACK = """

Existing files are not overwritten. `git checkout . && git clean -fd apis controllers config tests` removes
all changes."""

_KIND = "name of the kind, such as Greeting"


def _one_kind(_context: click.Context, _option: click.Parameter, kinds: Sequence[str]) -> str:
    if len(kinds) > 1:
        raise click.UsageError(f"--kind takes one kind, not {len(kinds)}: run the command for each of them")
    return kinds[0]


@click.group
def create() -> None:
    """Add a kind or webhooks to the project in this folder."""


@create.command(
    short_help="add a kind, its operator and a test",
    help="Add a kind to the project in this folder: model, operator, sample, test, list entry and generated "
    f"manifests.{_BACK}",
)
@click.option(
    "--group",
    required=True,
    metavar="GROUP",
    help="first word of the API group, to which the project's domain is appended: hello.example.com",
)
@click.option("--version", required=True, metavar="VERSION", help="version of the kind, such as v1")
@click.option("--kind", required=True, multiple=True, callback=_one_kind, metavar="KIND", help=_KIND)
@click.option("--plural", metavar="PLURAL", help="plural of the kind, if English rules do not give it")
@click.option("--cluster-scoped", is_flag=True, help="make the kind cluster-scoped")
@click.option(
    "--owns",
    metavar="KIND",
    multiple=True,
    shell_complete=lambda *given: [each for each in CHILD_KINDS if each.startswith(given[-1])],
    help=f"write an operator that creates children of these kinds ({', '.join(sorted(CHILD_KINDS))}); "
    "as KIND,KIND or with several flags",
)
@pass_invocation
def api(
    invocation: Invocation,
    group: str,
    version: str,
    kind: str,
    plural: str | None,
    cluster_scoped: bool,
    owns: Sequence[str],
) -> None:
    """Write the files of a kind; print the written files and the next steps."""
    try:
        names = Names(
            program=invocation.program.name,
            domain=domain_of(Path()),
            group=group,
            version=version,
            kind=kind,
            plural=plural_of(kind) if plural is None else plural,
        )
        written = create_api(
            Path(),
            names,
            cluster_scoped=cluster_scoped,
            owns=[kind.strip() for each in owns for kind in each.split(",")],
        )
    except ScaffoldError as error:
        raise click.UsageError(str(error)) from error
    _print_result(
        written,
        f"edit the fields in apis/{names.group}/{names.version}/{names.module}.py, and the method reconcile "
        f"in controllers/{names.group}/{names.module}.py",
    )


def _kinds(context: click.Context, _: click.Parameter, typed: str) -> list[str]:
    operators = context.ensure_object(Invocation).operators()
    kinds = dict.fromkeys(kind.gvk.kind for operator in operators for kind in operator.kinds())
    return [each for each in kinds if each.startswith(typed)]


@create.command(
    short_help="add webhooks to the operator of a kind",
    help="Add webhook methods to the operator of a kind, with tests and generated manifests. For conversion, "
    f"also add another version of the kind.{_BACK}",
)
@click.option(
    "--kind",
    required=True,
    multiple=True,
    callback=_one_kind,
    metavar="KIND",
    shell_complete=_kinds,
    help=_KIND,
)
@click.option(
    "--group", default="", show_default=False, metavar="GROUP", help="group, if several have the kind"
)
@click.option("--defaulting", is_flag=True, help="add a method that sets defaults in objects")
@click.option("--validation", is_flag=True, help="add a method that refuses invalid objects")
@click.option(
    "--conversion",
    default="",
    show_default=False,
    metavar="VERSION",
    help="add this version of the kind, such as v1beta1, and methods that convert objects",
)
@pass_invocation
def webhook(
    invocation: Invocation, kind: str, group: str, defaulting: bool, validation: bool, conversion: str
) -> None:
    """Write the files of webhooks; print the written files and the next steps."""
    answers = Answers(defaulting, validation, conversion)
    if not list(answers):
        raise click.UsageError("--defaulting, --validation or --conversion=VERSION is needed")
    try:
        written = create_webhook(Path(), kind, answers, program=invocation.program.name, group=group)
    except ScaffoldError as error:
        raise click.UsageError(str(error)) from error
    [operator] = (path for path in written.changed if path.parts[0] == "controllers")
    models = (path for path in written.new if path.parts[0] == "apis" and path.name != "__init__.py")
    others = "".join(f"edit the fields of that version in {path}, and " for path in models)
    _print_result(written, f"{others}edit the new methods in {operator}")


def _print_result(written: Written, following: str) -> None:
    for done, paths in (
        ("wrote", written.new),
        ("changed", written.changed),
        ("generated", written.generated),
    ):
        for path in paths:
            click.echo(f"{done} {path}")
    tests = " ".join(str(path) for path in written.new if path.parts[0] == "tests")
    click.echo(f"Next: {following}; then make generate, and .venv/bin/pytest {tests}.")
