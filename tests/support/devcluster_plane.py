"""The embedded control plane as a user starts it: `devcluster up`, a process of its own."""

from __future__ import annotations

import os
import shutil
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

from devcluster.access.certificates import Authority
from tests.support.control_plane import ControlPlane, Feature
from tests.support.daemon import Daemon, wait_until
from tests.support.envtest import VARIABLE
from tests.support.kubeconfig import Credentials
from tests.support.ports import PortBlock

PROGRAM = Path(sys.executable).with_name("devcluster")
START_TIMEOUT = 120.0
# As quick as the simulated nodes of the other control plane, but for the scheduling.
POD_READY_DELAY = "300ms"
# Flags of the real servers, and the devcluster flags with the same effect. Flags that both share pass
# unchanged.
TRANSLATED = {"--etcd-compaction-interval=2s": "--history=5", "--watch-cache=false": None}


class DevclusterControlPlane(ControlPlane):
    """Control plane in one devcluster process; its data is in a file, so it survives a kill.

    With `persistent=False`, the data is only in memory.
    """

    def __init__(
        self,
        folder: Path,
        *,
        parts: Sequence[str] = ("etcd", "apiserver", "controllers", "scheduler", "nodes"),
        apiserver_flags: Sequence[str] = (),
        controllers_flags: Sequence[str] = (),
        persistent: bool = True,
    ) -> None:
        """Take the options of `EnvtestControlPlane`; flags of controllers have no effect here."""
        self._folder = folder
        self._controllers = "controllers" in parts
        self._persistent = persistent
        self._flags = [TRANSLATED.get(flag, flag) for flag in apiserver_flags]
        self._ports: PortBlock | None = None
        self._daemon: Daemon | None = None
        self.kubeconfig = folder / "kubeconfig"

    @property
    def folder(self) -> Path:
        """Return the folder of its data, its kubeconfig and its log."""
        return self._folder

    def start(self) -> None:
        """Start the process, which takes about half a second."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._ports = PortBlock(1)
        command = [
            PROGRAM,
            "up",
            f"--port={self._ports[0]}",
            f"--kubeconfig={self.kubeconfig}",
            *([f"--data={self._folder / 'data'}"] if self._persistent else []),
            f"--pod-ready-delay={POD_READY_DELAY}",
            *([] if self._controllers else ["--no-controllers"]),
            *(flag for flag in self._flags if flag is not None),
        ]
        self._daemon = Daemon("devcluster", command, log=self._folder / "devcluster.log")
        self._daemon.start()
        self._wait_ready()

    def check(self) -> None:
        """Raise with the end of the log, unless the process runs."""
        self.process.check()

    def stop(self) -> None:
        """Stop at once, and delete the data."""
        if self._daemon is not None:
            self._daemon.kill()
        if self._ports is not None:
            self._ports.close()
        for path in self._folder.glob("data*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def supports(self, feature: Feature) -> bool:
        """Return whether it has the feature: all except those of other programs."""
        return {
            Feature.WORKLOADS: self._controllers,
            Feature.READY_PODS: self._controllers,
            Feature.FAILING_PODS: self._controllers,
            Feature.POD_LOGS: self._controllers,
            Feature.SERVER_METRICS: True,
            Feature.PROCESSES: True,
            Feature.POD_SECURITY: True,
            Feature.ADMISSION_POLICIES: True,
            Feature.PRIORITIES: False,
            Feature.QUOTAS: self._controllers,
            Feature.SERVER_FLAGS: True,
            Feature.AUDIT_LOG: False,
            Feature.PROTOBUF: False,
        }[feature]

    def user_kubeconfig(self, user: str, *groups: str) -> Path:
        """Return a kubeconfig with a client certificate by its own authority."""
        server, keys = self.credentials, self._folder / "data.files"
        authority = Authority.load(((keys / "ca.crt").read_bytes(), (keys / "ca.key").read_bytes()))
        certificate, key = authority.issue(user, organizations=groups)
        credentials = Credentials(
            server=server.server, authority=server.authority, certificate=certificate, key=key
        )
        return credentials.write(self._folder / "users" / user.replace(":", "-") / "kubeconfig")

    def kubectl_program(self) -> Path:
        """Return the kubectl of the assets, or of the PATH; skip the test if there is none."""
        assets = os.environ.get(VARIABLE)
        found = shutil.which("kubectl", path=assets) or shutil.which("kubectl")
        if found is None:
            pytest.skip("no kubectl on the PATH")
        return Path(found)

    @property
    def process(self) -> Daemon:
        """Return the process, for its log, CPU and memory."""
        assert self._daemon is not None, "it was never started"
        return self._daemon

    def kill(self, part: str) -> None:
        """Send SIGKILL to the one process, whichever part is named."""
        self.process.kill()

    def restart(self, part: str) -> None:
        """Kill it, if it runs, and start it again on the same port with the same data."""
        self.process.kill()
        self.process.start()
        self._wait_ready()

    def freeze(self, part: str) -> None:
        """Send SIGSTOP."""
        self.process.freeze()

    def thaw(self, part: str) -> None:
        """Send SIGCONT."""
        self.process.thaw()

    def _wait_ready(self) -> None:
        wait_until(self.process, self._is_ready, timeout=START_TIMEOUT, what="readiness")

    def _is_ready(self) -> bool:
        if not self.kubeconfig.exists():
            return False
        server = self.credentials
        assert server.authority is not None
        context = ssl.create_default_context(cadata=server.authority.decode())
        request = urllib.request.Request(
            f"{server.server}/readyz", headers={"Authorization": f"Bearer {server.token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=2.0, context=context) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as refusal:
            refusal.close()  # or its socket is left to the garbage collector
        except OSError:
            pass
        return False
