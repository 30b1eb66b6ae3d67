"""The command `init`, which creates a project."""

from __future__ import annotations

from pathlib import Path

import click

from manager_tools.scaffold import Names, ScaffoldError, renew_library
from manager_tools.scaffold import init as write_project


@click.command
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option("--domain", metavar="DOMAIN", help="domain at the end of API groups, such as example.com")
@click.option("--name", metavar="NAME", show_default="name of the folder", help="name of the program")
@click.option("--renew", is_flag=True, help="only replace the library in an existing project")
def init(folder: Path, domain: str | None, name: str | None, renew: bool) -> None:
    """Create a project: a kind, its operator, a sample, a test, a demo, manifests, an image, workflows.

    Existing files are not overwritten. The project contains a wheel of this library.
    """
    try:
        if renew:
            if domain is not None or name is not None:
                raise click.UsageError("--renew goes without --domain and --name")
            click.echo(f"wrote {renew_library(folder)}, and its hash to requirements.txt")
            return
        if domain is None:
            raise click.UsageError("Missing option '--domain'.")
        names = Names(program=folder.resolve().name if name is None else name, domain=domain)
        write_project(folder, names)
    except ScaffoldError as error:
        raise click.UsageError(str(error)) from error
    click.echo(f"created the project {folder}: the program {names.program} with the kind {names.kind}")
    click.echo(f"Next: cd {folder}, git init, then make test and make demo; make lists all targets.")
