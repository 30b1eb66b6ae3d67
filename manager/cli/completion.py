"""The command `completion`, and the answers to a shell that completes a command line."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, add_completion_class, shell_complete

from manager.cli.commands import Commands, Invocation, pass_invocation


@add_completion_class
class _Bash(BashComplete):
    """Completion in bash, which makes the sign in `--flag=value` a word of its own."""

    name = "bash"

    def get_completion_args(self) -> tuple[list[str], str]:
        words, typed = super().get_completion_args()
        return [each for each in words if each != "="], typed


def complete(commands: Commands, invocation: Invocation, instruction: str) -> int:
    """Run a shell's completion instruction, such as `bash_complete`; return the exit code."""
    name, variable = invocation.program.name, invocation.completion_variable
    try:
        return shell_complete(commands, {"obj": invocation}, name, variable, instruction)
    except click.ClickException:  # the command itself reports the error once it runs
        return 1


@click.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@pass_invocation
def completion(invocation: Invocation, shell: str) -> int:
    """Print a script that completes commands and flags in a shell, those of your operators too.

    In bash and zsh, `source <(PROGRAM completion SHELL)` reads it, and in fish,
    `PROGRAM completion fish | source`. The program has to be on the PATH.
    """
    return complete(Commands(), invocation, f"{shell}_source")
