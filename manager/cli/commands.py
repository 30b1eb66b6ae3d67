"""The command line: commands, most of them imported when called; errors as one line and an exit code."""

from __future__ import annotations

import importlib
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

import click
from click.exceptions import Exit, NoArgsIsHelpError
from click.shell_completion import BashComplete, add_completion_class, shell_complete

from manager.util.memory import tune_garbage_collector
from manager.util.program import Program, loaded_entries
from manager.util.version import KUBERNETES_VERSIONS

if TYPE_CHECKING:
    from manager.operator import AnyOperator

HELP_FLAGS = ["-h", "--help"]
GROUP = "operator_manager.commands"
"""The group of entry points that name sequences of `LazyCommand`."""


class Invocation:
    """The running program and its operators, for the called command."""

    def __init__(
        self, program: Program, operators: Sequence[AnyOperator] | Callable[[], Sequence[AnyOperator]] = ()
    ) -> None:
        """Store the program; `operators` are the program's own, or a function that imports them."""
        self.program = program
        self._own = operators
        self._all: tuple[AnyOperator, ...] | None = None

    def own_operators(self) -> tuple[AnyOperator, ...]:
        """Import the program's own operators. Raises `ClickException` for an operator that cannot run."""
        return self._import(installed=False)

    def operators(self) -> tuple[AnyOperator, ...]:
        """Import the program's own operators and the installed ones; raises as `own_operators` does."""
        if self._all is None:
            self._all = self._import(installed=True)
        return self._all

    def _import(self, *, installed: bool) -> tuple[AnyOperator, ...]:
        from manager.cli.operators import all_operators, own_operators  # noqa: PLC0415 - 230 ms, 34 MB

        return all_operators(own_operators(self._own), self.program, installed=installed)


pass_invocation = click.make_pass_decorator(Invocation)


class LazyCommand(click.Command):
    """A command whose module is imported when the command is called."""

    def __init__(self, name: str, summary: str, target: str) -> None:
        """Declare a command: `summary` is its line in the list of commands; `target` is `module:name`."""
        super().__init__(name, short_help=summary)
        self._target = target

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Import the command and parse its arguments."""
        module, _, attribute = self._target.partition(":")
        command = cast("click.Command", getattr(importlib.import_module(module), attribute))
        return command.make_context(info_name, args, parent, **extra)


@click.command(short_help="print the version")
@pass_invocation
def version(invocation: Invocation) -> None:
    """Print the versions of the program and of Python, and the tested versions of Kubernetes."""
    click.echo(f"{invocation.program.name} {invocation.program.version}")
    click.echo(f"Python {platform.python_version()}")
    click.echo(f"Kubernetes {', '.join(KUBERNETES_VERSIONS)}")


@click.command(short_help="print a script that completes commands and flags in a shell")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@pass_invocation
def completion(invocation: Invocation, shell: str) -> int:
    """Print a script that completes commands and flags in a shell, including those of your operators.

    In bash and zsh, `source <(PROGRAM completion SHELL)` reads it, and in fish,
    `PROGRAM completion fish | source`. The program has to be on the PATH.
    """
    return _complete(Commands(), invocation, f"{shell}_source")


@add_completion_class
class _Bash(BashComplete):
    """Completion in bash, which treats `=` in `--flag=value` as a separate word."""

    name = "bash"

    def get_completion_args(self) -> tuple[list[str], str]:
        words, typed = super().get_completion_args()
        return [each for each in words if each != "="], typed


def _completion_variable(program: Program) -> str:
    return f"_{program.variables}COMPLETE"


def _complete(commands: Commands, invocation: Invocation, instruction: str) -> int:
    """Run a shell's completion instruction, such as `bash_complete`; return the exit code."""
    program = invocation.program
    try:
        variable = _completion_variable(program)
        return shell_complete(commands, {"obj": invocation}, program.name, variable, instruction)
    except click.ClickException:  # the command itself reports the error when it runs
        return 1


def installed_commands() -> Iterator[LazyCommand]:
    """Yield the commands of installed packages, in the order of their entry points' names.

    Raises `ClickException` for an entry point that cannot be loaded, or is no sequence of `LazyCommand`.
    """
    for what, _, found in loaded_entries(GROUP, "the commands"):
        if not isinstance(found, Sequence) or not all(isinstance(each, LazyCommand) for each in found):
            raise click.ClickException(f"{what}, are not a sequence of manager.cli.commands.LazyCommand")
        yield from found


