"""`operator-manager run` as a user starts it: a process with flags, logs and ports."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from controllers.main import OPERATORS
from tests.support.daemon import Daemon, wait_until
from tests.support.fork_server import run
from tests.support.metrics import Samples, get
from tests.support.ports import PortBlock

PROGRAM = Path(sys.executable).with_name("operator-manager")
# Environment variables that a developer's shell may set, and that tests must not depend on.
UNWANTED = (
    *("KUBECONFIG", "WATCH_NAMESPACE", "POD_NAMESPACE", "HOME", "KUBERNETES_SERVICE_HOST"),
    *(setting.variable for operator in OPERATORS for setting in operator.declared_settings),
)
READY_WITHIN = 90.0
STOP_WITHIN = 90.0
ONCE_WITHIN = 90.0


class ManagerProcess:
    """A manager process; the end of the `with` block kills it if it still runs.

    `folder` has its log. Its ports stay reserved, so it can start again with the same ports.
    """

    def __init__(
        self,
        kubeconfig: Path,
        *flags: str,
        folder: Path,
        environ: Mapping[str, str] | None = None,
        program: Sequence[str | Path] = (PROGRAM,),
    ) -> None:
        self._ports = PortBlock(3)
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            *program,
            "run",
            f"--kubeconfig={kubeconfig}",
            f"--metrics-bind-address=127.0.0.1:{self._ports[0]}",
            f"--health-probe-bind-address=127.0.0.1:{self._ports[1]}",
            f"--console-bind-address=127.0.0.1:{self._ports[2]}",
            # Webhooks are off unless a test chooses their port, because tests run in parallel.
            "--webhook-bind-address=0",
            "--log-format=json",
            *flags,
        ]
        self.process = Daemon(
            folder.name, command, log=folder / "manager.log", environ=_environment(folder, environ)
        )

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self._ports.close()
        # pytest shows this output with a failed test.
        print(f"----- {self.process.name}: log -----\n{self.process.output()}")  # noqa: T201

    def start_again(self) -> None:
        """Start the manager again after its end, with the same flags, ports and log."""
        self.process.start()

    def wait_ready(self, timeout: float = READY_WITHIN) -> Self:
        """Wait until /readyz answers 200; fail immediately if the process ends."""
        wait_until(self.process, self.is_ready, timeout=timeout, what="readiness")
        return self

    def terminate(self) -> None:
        self.process.signal(signal.SIGTERM)

    def interrupt(self) -> None:
        """Send SIGINT, as Ctrl-C does."""
        self.process.signal(signal.SIGINT)

    def kill(self) -> None:
        """Send SIGKILL, and wait for the end of the process."""
        self.process.kill()

    def wait(self, timeout: float = STOP_WITHIN) -> int:
        """Wait for the end of the process; return the exit code."""
        return self.process.wait(timeout)

    def stop(self, timeout: float = STOP_WITHIN) -> int:
        """Send SIGTERM; wait for the end of the process and return the exit code."""
        self.terminate()
        return self.wait(timeout)

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            return self.probe("/readyz")[0] == 200
        return False

    def probe(self, path: str) -> tuple[int, str]:
        """Return the status and body that the health port answers for a path such as `/readyz?verbose`."""
        return get(f"http://127.0.0.1:{self._ports[1]}{path}", timeout=5.0)

    def scrape(self, accept: str = "text/plain") -> str:
        """Return the body of /metrics."""
        status, body = get(f"http://127.0.0.1:{self._ports[0]}/metrics", accept=accept, timeout=5.0)
        assert status == 200, body
        return body

    def metrics(self) -> Samples:
        """Return the parsed body of /metrics."""
        return Samples(self.scrape())

    def logs(self, **fields: Any) -> list[dict[str, Any]]:
        """Return the log lines that have these fields; a line that is not JSON becomes `{"text": line}`."""
        lines = [_parse(line) for line in self.process.output().splitlines() if line.strip()]
        return [line for line in lines if all(line.get(name) == value for name, value in fields.items())]

    @property
    def metrics_address(self) -> str:
        """Return host and port of /metrics."""
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def console_address(self) -> str:
        """Return the host and port of the console, which `explain` uses."""
        return f"127.0.0.1:{self._ports[2]}"

    @property
    def health_address(self) -> str:
        """Return host and port of /healthz and /readyz."""
        return f"127.0.0.1:{self._ports[1]}"


def run_once(
    *arguments: str | Path, folder: Path, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `operator-manager` with these arguments; return its output and exit code."""
    return run(PROGRAM, *arguments, environ=_environment(folder, environ), timeout=ONCE_WITHIN)


def _environment(home: Path, extra: Mapping[str, str] | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    return {**kept, "HOME": str(home), "PYTHONFAULTHANDLER": "1", **(extra or {})}


def _parse(line: str) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        parsed = json.loads(line)
        if isinstance(parsed, dict):
            return parsed
    return {"text": line}
