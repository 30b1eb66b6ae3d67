"""devcluster as a user starts it: `devcluster up` in its own process."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from devcluster.access.certificates import Authority
from tests.support.control_plane import ControlPlane, Feature
from tests.support.daemon import Daemon
from tests.support.envtest import VARIABLE
from tests.support.kubeconfig import Credentials
from tests.support.ports import PortBlock

PROGRAM = Path(sys.executable).with_name("devcluster")
# As fast as the simulated nodes of the other control plane.
POD_READY_DELAY = "300ms"
# Flags of the real servers, and the devcluster flags with the same effect. Flags that both share pass
# unchanged.
TRANSLATED = {"--etcd-compaction-interval=2s": "--history=5", "--watch-cache=false": None}


class DevclusterControlPlane(ControlPlane):
    """Control plane in one devcluster process, with its data in a file that survives a kill.

    With `persistent=False`, the data is only in memory.
    """

    def __init__(
        self,
        folder: Path,
        *,
        parts: Sequence[str] = ("etcd", "apiserver", "controllers", "scheduler", "nodes"),
        apiserver_flags: Sequence[str] = (),
        persistent: bool = True,
    ) -> None:
        """Configure devcluster with `parts` and `apiserver_flags` of EnvtestControlPlane."""
        super().__init__(folder)
        self._controllers = "controllers" in parts
        self._persistent = persistent
        self._flags = [TRANSLATED.get(flag, flag) for flag in apiserver_flags]

    def start(self) -> None:
        """Start devcluster, which takes about half a second."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._ports = PortBlock(1)
        command = [
            PROGRAM,
            "up",
            f"--port={self._ports[0]}",
            f"--kubeconfig={self.kubeconfig}",
            *([f"--data={self.folder / 'data'}"] if self._persistent else []),
            f"--pod-ready-delay={POD_READY_DELAY}",
            *([] if self._controllers else ["--no-controllers"]),
            *(flag for flag in self._flags if flag is not None),
        ]
        daemon = Daemon("devcluster", command, log=self.folder / "devcluster.log")
        self._daemons[PROGRAM.name] = daemon
        daemon.start()
        self.wait_ready()

    def stop(self) -> None:
        """Kill devcluster, and delete its data."""
        for daemon in self._daemons.values():
            daemon.kill()
        if self._ports is not None:
            self._ports.close()
        for path in self.folder.glob("data*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def supports(self, feature: Feature) -> bool:
        """Return whether devcluster has the feature."""
        return {
            Feature.WORKLOADS: self._controllers,
            Feature.READY_PODS: self._controllers,
            Feature.POD_LOGS: self._controllers,
            Feature.PROCESSES: True,
            Feature.POD_SECURITY: True,
            Feature.ADMISSION_POLICIES: True,
            Feature.PRIORITIES: False,
            Feature.SERVER_FLAGS: True,
            Feature.AUDIT_LOG: False,
            Feature.PROTOBUF: False,
        }[feature]

    def user_kubeconfig(self, user: str, *groups: str) -> Path:
        """Return a kubeconfig with a client certificate of devcluster's own authority."""
        server, keys = self.credentials, self.folder / "data.files"
        authority = Authority.load(((keys / "ca.crt").read_bytes(), (keys / "ca.key").read_bytes()))
        certificate, key = authority.issue(user, organizations=groups)
        credentials = Credentials(
            server=server.server, authority=server.authority, certificate=certificate, key=key
        )
        return credentials.write(self.folder / "users" / user.replace(":", "-") / "kubeconfig")

    def kubectl_program(self) -> Path:
        """Return kubectl from the envtest assets or the PATH; skip the test if there is none."""
        assets = os.environ.get(VARIABLE)
        found = shutil.which("kubectl", path=assets) or shutil.which("kubectl")
        if found is None:
            pytest.skip("no kubectl on the PATH")
        return Path(found)

    @property
    def process(self) -> Daemon:
        """Return the devcluster process, for its log, CPU time and memory."""
        return self.part("all of it")

    def part(self, name: str) -> Daemon:
        """Return the devcluster process for any component, because one process has all components."""
        return self._daemons[PROGRAM.name]