class Commands(click.Group):
    """The commands of a program, with suggestions for mistyped ones."""

    def __init__(self) -> None:
        run = LazyCommand("run", "run the controllers until interrupted", "manager.cli.run:run")
        show_version = click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=self._show_version,
            help="print the version",
        )
        super().__init__(
            commands={"run": run, "completion": completion, "version": version},
            params=[show_version],
            help="Run and examine a Kubernetes controller manager.",
            context_settings={
                "help_option_names": HELP_FLAGS,
                "max_content_width": 110,
                "show_default": True,
            },
        )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of the runtime, or else of an installed package."""
        if cmd_name not in self.commands:
            self._add_installed()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the runtime's commands, then of the installed ones."""
        del ctx
        self._add_installed()
        return list(self.commands)

    def _add_installed(self) -> None:
        for each in installed_commands():
            self.commands.setdefault(str(each.name), each)

    @staticmethod
    def _show_version(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not context.resilient_parsing:
            context.invoke(version)
            context.exit()


def main(
    argv: Sequence[str],
    operators: Sequence[AnyOperator] | Callable[[], Sequence[AnyOperator]],
    *,
    name: str,
    version: str,
    former_names: Sequence[str] = (),
) -> int:
    """Run the command in `argv` (without the program's name) and return the exit code.

    Installed packages can add operators to `operators` with entry points of the program's group. `operators`
    may be a function that imports them, which is called only by commands that need operators.

    `name`, `version` and `former_names` describe the program: all its names in a cluster are derived from
    these (see `Program`). The exit code is 0 after a clean end, 1 on failure, 2 for an invalid command, flag
    or setting.
    """
    invocation = Invocation(Program(name, version, tuple(former_names)), operators)
    _open_standard_files()
    # Before the other imports, which create a few hundred thousand objects.
    tune_garbage_collector()
    try:
        with _ended_by_signals():
            code = _run(argv, invocation)
        # Flush here: at the interpreter's end, a failure could not be handled.
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has ended, as `head` does. The interpreter flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _run(argv: Sequence[str], invocation: Invocation) -> int:
    commands, name = Commands(), invocation.program.name
    if instruction := os.environ.get(_completion_variable(invocation.program)):
        return _complete(commands, invocation, instruction)
    if argv and argv[0] == "help":
        argv = [*argv[1:], "--help"]
    context = None
    try:
        with commands.make_context(name, list(argv), obj=invocation) as context:
            return commands.invoke(context) or 0
    except Exit as end:
        return end.exit_code
    except NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        _complain(name, error, context)
        return error.exit_code


def _complain(name: str, error: click.ClickException, context: click.Context | None) -> None:
    from manager.telemetry.logs import on_one_line  # noqa: PLC0415 - 45 ms, 10 MB

    command = context.invoked_subcommand if context else None
    if isinstance(error, click.UsageError) and error.ctx is not None:
        command = error.ctx.command_path.removeprefix(name).strip()
    where = f"{name}: {command}" if command else name
    click.echo(on_one_line(f"{where}: {error.format_message()}"), err=True)


def _open_standard_files() -> None:
    """Open /dev/null for a missing stdin, stdout or stderr.

    Otherwise, the first opened file or connection gets the missing file descriptor, and all printed text.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - the number of stderr
        pass
    # A library may already have the missing number: libffi 3.5 opens its own file when ctypes is imported.
    sys.stdin = sys.stdin or os.fdopen(number, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(number, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(number, "w", encoding="utf-8", closefd=False)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the process without a traceback, until a command handles the signals.

    Because Python's own handler is removed, asyncio does not change the handling of SIGINT. In a container,
    the process ID is 1: the kernel drops signals that such a process does not handle.
    """
    first = os.getpid() == 1
    handlers = {}
    # A shell makes background jobs ignore the signal.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        handlers[signal.SIGINT] = _exit if first else signal.SIG_DFL
    if first and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        handlers[signal.SIGTERM] = _exit
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _exit(number: int, frame: FrameType | None) -> None:
    del frame
    os._exit(128 + number)
