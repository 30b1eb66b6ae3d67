"""A real API server for tests: etcd and kube-apiserver, from the folder that KUBEBUILDER_ASSETS names.

Authorization is RBAC. No other parts of a cluster run: no garbage collector, no controllers of Deployments,
Jobs or namespaces, no scheduler, no nodes. Only clients change an object after its creation.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

from manager.tls.certificate import Authority, new_authority

VARIABLE = "KUBEBUILDER_ASSETS"
_PROGRAMS = ("etcd", "kube-apiserver")
_STARTS_WITHIN = 90.0
_ATTEMPTS = 3
"""The number of attempts to start: another program may take a free port in the meantime."""
_SHOWN_LINES = 15
_VALID_FOR = timedelta(days=7)


TOKEN_REQUEST = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenRequest",
    "spec": {"expirationSeconds": 86_400},
}


class CannotStart(Exception):
    """An error: a control plane cannot start; the text is the reason in one line."""


def kubeconfig_of(server: str, authority: str, token: str) -> dict[str, Any]:
    """Return a kubeconfig with a user's token; `authority` is the CA certificate, PEM in base64."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [
            {"name": "test", "cluster": {"server": server, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }


class Envtest:
    """A control plane of the programs in a folder; `start` and `stop` block."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        """Find the programs; raise CannotStart if KUBEBUILDER_ASSETS names no folder with them."""
        folder = environ.get(VARIABLE)
        if not folder:
            raise CannotStart(f"{VARIABLE} is not set: it names the folder with {' and '.join(_PROGRAMS)}")
        missing = [name for name in _PROGRAMS if not (Path(folder) / name).exists()]
        if missing:
            raise CannotStart(f"{VARIABLE}={folder} has no {' and no '.join(missing)}")
        self._programs = Path(folder)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._files: tempfile.TemporaryDirectory[str] | None = None
        self.folder: Path
        self.authority: Authority
        self.server = ""
        self.token = secrets.token_urlsafe(24)

    @property
    def kubeconfig_path(self) -> Path:
        """Return the path of the administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    def start(self) -> None:
        """Start the programs, and return when the API server is ready; do nothing if they are running."""
        for attempt in range(_ATTEMPTS):
            if self._running:
                return
            try:
                self._start()
            except CannotStart:
                self.stop()
                if attempt == _ATTEMPTS - 1:
                    raise
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """Kill the programs, and delete their files."""
        for process in reversed(self._running.values()):
            process.kill()
            process.wait()
        self._running = {}
        if self._files is not None:
            self._files.cleanup()

    def _start(self) -> None:
        self._files = tempfile.TemporaryDirectory(prefix="envtest-", ignore_cleanup_errors=True)
        self.folder = Path(self._files.name)
        now = datetime.now(UTC)
        self.authority = new_authority("envtest", now, _VALID_FOR)
        pair = self.authority.issue(("127.0.0.1", "localhost"), now, _VALID_FOR)
        client, peer, secure = _free_ports(3)
        self.server = f"https://127.0.0.1:{secure}"
        files = {
            "ca.pem": self.authority.certificate,
            "server.pem": pair.certificates,
            "server-key.pem": pair.key,
            "accounts.pem": self.authority.key,
            "tokens.csv": f"{self.token},administrator,administrator,system:masters\n".encode(),
            "kubeconfig": json.dumps(self.kubeconfig(self.token)).encode(),
        }
        for name, content in files.items():
            (self.folder / name).write_bytes(content)
        etcd = f"http://127.0.0.1:{client}"
        peers = f"http://127.0.0.1:{peer}"
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        self._run(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={secure}",
            f"--tls-cert-file={self.folder / 'server.pem'}",
            f"--tls-private-key-file={self.folder / 'server-key.pem'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'ca.pem'}",
            f"--service-account-signing-key-file={self.folder / 'accounts.pem'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            # No controller creates the namespaces' ServiceAccounts here.
            "--disable-admission-plugins=ServiceAccount",
        )
        administrator = Administrator(json.loads(self.kubeconfig_path.read_text()))
        deadline = time.monotonic() + _STARTS_WITHIN
        while not administrator.is_ready():
            for program, process in self._running.items():
                if process.poll() is not None:
                    raise CannotStart(f"{program} ended: {self._tail(program)}")
            if time.monotonic() > deadline:
                raise CannotStart(f"kube-apiserver is not ready after {_STARTS_WITHIN:g} s")
            time.sleep(0.1)

    def kubeconfig(self, token: str) -> dict[str, Any]:
        """Return a kubeconfig with the token of a user."""
        return kubeconfig_of(self.server, base64.b64encode(self.authority.certificate).decode(), token)

    def kubeconfig_for(self, token: str) -> Path:
        """Write a kubeconfig with the token of a user; return its path."""
        path = self.folder / f"kubeconfig-{secrets.token_hex(4)}"
        path.write_text(json.dumps(self.kubeconfig(token)), encoding="utf-8")
        return path

    def _run(self, program: str, *flags: str) -> None:
        with (self.folder / f"{program}.log").open("wb") as log:
            command = [str(self._programs / program), *flags]
            try:
                self._running[program] = subprocess.Popen(  # noqa: S603 - the user names the programs' folder
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
                )
            except OSError as error:
                raise CannotStart(f"{program} cannot be started: {error.strerror}") from None

    def _tail(self, program: str) -> str:
        lines = (self.folder / f"{program}.log").read_text(errors="replace").splitlines()
        return " | ".join(lines[-_SHOWN_LINES:])


class Administrator:
    """A client of the API server with the token of a kubeconfig, for fixtures; its requests block."""

    def __init__(self, kubeconfig: Mapping[str, Any]) -> None:
        cluster = kubeconfig["clusters"][0]["cluster"]
        self.server: str = cluster["server"]
        self.authority: str = cluster["certificate-authority-data"]
        self._token: str = kubeconfig["users"][0]["user"]["token"]
        self._context = ssl.create_default_context(cadata=base64.b64decode(self.authority).decode())

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the API server's response, decoded if it is JSON; raise HTTPError."""
        request = urllib.request.Request(  # noqa: S310 - it is https
            f"{self.server}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10.0, context=self._context) as answer:  # noqa: S310
            content = answer.read()
            return json.loads(content) if content[:1] == b"{" else content

    def is_ready(self) -> bool:
        """Return whether the API server accepts requests."""
        try:
            self.request("GET", "/readyz")  # after it has created the default roles
            self.request("GET", "/api/v1/namespaces/default")
        except urllib.error.HTTPError as refusal:
            refusal.close()
            return False
        except OSError:
            return False
        return True


def path_of(manifest: Mapping[str, Any]) -> str:
    """Return the path for creating this object; the kind's plural must be its name and an `s`."""
    api, namespace = manifest["apiVersion"], manifest["metadata"].get("namespace", "")
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/{'apis' if '/' in api else 'api'}/{api}{within}/{manifest['kind'].lower()}s"


def install_account(
    administrator: Administrator, manifests: list[dict[str, Any]], namespace: str, name: str
) -> str:
    """Create a ServiceAccount with the roles in `manifests`; return a token of the account."""
    for manifest in ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, *manifests):
        try:
            administrator.request("POST", path_of(manifest), manifest)
        except urllib.error.HTTPError as refusal:
            refusal.close()
            if refusal.code != HTTPStatus.CONFLICT:
                raise
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    token: str = administrator.request("POST", path, TOKEN_REQUEST)["status"]["token"]
    return token


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
