"""A background process group with a log file; the processes end when the test run ends."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.fork_server import Program, start

TAIL_LINES = 20


class DaemonDied(Exception):
    """Error: a program ended unexpectedly."""


class Daemon:
    """Program that a test may start, kill and start again; its output is appended to `log`."""

    def __init__(
        self, name: str, command: Sequence[str | Path], *, log: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        self._command = [str(part) for part in command]
        self._environ = dict(os.environ if environ is None else environ)
        self._process: Program | None = None

    @property
    def pid(self) -> int:
        """Return the id of the program's process, which leads its process group."""
        return self._started().pid

    @property
    def running(self) -> bool:
        """Return whether the program has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, negative for a signal as in `subprocess`; None while the program runs."""
        return self._started().poll()

    def start(self) -> None:
        """Start the program; raise AssertionError if it runs already."""
        assert not self.running, f"{self.name} is running already"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._process = start(self._command, self._environ, output)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process group, if the program still runs."""
        if self._started().poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def wait(self, timeout: float) -> int:
        """Wait for the end of the program; return its exit code.

        Raises:
            TimeoutError: it still runs after `timeout` seconds; the message has the end of its log.
        """
        try:
            return self._started().wait(timeout)
        except subprocess.TimeoutExpired:
            message = f"{self.name} still runs after {timeout:g} s; {self.tail()}"
            raise TimeoutError(message) from None

    def kill(self) -> None:
        """Kill the program without a grace period, as a crash would."""
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self._process.wait()

    def stop(self, grace: float = 5.0) -> None:
        """Terminate the program, even a suspended one; kill it after `grace` seconds."""
        if not self.running:
            return
        self.signal(signal.SIGTERM)
        self.thaw()
        try:
            self.wait(grace)
        except TimeoutError:
            self.kill()

    def freeze(self) -> None:
        """Suspend the program; its connections stay open."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume a suspended program."""
        self.signal(signal.SIGCONT)

    def check(self) -> None:
        """Raise DaemonDied with the end of the log if the program does not run."""
        if not self.running:
            raise DaemonDied(f"{self.name} ended with {self.exit_code}; {self.tail()}")

    def output(self) -> str:
        """Return everything that the program has written, in all its runs."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self) -> str:
        """Return the last lines of the log, below a heading."""
        lines = self.output().splitlines()[-TAIL_LINES:]
        return f"the end of its log {self.log}:\n" + "\n".join(lines)

    def cpu_seconds(self) -> float:
        """Return the user and system CPU time in seconds (Linux only)."""
        clock = (~self.pid << 3) | 2  # the id that clock_getcpuclockid(3) returns, for all threads
        return time.clock_gettime(clock)

    def resident_bytes(self) -> int:
        """Return the current resident memory in bytes (Linux only)."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def _started(self) -> Program:
        assert self._process is not None, f"{self.name} was never started"
        return self._process


def limited(program: Path, *, soft: int, hard: int) -> tuple[str, ...]:
    """Return a command that runs the program with a soft and a hard limit of open files."""
    quoted = shlex.quote(str(program))
    return ("/bin/sh", "-c", f'ulimit -S -n {soft} && ulimit -H -n {hard} && exec {quoted} "$@"', "sh")


def wait_until(daemon: Daemon, condition: object, *, timeout: float, what: str) -> None:
    """Wait until `condition()` is true; fail when the program ends or `timeout` seconds have passed."""
    assert callable(condition)
    deadline = time.monotonic() + timeout
    while not condition():
        daemon.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{daemon.name}: {what} did not come within {timeout:g} s; {daemon.tail()}")
        time.sleep(0.05)
