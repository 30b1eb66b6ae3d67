"""The entry point: it turns arguments into a command, and errors into one line and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit, NoArgsIsHelpError

from manager.cli.commands import Commands, Invocation
from manager.util.garbage import tune_garbage_collector
from manager.util.program import Program

if TYPE_CHECKING:
    from manager.operator import AnyOperator


def main(
    argv: Sequence[str],
    operators: Sequence[AnyOperator] | Callable[[], Sequence[AnyOperator]],
    *,
    name: str,
    version: str,
    former_names: Sequence[str] = (),
) -> int:
    """Run the command in `argv` (without the program's name) and return the exit code.

    Installed packages can add to `operators`, by entry points of the program's group. `operators` can be a
    function that imports them: the commands that need them call it.

    `name`, `version` and `former_names` are the program's: all its names in a cluster are derived from them
    (see `Program`).
    0 after a clean end, 1 on failure, 2 for a wrong command, flag or setting.
    """
    invocation = Invocation(Program(name, version, tuple(former_names)), operators)
    _open_standard_files()
    # Before all else is imported, which makes a few hundred thousand objects.
    tune_garbage_collector()
    try:
        with _ended_by_signals():
            code = _run(argv, invocation)
        # Here rather than at the interpreter's end, where a failure could not be handled.
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output left, as `head` does. The interpreter flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _run(argv: Sequence[str], invocation: Invocation) -> int:
    commands, name = Commands(), invocation.program.name
    if instruction := os.environ.get(invocation.completion_variable):
        from manager.cli.completion import complete  # noqa: PLC0415 - only where a shell asks

        return complete(commands, invocation, instruction)
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
    """Print an error as one line that begins with the program and the command."""
    from manager.telemetry.logs import on_one_line  # noqa: PLC0415 - not for the help and the version

    command = context.invoked_subcommand if context else None
    if isinstance(error, click.UsageError) and error.ctx is not None:
        command = error.ctx.command_path.removeprefix(name).strip()
    where = f"{name}: {command}" if command else name
    click.echo(on_one_line(f"{where}: {error.format_message()}"), err=True)


def _open_standard_files() -> None:
    """Open /dev/null for a missing stdin, stdout or stderr.

    Else the first file or connection to be opened gets its number, and everything that is printed.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - the number of stderr
        pass
    os.close(number)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let Ctrl-C end the process as SIGTERM does, without a traceback, until a command handles both.

    asyncio then leaves SIGINT alone, too: it would cancel the running task, in addition to our own handler.
    In a container the process has number 1, and the kernel drops a signal that this process does not handle.
    """
    first = os.getpid() == 1
    handlers = {}
    # A shell has background jobs ignore it.
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
    """End the process with the code that a shell gives for the signal."""
    del frame
    os._exit(128 + number)
