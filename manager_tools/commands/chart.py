"""The command `chart`, which writes a Helm chart of a project's config/."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click

from manager.cli.commands import Invocation, pass_invocation
from manager_tools.chart import (
    BuildFailed,
    Image,
    InvalidImage,
    NotOurs,
    ToolMissing,
    chart_files,
    write_tree,
)


def _parsed(_: click.Context, __: click.Parameter, text: str | None) -> Image | None:
    try:
        return None if text is None else Image.parse(text)
    except InvalidImage as error:
        raise click.BadParameter(str(error)) from None


@click.command
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option(
    "--image", callback=_parsed, metavar="IMAGE", help="image of the manager", show_default="as in config/"
)
@pass_invocation
def chart(invocation: Invocation, folder: Path, image: Image | None) -> None:
    """Write a Helm chart of this folder's config/ to DIR, and replace an older chart there.

    With its default values, the chart installs the same objects as config/default. The manifests are built by
    kubectl, or by the program in the variable KUBECTL.
    """
    program = invocation.program
    images = {} if image is None else {program.name: image}
    try:
        write_tree(folder, chart_files(program, Path("config"), images, _description(program.name)))
    except (ToolMissing, BuildFailed, NotOurs) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"wrote {folder}: helm install {program.name} {folder}")


def _description(name: str) -> str:
    try:
        described = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"][
            "description"
        ]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError):
        described = None
    return described if isinstance(described, str) else f"The operators of {name}"
