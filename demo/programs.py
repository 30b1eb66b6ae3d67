"""The programs that the demo starts as a user would, with their ports and log files."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path

__all__ = ["ManagerProgram", "PetStoreProgram", "Ports", "Program"]

PROGRAMS = Path(sys.executable).parent
STOP_WITHIN = 35.0
METRICS_PORT, HEALTH_PORT, CONSOLE_PORT, WEBHOOK_PORT, PETSTORE_PORT = 8080, 8081, 8082, 9443, 6742
LOG_LINES = 5


class Ports(contextlib.ExitStack):
    """Reserved ports of this machine; other demos do not use them until the end of the `with` block."""

    def claim(self, preferred: int) -> int:
        """Reserve this port of 127.0.0.1, or another port if this one is in use; return the port."""
        if _free(preferred) and self._lock(preferred):
            return preferred
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                bound: int = probe.getsockname()[1]
            if self._lock(bound):  # the system may return a port that another demo has reserved
                return bound

    def _lock(self, port: int) -> bool:
        path = Path(tempfile.gettempdir()) / f"operator-manager-demo-{os.getuid()}-{port}.lock"
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            file = os.open(path, flags, 0o600)
        except OSError:
            return False
        self.callback(os.close, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Program:
    """A program of this project, run by the demo."""

    def __init__(self, name: str, *arguments: str, folder: Path, log: str) -> None:
        self.name = name
        self.log = folder / log
        self.command = os.path.relpath(PROGRAMS / name)
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the program with an empty log file."""
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                self.command,
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Only the demo handles Ctrl-C; it stops its programs before the control plane.
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    async def ended(self) -> str:
        """Wait until the program ends by itself; return the reason from its log."""
        assert self._process is not None
        code = await self._process.wait()
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        return "\n".join([f"{self.name} ended with {code}; the end of {self.log}:", *lines])

    async def stop(self) -> None:
        """Stop the program with a signal as a user would, and kill it if it does not end in time."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), STOP_WITHIN)
        except TimeoutError:
            self.kill()
            await process.wait()

    def kill(self) -> None:
        """Kill the program if it runs; a waiting `stop` then returns."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()


class ManagerProgram(Program):
    """The program `operator-manager run`."""

    def __init__(self, kubeconfig: Path, folder: Path, ports: Ports, *, petstore: str) -> None:
        self.metrics = f"127.0.0.1:{ports.claim(METRICS_PORT)}"
        self.health = f"127.0.0.1:{ports.claim(HEALTH_PORT)}"
        self.console = f"127.0.0.1:{ports.claim(CONSOLE_PORT)}"
        webhooks = f"127.0.0.1:{ports.claim(WEBHOOK_PORT)}"
        super().__init__(
            "operator-manager",
            "run",
            f"--kubeconfig={kubeconfig}",
            f"--metrics-bind-address={self.metrics}",
            f"--health-probe-bind-address={self.health}",
            f"--console-bind-address={self.console}",
            f"--petstore-address={petstore}",
            f"--webhook-bind-address={webhooks}",
            f"--webhook-url=https://{webhooks}",
            f"--webhook-local-path={folder / 'webhook'}",
            "--log-format=console",
            folder=folder,
            log="manager.log",
        )


class PetStoreProgram(Program):
    """The program `petstore serve`, which keeps its pets in memory."""

    def __init__(self, folder: Path, ports: Ports) -> None:
        self.address = f"127.0.0.1:{ports.claim(PETSTORE_PORT)}"
        super().__init__(
            "petstore",
            "serve",
            f"--bind-address={self.address}",
            "--metrics-bind-address=0",
            "--memory",
            folder=folder,
            log="petstore.log",
        )
