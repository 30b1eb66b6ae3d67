"""Starts and ends the processes of a test run; most are forks of Python's fork server, to save import time.

A test run may end in any way, even by `kill -9`, and must leave no control plane running. So each program
asks Linux for a signal when the fork server ends. The fork server makes the request possible: a process with
threads must not run Python between fork and exec.

Imports take two thirds of a manager's start: 67 tests on devcluster take 165 s without forks and 101 s with
them. So the fork server imports our programs once. A fork ignores changes of environment variables that
configure the interpreter or the C library; a program that needs such changes starts from its file. Programs
that the benchmarks measure start from their files too.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import importlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO, Any

PR_SET_PDEATHSIG = 1
ENTRIES = {
    "operator-manager": "controllers.program",
    "devcluster": "devcluster.cli",
    "petstore": "petstore.cli",
}
IMPORTED = (
    *("controllers.main", "manager.cli.run", "manager.certificates", "manager.webhook.server"),
    *("manager_tools.commands.migrate_storage", "devcluster.cluster"),
    *("petstore.client", "petstore.cli.serve", "petstore.cli.calls"),
    *("aiohttp", "cryptography.x509", "uvloop", "yaml"),
)
READ_AT_START = ("PYTHON", "GLIBC_", "LD_", "MALLOC_", "GRPC_")
BUT_FOR = "PYTHONFAULTHANDLER"
CONTEXT = multiprocessing.get_context("forkserver")
LOCK = threading.Lock()
"""`multiprocessing` processes are not thread-safe, and tests use several threads."""
_forked_with: dict[str, str] | None = None
"""Environment variables with which the fork server imports our programs; None if it does not."""


class Program:
    """A started program, with `pid`, `poll` and `wait` as in `subprocess.Popen`."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.pid: int = process.pid

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""
        with LOCK:
            code: int | None = self._process.exitcode
            return code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the program.

        Raises:
            subprocess.TimeoutExpired: it still runs after `timeout` seconds.
        """
        wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code


class _File:
    """An open file that a new process receives as a descriptor number."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return _number_of, (DupFd(self._file.fileno()),)


def _number_of(passed: Any) -> int:
    number: int = passed.detach()
    return number


def fork_our_programs() -> None:
    """Start our programs by forks from now on, instead of from their files."""
    global _forked_with  # noqa: PLW0603 -- one for the process, as its fork server is
    CONTEXT.set_forkserver_preload([__name__, *ENTRIES.values(), *IMPORTED])
    _forked_with = _read_at_start(os.environ)


def start(
    command: Sequence[str | Path],
    environ: Mapping[str, str],
    output: IO[bytes],
    errors: IO[bytes] | None = None,
) -> Program:
    """Start a command in its own session; its stderr goes to `errors`, or to `output` if `errors` is None."""
    words = [str(word) for word in command]
    module = _entry(words) if _forked_with == _read_at_start(environ) else ""
    begun, begins = CONTEXT.Pipe(duplex=False)
    given = (module, words, dict(environ), str(Path.cwd()), _File(output), _File(errors or output), begins)
    with LOCK:
        process = CONTEXT.Process(target=_become, args=given, daemon=True)
        process.start()
    begins.close()
    with begun:
        begun.recv_bytes()
    return Program(process)


def run(*command: str | Path, environ: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a program; return its output and exit code when it has ended."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = start(command, environ, output, errors)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(command, code, output.read().decode(), errors.read().decode())


@atexit.register
def _kill_all() -> None:
    """Kill all remaining processes, even suspended ones, because `multiprocessing` would wait for them."""
    for process in multiprocessing.active_children():
        process.kill()


def _read_at_start(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in environ if name.startswith(READ_AT_START) and name != BUT_FOR}


def _entry(command: list[str]) -> str:
    """Return the module of one of our programs or of `python -m`; "" if the command runs neither."""
    program = Path(command[0])
    if program.parent == Path(sys.executable).parent and program.name in ENTRIES:
        return ENTRIES[program.name]
    return command[2] if command[:2] == [sys.executable, "-m"] else ""


def _become(
    module: str,
    command: list[str],
    environ: dict[str, str],
    folder: str,
    output: int,
    errors: int,
    begins: Connection,
) -> None:
    """Run the program in this process, which is a fork of the fork server."""
    end_with(os.getppid())
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    with contextlib.suppress(BrokenPipeError), begins:
        begins.send_bytes(b"")
    # The fork server ends only when no process has its pipe open.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if not module:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)
    time.tzset()
    if BUT_FOR in os.environ:
        faulthandler.enable()
    if command[0] != sys.executable:
        sys.argv = command
        sys.exit(importlib.import_module(module).main())
    sys.argv = command[2:]
    sys.path.insert(0, folder)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def end_with(parent: int) -> None:
    """Let Linux kill this process when its parent ends; do nothing on other systems."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:
            sys.exit("the process that wanted this one is gone")
