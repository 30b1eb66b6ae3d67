"""From the arguments to a command, and from what went wrong to one line and an exit code."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import difflib
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TypeAlias, cast

from manager.cli.arguments import CannotRun, UsageError
from manager.garbage import tune_garbage_collector
from manager.program import Program

if TYPE_CHECKING:
    from manager.operator import AnyOperator

OK, FAILED, WRONG_USAGE = 0, 1, 2

Command: TypeAlias = "Callable[[Sequence[str], Sequence[AnyOperator], Program], int]"

COMMANDS = {
    "run": "run the controllers until interrupted",
    "crds": "print the custom resource definitions, ready for kubectl apply --server-side",
    "generate": "write what is generated under config/",
    "init": "begin a project of your own",
    "create": "add a kind and its operator to a project",
    "model": "write the model of a kind that others have defined",
    "simulate": "try the operators in a simulated cluster where things go wrong",
    "explain": "tell why an object is not ready",
    "plan": "tell what the operators would do to the objects that are there",
    "console": "open the console of a cluster's manager in a browser",
    "migrate-storage": "have every object stored in the storage version of its definition",
    "completion": "print what bash, zsh or fish reads to complete all this",
    "version": "print the version",
}

_TOGETHER = {"crds": "generating", "generate": "generating"}
"""Modules that have several commands. Each is a function of its name, and any other has its own module."""

_HELP_FLAGS = {"-h", "--help"}

_WITHOUT_OPERATORS = {"version", "--version", "init", "create", "model", "console"}

_WITHOUT_INSTALLED = {"generate"}
"""What does the same whatever is installed, even where an installed operator cannot be loaded."""


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
    command = command_named("version" if name == "--version" else name)
    if name in _WITHOUT_OPERATORS:
        return command(rest, (), program)
    from manager.cli.operators import all_operators, own_operators  # noqa: PLC0415 - not for the version

    own = own_operators(operators)
    return command(rest, all_operators(own, program, installed=name not in _WITHOUT_INSTALLED), program)


def command_named(name: str) -> Command:
    """The function of a command. Raises `UsageError` where there is none of that name."""
    if name not in COMMANDS:
        what = "flag" if name.startswith("-") else "command"
        close = difflib.get_close_matches(name, [*COMMANDS, "--help", "--version"], n=1)
        meant = (
            f"; did you mean {close[0]}?"
            if close
            else f"; the commands are {', '.join(COMMANDS)}, and --help"
        )
        raise UsageError(f"unknown {what} {name!r}{meant}")
    function = name.replace("-", "_")
    module = importlib.import_module(f"manager.cli.{_TOGETHER.get(name, function)}")
    return cast("Command", getattr(module, function))


def _help(program: Program) -> str:
    commands = "\n".join(f"  {name:<15} {summary}" for name, summary in COMMANDS.items())
    return (
        f"A Kubernetes controller manager.\n\nUsage: {program.name} COMMAND [FLAGS]\n\n"
        f"Commands:\n{commands}\n\n"
        f"{program.name} COMMAND --help explains a command and its flags."
    )
