"""The manager, as the demo starts it: the program a person would start, with its log in a file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

__all__ = ["ManagerProcess"]

PROGRAM = Path(sys.executable).with_name("operator-manager")
STOP_WITHIN = 35.0
METRICS_PORT, HEALTH_PORT = 8080, 8081
LOG_LINES = 5


class ManagerProcess:
    """One `operator-manager run`."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.metrics = f"127.0.0.1:{_port(METRICS_PORT)}"
        self.health = f"127.0.0.1:{_port(HEALTH_PORT)}"
        self.log = folder / "manager.log"
        self._kubeconfig = kubeconfig
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it; its log begins anew."""
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                PROGRAM,
                "run",
                f"--kubeconfig={self._kubeconfig}",
                f"--metrics-bind-address={self.metrics}",
                f"--health-probe-bind-address={self.health}",
                "--log-format=console",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the demo, which stops the manager before the control plane.
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    async def ended(self) -> str:
        """Wait until it ends by itself, and return why, from its log."""
        assert self._process is not None
        code = await self._process.wait()
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        return "\n".join([f"the manager ended with {code}; the end of {self.log}:", *lines])

    async def stop(self) -> None:
        """End it as a person would; a second signal after a while."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), STOP_WITHIN)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _port(preferred: int) -> int:
    """The port that a person expects, or another when it is taken."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            bound: int = probe.getsockname()[1]
            return bound
    raise OSError("no free port on 127.0.0.1")
