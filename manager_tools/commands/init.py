"""The command `init`."""

from __future__ import annotations

from pathlib import Path

import click

from manager_tools.scaffold import Names, ScaffoldError
from manager_tools.scaffold import init as write_project


@click.command
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option(
    "--domain", required=True, metavar="DOMAIN", help="end of the groups of your kinds, such as example.com"
)
@click.option("--name", metavar="NAME", show_default="that of the folder", help="name of the program")
def init(folder: Path, domain: str, name: str | None) -> None:
    """Begin a project: a kind, its operator, a sample, a test, a demo, manifests and an image.

    Nothing that is there already is overwritten.
    """
    try:
        names = Names(program=name or folder.resolve().name, domain=domain)
        write_project(folder, names)
    except ScaffoldError as error:
        raise click.UsageError(str(error)) from error
    click.echo(f"{folder} is a project now: the program {names.program}, with the kind {names.kind}.")
    checkout = _checkout()
    first = f", make venv OPERATOR_MANAGER={checkout}" if checkout else ""
    click.echo(
        f"Next: cd {folder}, git init{first}, then make test, make demo, and make for what else there is."
    )


def _checkout() -> Path | None:
    """Return the checkout that contains this library; None if the library is installed."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() and (root / "devcluster").is_dir() else None
