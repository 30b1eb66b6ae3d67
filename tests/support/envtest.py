"""A real control plane of the programs in `KUBEBUILDER_ASSETS` or `KUBEBUILDER_ASSETS_OLDEST`."""

from __future__ import annotations

import contextlib
import http.client
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.api_access import ApiFailure
from tests.support.certificates import Authority, signing_key
from tests.support.control_plane import START_TIMEOUT, ControlPlane, Feature
from tests.support.daemon import Daemon, wait_until
from tests.support.kubeconfig import Credentials
from tests.support.ports import PortBlock

VARIABLE = "KUBEBUILDER_ASSETS"
# Variable with the programs of the oldest Kubernetes version that the manager supports.
OLDEST = "KUBEBUILDER_ASSETS_OLDEST"
REQUIRED = ("etcd", "kube-apiserver", "kubectl")
# All parts in the order of their start, with their programs.
PROGRAMS = {
    "etcd": "etcd",
    "apiserver": "kube-apiserver",
    "controllers": "kube-controller-manager",
    "scheduler": "kube-scheduler",
    "nodes": "kwok",
}
BARE = ("etcd", "apiserver")
NODES = 3
# Otherwise a third of an API server's CPU time in a test is garbage collection. Large CRDs need 500 MB: near
# the limit, garbage collection takes more than half of the time.
NO_GARBAGE = {"GOGC": "off", "GOMEMLIMIT": "900MiB"}


def why_not(variable: str = VARIABLE) -> str | None:
    """Return the reason why the control plane in this variable's folder cannot run; None if it can run."""
    folder = os.environ.get(variable)
    if not folder:
        return f"{variable} is not set; it names a folder with {', '.join(REQUIRED)}"
    missing = [program for program in REQUIRED if not (Path(folder) / program).exists()]
    return f"{variable}={folder} has no {', '.join(missing)}" if missing else None


