"""The command `version`."""

from __future__ import annotations

import platform

import click

from manager.cli.commands import Invocation, pass_invocation
from manager.util.version import KUBERNETES_VERSIONS


@click.command
@pass_invocation
def version(invocation: Invocation) -> None:
    """Print the versions of the program and of Python, and the tested ones of Kubernetes."""
    click.echo(f"{invocation.program.name} {invocation.program.version}")
    click.echo(f"Python {platform.python_version()}")
    click.echo(f"Kubernetes {', '.join(KUBERNETES_VERSIONS)}")
