"""Flags and errors that several commands have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from manager.settings import parse_text

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["OperatorUnusable", "cluster_flags", "file_flag", "origin_of"]

F = TypeVar("F", bound=Callable[..., Any])


class OperatorUnusable(click.ClickException):
    """An operator, or all together, cannot be of this program."""


def origin_of(entry: EntryPoint) -> str:
    """Return the name and version of the package that has the entry point."""
    return "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def file_flag(*names: str, text: str, default: str | None = None) -> Callable[[F], F]:
    """Declare a flag that names a file, which shells complete; `default` describes the default."""
    return click.option(
        *names,
        type=parse_text,
        metavar="FILE",
        shell_complete=click.Path().shell_complete,
        show_default=default,
        help=text,
    )


def cluster_flags(command: F) -> F:
    """Give a command the flags `--kubeconfig` and `--context`."""
    kubeconfig = file_flag(
        "--kubeconfig", default="as for kubectl, or the pod's own", text="kubeconfig of the cluster"
    )
    context = click.option(
        "--context",
        type=parse_text,
        metavar="NAME",
        show_default="its current one",
        help="context of the kubeconfig",
    )
    return kubeconfig(context(command))
