"""A replica of the manager with its own proxy, through which its traffic is measured."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from benchmarks.program import ROOT
from benchmarks.sessions.process import MB, resident_mb
from tests.support.daemon import Daemon
from tests.support.forwarder import Forwarder
from tests.support.kubeconfig import Credentials
from tests.support.loop_thread import LoopThread
from tests.support.manager_process import PROGRAM
from tests.support.metrics import Samples, get
from tests.support.ports import PortBlock

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.envtest import EnvtestControlPlane

__all__ = ["LEASE", "SHARDS", "Replica"]

SHARDS = 16
LEASE = "operator-manager"
STOP_WITHIN = 60.0
_HELD = "leader_election_master_status"


class CountedWay(LoopThread):
    """A proxy to the API server that counts received bytes; its clients use the file `kubeconfig`."""

    def __init__(self, kubeconfig: Path, folder: Path, name: str) -> None:
        super().__init__(name)
        self._credentials = Credentials.read(kubeconfig)
        port = urlsplit(self._credentials.server).port
        self._forwarder = Forwarder(lambda: port)
        self.kubeconfig = folder / f"{name}.kubeconfig"

    @property
    def received(self) -> int:
        """Return the bytes received from the API server so far."""
        return self._forwarder.passed_back

    async def _open(self) -> None:
        await self._forwarder.__aenter__()
        credentials = self._credentials
        Credentials(
            server=f"https://127.0.0.1:{self._forwarder.port}",
            authority=credentials.authority,
            token=credentials.token,
        ).write(self.kubeconfig)

    async def _close(self) -> None:
        await self._forwarder.__aexit__()


class Replica:
    """A replica of the manager that runs from `start` to `stop`, or to the end of the `with` block."""

    def __init__(self, plane: EnvtestControlPlane, number: int) -> None:
        self._stack = contextlib.ExitStack()
        self._plane = plane
        self.name = f"replica-{number}"

    def __enter__(self) -> Self:
        ports = PortBlock(2)
        self._stack.callback(ports.close)
        self._way = self._stack.enter_context(
            CountedWay(self._plane.kubeconfig, self._plane.folder, self.name)
        )
        self._metrics = f"127.0.0.1:{ports[0]}"
        self.health = f"127.0.0.1:{ports[1]}"
        command = [
            *(PROGRAM, "run", f"--kubeconfig={self._way.kubeconfig}", "--controllers=memcached"),
            *(f"--metrics-bind-address={self._metrics}", f"--health-probe-bind-address={self.health}"),
            *("--webhook-bind-address=0", "--console-bind-address=0", "--log-level=warn"),
            *(f"--shards={SHARDS}", "--leader-election-namespace=default"),
        ]
        # Users start the program by its file, and so does this replica.
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        log = self._plane.folder / f"{self.name}.log"
        self.process = Daemon(self.name, command, log=log, environ=environ)
        self.process.start()
        self._stack.callback(self.process.kill)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def received_mb(self) -> float:
        """Return the MB received from the API server so far."""
        return self._way.received / MB

    @property
    def memory_mb(self) -> float:
        """Return the resident memory in MB."""
        return resident_mb(self.process)

    @property
    def cpu_seconds(self) -> float:
        """Return the CPU seconds used so far."""
        return self.process.cpu_seconds()

    def shards(self) -> frozenset[int]:
        """Return the shards that the replica owns, from its metrics."""
        held = Samples(get(f"http://{self._metrics}/metrics")[1]).select(_HELD)
        return frozenset(number_of(each.labels["name"]) for each in held if each.value)

    def stop(self) -> None:
        """Stop the replica cleanly, and wait for its end."""
        self.process.signal(signal.SIGTERM)
        self.process.wait(STOP_WITHIN)


def number_of(lease: str) -> int:
    return int(lease.removeprefix(LEASE).removeprefix("-") or 0)
