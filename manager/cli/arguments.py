"""Flags that several commands have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from manager.settings import parse_text

__all__ = ["OperatorUnusable", "cluster_flags", "file_flag"]

F = TypeVar("F", bound=Callable[..., Any])


class OperatorUnusable(click.ClickException):
    """An operator, or all together, cannot be of this program."""


def file_flag(*names: str, text: str, default: str | None = None) -> Callable[[F], F]:
    """Declare a flag that names a file, which shells complete; `default` says what holds without it."""
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
