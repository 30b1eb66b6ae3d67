"""From the arguments to a command, and from what went wrong to one line and an exit code."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import difflib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from manager.cli.arguments import CannotRun, UsageError
from manager.cli.commands import Command, installed_commands
from manager.garbage import tune_garbage_collector
from manager.program import Program

if TYPE_CHECKING:
    from manager.operator import AnyOperator

OK, FAILED, WRONG_USAGE = 0, 1, 2

_OWN = (
    Command("run", "run the controllers until interrupted", "manager.cli.run:run"),
    Command("explain", "tell why an object is not ready", "manager.cli.explain:explain"),
    Command(
        "plan", "tell what the operators would do to the objects that are there", "manager.cli.plan:plan"
    ),
    Command(
        "console",
        "open the console of a cluster's manager in a browser",
        "manager.cli.console:console",
        operators="none",
    ),
    Command(
        "completion",
        "print what bash, zsh or fish reads to complete all this",
        "manager.cli.completion:completion",
    ),
    Command("version", "print the version", "manager.cli.version:version", operators="none"),
)

_HELP_FLAGS = {"-h", "--help"}


def main(
    argv: Sequence[str],
    operators: Sequence[AnyOperator] | Callable[[], Sequence[AnyOperator]],
    *,
    name: str,
    version: str,
    former_names: Sequence[str] = (),
) -> int:
    """Run the command in `argv` (without the program's name) and return the exit code.

    To `operators` come those that installed packages have for the program, as entry points of its group. A
    function that imports them is called by the commands that need them.

    `name`, `version` and `former_names` are the program's: whatever a cluster sees of it is called after it
    (see `Program`).
    0 after a clean end, 1 on failure, 2 for a wrong command, flag or setting.
    """
    program = Program(name, version, tuple(former_names))
    _open_standard_files()
    if not argv:
        print(_help(program), file=sys.stderr)
        return WRONG_USAGE
    # Before all else is imported, which makes a few hundred thousand objects.
    tune_garbage_collector()
    try:
        with _ended_by_signals():
            code = _dispatch(argv, operators, program)
        # Here rather than at the interpreter's end, where a failure could not be handled.
        sys.stdout.flush()
    except SystemExit as end:
        if end.code:
            raise
        return OK  # the help of a command has been printed
    except UsageError as error:
        _complain(f"{name}: {error}")
        return WRONG_USAGE
    except CannotRun as error:
        _complain(f"{name}: {error}")
        return FAILED
    except BrokenPipeError:
        # The reader of our output left, as `head` does. The interpreter flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return code


def _open_standard_files() -> None:
    """Have those that the process was started without lead nowhere.

    Else the first file or connection that is opened gets the number of one, and all that is printed.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - that of stderr
        pass
    os.close(number)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _complain(text: str) -> None:
    from manager.logs import on_one_line  # noqa: PLC0415 - not for the help and the version

    print(on_one_line(text), file=sys.stderr)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let Ctrl-C end the process as SIGTERM does, without a traceback, until a command handles both.

    asyncio then leaves SIGINT alone, too: it would cancel the running task, beside what our own handler does.
    In a container the process has number 1, and the kernel drops a signal for which that has no handler.
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


def _dispatch(
    argv: Sequence[str],
    operators: Sequence[AnyOperator] | Callable[[], Sequence[AnyOperator]],
    program: Program,
) -> int:
    name, *rest = argv
    if name in _HELP_FLAGS or name == "help":
        if not rest:
            print(_help(program))
            return OK
        name, rest = rest[0], ["--help"]
    command = _command_named("version" if name == "--version" else name)
    runner = command.load()
    if command.operators == "none":
        return runner(rest, (), program)
    from manager.cli.operators import all_operators, own_operators  # noqa: PLC0415 - not for the version

    own = own_operators(operators)
    return runner(rest, all_operators(own, program, installed=command.operators == "all"), program)


def _command_named(name: str) -> Command:
    """Return a command. Raises `UsageError` where there is none of that name."""
    for each in _OWN:
        if each.name == name:
            return each
    commands = all_commands()
    if name not in commands:
        what = "flag" if name.startswith("-") else "command"
        close = difflib.get_close_matches(name, [*commands, "--help", "--version"], n=1)
        meant = (
            f"; did you mean {close[0]}?"
            if close
            else f"; the commands are {', '.join(commands)}, and --help"
        )
        raise UsageError(f"unknown {what} {name!r}{meant}")
    return commands[name]


def all_commands() -> dict[str, Command]:
    """Return the commands by their names: the runtime's own, then those that installed packages add."""
    commands = {each.name: each for each in _OWN}
    for each in installed_commands():
        commands.setdefault(each.name, each)
    return commands


def _help(program: Program) -> str:
    commands = "\n".join(f"  {each.name:<15} {each.summary}" for each in all_commands().values())
    return (
        f"A Kubernetes controller manager.\n\nUsage: {program.name} COMMAND [FLAGS]\n\n"
        f"Commands:\n{commands}\n\n"
        f"{program.name} COMMAND --help explains a command and its flags."
    )
