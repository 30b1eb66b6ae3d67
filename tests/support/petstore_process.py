"""`petstore serve` as a user starts it: a process that tests can kill and start again with the same file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.support.daemon import Daemon, wait_until
from tests.support.fork_server import run
from tests.support.metrics import get
from tests.support.ports import PortBlock

PROGRAM = Path(sys.executable).with_name("petstore")
READY = "petstore: ready"
READY_WITHIN = 90.0
STOP_WITHIN = 60.0
CALL_WITHIN = 120.0


class PetStoreProcess:
    """A pet store process; the end of the `with` block kills it if it still runs.

    `folder` has its data file and log. Its ports stay reserved, so it can start again with the same ports.
    """

    def __init__(self, folder: Path, *flags: str, program: Sequence[str | Path] = (PROGRAM,)) -> None:
        self._ports = PortBlock(2)
        self.folder = folder
        self.data = folder / "pets.db"
        self.address = f"127.0.0.1:{self._ports[0]}"
        self.metrics_address = f"127.0.0.1:{self._ports[1]}"
        place = () if "--memory" in flags else (f"--data={self.data}",)
        command = [
            *program,
            "serve",
            f"--bind-address={self.address}",
            f"--metrics-bind-address={self.metrics_address}",
            *place,
            *flags,
        ]
        self.process = Daemon("petstore", command, log=folder / "petstore.log")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self._ports.close()

    def start(self) -> None:
        """Start the store, and wait until it answers."""
        before = self.process.output().count(READY)
        self.process.start()
        wait_until(
            self.process,
            lambda: self.process.output().count(READY) > before,
            timeout=READY_WITHIN,
            what=READY,
        )

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to the store, wait for its end and return the exit code."""
        self.process.signal(number)
        return self.process.wait(STOP_WITHIN)

    def metrics(self) -> str:
        """Return the body of the store's /metrics."""
        return get(f"http://{self.metrics_address}/metrics")[1]


def petstore(
    *arguments: str | Path, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the `petstore` program with these arguments; return its output and exit code."""
    return run(PROGRAM, *arguments, environ={**os.environ, **(environ or {})}, timeout=CALL_WITHIN)


def assert_keeps_a_pet(store: PetStoreProcess) -> None:
    """Add a pet, and assert that the store returns it."""
    added = petstore("add", "Thor", "--type=dog", "--birthday=2021-04-01", f"--address={store.address}")
    assert added.returncode == 0, added.stderr
    found = petstore("search", "--output=json", f"--address={store.address}")
    assert [pet["name"] for pet in json.loads(found.stdout)] == ["Thor"]