class EnvtestControlPlane(ControlPlane):
    """etcd, kube-apiserver, and the other requested components that are installed.

    Data is written without fsync. Every port is on loopback. RBAC and TLS verification are on. Anonymous
    clients can read only version and health. The administrator has a token, other users have certificates.
    """

    def __init__(
        self,
        folder: Path,
        *,
        parts: Sequence[str] = tuple(PROGRAMS),
        apiserver_flags: Sequence[str] = (),
        programs: str = VARIABLE,
        before: Sequence[str] = (),
        measured: bool = False,
    ) -> None:
        """Configure the components.

        `programs` is the environment variable with the folder of the programs, `before` a prefix of each
        command. With `measured`, the API server's garbage collection is not tuned, its memory not limited.
        """
        super().__init__(folder)
        self._programs = Path(os.environ[programs])
        self._parts = [part for part in parts if (self._programs / PROGRAMS[part]).exists()]
        self._extra_flags = {"apiserver": apiserver_flags}
        self._before = before
        self._measured = measured
        self._authority = Authority("test control plane")
        self._token = secrets.token_urlsafe(16)

    def start(self) -> None:
        """Start every component, which takes about 3 s."""
        self._ports = PortBlock(6)
        self._url = f"https://127.0.0.1:{self._ports[0]}"
        self._write_files()
        self._credentials().write(self.kubeconfig)
        for part in self._parts:
            tuned = part == "apiserver" and not self._measured
            environ = {**os.environ, **(NO_GARBAGE if tuned else {})}
            daemon = Daemon(part, self._command(part), log=self.folder / f"{part}.log", environ=environ)
            self._daemons[part] = daemon
            daemon.start()
            if part == "apiserver":
                self.wait_ready()
        if "nodes" in self._parts:
            for index in range(NODES):
                self.api.create("/api/v1/nodes", node(f"node-{index}"))
        # A namespace accepts pods only after the controllers have created its service account.
        if "controllers" in self._parts:
            wait_until(
                self._daemons["controllers"],
                self._has_default_account,
                timeout=START_TIMEOUT,
                what="the default service account",
            )

    def stop(self) -> None:
        """Stop every component, etcd last, and delete the data."""
        for daemon in reversed(self._daemons.values()):
            # Only etcd needs a clean stop, and its data is deleted.
            daemon.kill() if daemon.name in BARE else daemon.stop(grace=2.0)
        if self._ports is not None:
            self._ports.close()
        shutil.rmtree(self.folder / "etcd-data", ignore_errors=True)

    def supports(self, feature: Feature) -> bool:
        """Return whether the running components have the feature."""
        needed = {
            Feature.WORKLOADS: {"controllers"},
            Feature.READY_PODS: {"controllers", "scheduler", "nodes"},
            Feature.POD_LOGS: {"a kubelet"},
        }
        return needed.get(feature, set()) <= set(self._parts)

    def user_kubeconfig(self, user: str, *groups: str) -> Path:
        """Return a kubeconfig with a new client certificate; the server accepts it without a restart."""
        certificate, key = self._authority.user(user, groups)
        credentials = Credentials(
            server=self._url, authority=self._authority.pem, certificate=certificate, key=key
        )
        return credentials.write(self.folder / "users" / user.replace(":", "-") / "kubeconfig")

    def kubectl_program(self) -> Path:
        """Return kubectl from the folder of the control plane's programs."""
        return self._programs / "kubectl"

    @property
    def etcd(self) -> str:
        """Return the host and port of etcd, which has no TLS."""
        assert self._ports is not None
        return f"127.0.0.1:{self._ports[1]}"

    def _credentials(self) -> Credentials:
        return Credentials(server=self._url, authority=self._authority.pem, token=self._token)

    def _write_files(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        certificate, key = self._authority.server("127.0.0.1", "localhost")
        files = {
            "ca.pem": self._authority.pem,
            "server.pem": certificate,
            "server-key.pem": key,
            "service-accounts.pem": signing_key(),
            "tokens.csv": f"{self._token},administrator,administrator,system:masters\n".encode(),
        }
        for name, content in files.items():
            (self.folder / name).write_bytes(content)

    def _command(self, part: str) -> list[str | Path]:
        program = self._programs / PROGRAMS[part]
        flags = getattr(self, f"_{part}_flags")()
        return [*self._before, program, *flags, *self._extra_flags.get(part, ())]

    def _etcd_flags(self) -> list[str]:
        assert self._ports is not None
        clients, peers = (f"http://127.0.0.1:{self._ports[index]}" for index in (1, 2))
        return [
            f"--data-dir={self.folder / 'etcd-data'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            f"--quota-backend-bytes={4 << 30}",
            "--log-level=warn",
        ]

    def _apiserver_flags(self) -> list[str]:
        assert self._ports is not None
        keys = self.folder / "service-accounts.pem"
        return [
            f"--etcd-servers=http://{self.etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._ports[0]}",
            f"--tls-cert-file={self.folder / 'server.pem'}",
            f"--tls-private-key-file={self.folder / 'server-key.pem'}",
            f"--client-ca-file={self.folder / 'ca.pem'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys}",
            f"--service-account-signing-key-file={keys}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            # Call a webhook's Service at its endpoints, because there is no kube-proxy for its address.
            "--enable-aggregator-routing=true",
        ]

    def _controllers_flags(self) -> list[str]:
        assert self._ports is not None
        return [
            *self._client_flags(self._ports[3], certificates="controllers-certificates"),
            f"--service-account-private-key-file={self.folder / 'service-accounts.pem'}",
            f"--root-ca-file={self.folder / 'ca.pem'}",
            # By default the controller handles an autoscaler 15 s after its creation.
            "--horizontal-pod-autoscaler-sync-period=1s",
            # Until the quota monitors have started, a deletion is counted only every 5 minutes.
            "--resource-quota-sync-period=2s",
        ]

    def _scheduler_flags(self) -> list[str]:
        assert self._ports is not None
        return self._client_flags(self._ports[4], certificates="scheduler-certificates")

    def _client_flags(self, port: int, *, certificates: str) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / certificates}",
            # No client calls these servers. Without the flag they exit when the API server is too busy to
            # return its authentication settings at once or within ten seconds.
            "--authentication-skip-lookup",
            # The default rate limits would delay the tests.
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        ]

    def _nodes_flags(self) -> list[str]:
        assert self._ports is not None
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--config={STAGES}",
            "--manage-all-nodes",
            "--node-ip=127.0.0.1",
            "--cidr=10.128.0.0/16",
            f"--server-address=127.0.0.1:{self._ports[5]}",
        ]

    def _has_default_account(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException, ApiFailure):
            return self.api.find("/api/v1/namespaces/default/serviceaccounts/default") is not None
        return False


STAGES = Path(__file__).with_name("kwok_stages.yaml")
# Enough for all pods of the tests, so that no pod waits for a node.
ROOM = {"cpu": "1000", "memory": "4Ti", "pods": "50000"}


def node(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "status": {"allocatable": ROOM, "capacity": ROOM},
    }
