"""Fork server: starts the processes of a test run without repeated imports, and ends them with it.

    python -P fork_server.py FD

One process that does nothing else forks every program. A test run may end in any way, `kill -9` included, and
must leave no control plane behind. On Linux the kernel's parent-death signal ends the children. A program
has to request that signal between fork and exec, where a process with threads must not run Python.

Imports take two thirds of a manager's start: 67 tests on devcluster take 165 s without forks and 101 s with
them. So the first of our own programs makes that process import everything, and each one is only forked from
it: a process with its own arguments, environment, log, signals and exit code. A fork cannot adopt environment
variables that configure the interpreter or the C library differently; then the program starts from its file.
Measured programs start from their files too.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

PR_SET_PDEATHSIG = 1
ENTRIES = {
    "operator-manager": "controllers.program",
    "devcluster": "devcluster.cli",
    "petstore": "petstore.cli",
}
IMPORTED = (
    *(
        "controllers.main",
        "manager.cli.run",
        "manager_tools.commands.migrate_storage",
        "manager.certificates",
    ),
    *("manager.webhook.server", "devcluster.cluster", "petstore.client"),
    *("petstore.cli.serve", "petstore.cli.calls"),
    *("aiohttp", "cryptography.x509", "uvloop", "yaml"),
)
READ_AT_START = ("PYTHON", "GLIBC_", "LD_", "MALLOC_", "GRPC_")
BUT_FOR = "PYTHONFAULTHANDLER"
NUMBER = struct.Struct("i")


class Forked:
    """A program that was forked, as `subprocess.Popen` shows one."""

    def __init__(self, status: int) -> None:
        self._status = status
        self._code: int | None = None
        self.pid = self._read()

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the program.

        Raises:
            subprocess.TimeoutExpired: it still runs after `timeout` seconds.
        """
        if self._code is None:
            news = select.poll()
            news.register(self._status)
            if not news.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            self._code = self._read()
            os.close(self._status)
        return self._code

    def _read(self) -> int:
        data = os.read(self._status, NUMBER.size)
        assert data, "the fork server has gone"
        number: int = NUMBER.unpack(data)[0]
        return number


def fork_our_programs() -> None:
    """Start our programs by forks from now on; before this call, each one starts from its file."""
    _Server.forks = True


def start(
    command: Sequence[str | Path],
    environ: Mapping[str, str],
    output: IO[bytes],
    errors: IO[bytes] | None = None,
) -> Forked:
    """Start a command in its own session; its stderr goes to `errors`, or else to `output`."""
    words = [str(word) for word in command]
    return _server().start(words, environ, output, errors or output)


def run(*command: str | Path, environ: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; return its output and exit code."""
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


class _Server:
    """Client of the fork server."""

    forks = False

    def __init__(self) -> None:
        self._read_at_start = _read_at_start(os.environ)
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the test run, which then ends what it has started
            )
        self._lock = threading.Lock()
        atexit.register(self._close)

    def start(
        self, command: list[str], environ: Mapping[str, str], output: IO[bytes], errors: IO[bytes]
    ) -> Forked:
        same = self.forks and self._read_at_start == _read_at_start(environ)
        module = _entry(command) if same else ""
        request = json.dumps([module, command, dict(environ), str(Path.cwd())]).encode()
        status, theirs = os.pipe()
        try:
            with self._lock:
                files = [output.fileno(), errors.fileno(), theirs]
                socket.send_fds(self._socket, [NUMBER.pack(len(request))], files)
                self._socket.sendall(request)
        finally:
            os.close(theirs)
        return Forked(status)

    def _close(self) -> None:
        # The server ends when its last client closes the socket, with every process that it started: after a
        # `kill -9` too.
        self._socket.close()
        self._process.wait()


def _read_at_start(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in environ if name.startswith(READ_AT_START) and name != BUT_FOR}


def _entry(command: list[str]) -> str:
    """Return the Python module that the command runs; empty for another program."""
    program = Path(command[0])
    if program.parent == Path(sys.executable).parent and program.name in ENTRIES:
        return ENTRIES[program.name]
    return command[2] if command[:2] == [sys.executable, "-m"] else ""


@functools.cache
def _server() -> _Server:
    return _Server()


class _Request(NamedTuple):
    module: str
    command: list[str]
    environ: dict[str, str]
    folder: str
    output: int
    errors: int
    status: int


def _serve(control: socket.socket) -> _Request | None:
    """Serve requests: return in each forked process the program to run, and None at the end."""
    server = os.getpid()
    while True:
        size, files, *_ = socket.recv_fds(control, NUMBER.size, 3)
        if not size:
            return None
        message = control.recv(*NUMBER.unpack(size), socket.MSG_WAITALL)
        request = _Request(*json.loads(message), *files)
        if request.module:
            _import_all()
        if os.fork() == 0:
            control.close()
            return _keep(request, server)
        for file in files:
            os.close(file)
        # The children's CPU time counts as the test run's only after a wait for them.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _keep(request: _Request, server: int) -> _Request:
    """Fork the program, and report its end; return only in the forked process."""
    end_with(server)
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        end_with(keeper)
        return request
    os.close(request.output)
    os.close(request.errors)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(request.status, NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _become(request: _Request) -> None:
    os.setsid()
    os.write(request.status, NUMBER.pack(os.getpid()))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(request.output, 1)
    os.dup2(request.errors, 2)
    os.closerange(3, request.status + 10)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environ)
    time.tzset()
    if BUT_FOR in os.environ:
        faulthandler.enable()


def end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends; this works only on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:
            sys.exit("the process that wanted this one is gone")


def _run(request: _Request) -> NoReturn:
    if not request.module:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        os.execvp(request.command[0], request.command)
    if request.command[0] != sys.executable:
        sys.argv = request.command
        sys.exit(importlib.import_module(request.module).main())
    sys.argv = request.command[2:]
    sys.path.insert(0, request.folder)
    runpy.run_module(request.module, run_name="__main__", alter_sys=True)
    sys.exit()


@functools.cache
def _import_all() -> None:
    gc.disable()
    for name in (*ENTRIES.values(), *IMPORTED):
        importlib.import_module(name)
    gc.freeze()
    gc.enable()


def main() -> None:
    """Fork a process per request until all clients have disconnected; each runs the requested program."""
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        _become(request)
        _run(request)


if __name__ == "__main__":
    main()
