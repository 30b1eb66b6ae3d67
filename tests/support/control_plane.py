"""Interface of the control planes that integration tests use."""

from __future__ import annotations

import abc
import contextlib
import enum
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest

from tests.support.api_access import ApiAccess
from tests.support.certificates import trusting
from tests.support.daemon import Daemon, wait_until
from tests.support.kubeconfig import Credentials
from tests.support.metrics import Samples, get
from tests.support.ports import PortBlock

KUBECTL = {"KUBECTL_KUBERC": "false"}
"""Environment variables of kubectl, which disable a user's settings."""
KUBECTL_TIMEOUT = START_TIMEOUT = 120.0


class Feature(enum.Enum):
    """Feature that some control planes lack; its value completes the text "this control plane has no ..."."""

    WORKLOADS = "controllers for workloads, garbage collection and namespaces"
    READY_PODS = "nodes that take pods to Ready"
    POD_LOGS = "logs of its pods"
    PROCESSES = "parts that can be killed and started again"
    POD_SECURITY = "enforcement of pod security levels"
    ADMISSION_POLICIES = "enforcement of admission policies"
    PRIORITIES = "priority levels for requests"
    SERVER_FLAGS = "flags of its API server that a test may choose"
    AUDIT_LOG = "audit log"
    PROTOBUF = "answers in protobuf"


class Lacking(pytest.skip.Exception):
    """Exception that skips a test, because the control plane lacks a feature that the test needs."""


_MAKING = threading.Lock()


class ControlPlane(abc.ABC):
    """A Kubernetes API server and its other components, for the length of a `with` block.

    Every method blocks. Async tests may call the methods too, because the calls are short.
    """

    def __init__(self, folder: Path) -> None:
        """Create a control plane whose files are in `folder`."""
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        """Kubeconfig of the administrator."""
        self._daemons: dict[str, Daemon] = {}
        self._ports: PortBlock | None = None
        self._api: ApiAccess | None = None

    @abc.abstractmethod
    def start(self) -> None:
        """Start the control plane; return when the API server accepts objects."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Stop the control plane, whether or not it runs."""

    @abc.abstractmethod
    def supports(self, feature: Feature) -> bool:
        """Return whether the control plane has the feature."""

    @abc.abstractmethod
    def user_kubeconfig(self, user: str, *groups: str) -> Path:
        """Return a kubeconfig for `user` in `groups`; the user has no rights before RBAC grants them."""

    @abc.abstractmethod
    def kubectl_program(self) -> Path:
        """Return the path of a kubectl whose version suits the control plane."""

    def part(self, name: str) -> Daemon:
        """Return the process of `etcd`, `apiserver`, `controllers`, `scheduler` or `nodes`."""
        return self._daemons[name]

    def check(self) -> None:
        """Raise DaemonDied if a component does not run."""
        for daemon in self._daemons.values():
            daemon.check()

    def kill(self, part: str) -> None:
        """Kill a component of the control plane, as a crash would."""
        self.part(part).kill()

    def restart(self, part: str) -> None:
        """Kill a component if it runs, start it again on the same port, and wait for the API server."""
        self.kill(part)
        self.part(part).start()
        # The API server can become ready only if it and its database run.
        if self.part("apiserver").running and self.part("etcd").running:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until the API server answers; raise DaemonDied if it ends first."""
        wait_until(self.part("apiserver"), self._is_ready, timeout=START_TIMEOUT, what="readiness")

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError):  # devcluster writes the kubeconfig later
            server = self.credentials
            context = trusting(server.authority)
            url = f"{server.server}/readyz"
            return get(url, token=server.token, context=context, timeout=2.0)[0] == 200
        return False

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.api.close()
        self.stop()

    def require(self, *features: Feature) -> Self:
        """Skip the test unless the control plane has every feature."""
        for feature in features:
            if not self.supports(feature):
                raise Lacking(f"this control plane has no {feature.value}")
        return self

    @property
    def credentials(self) -> Credentials:
        return Credentials.read(self.kubeconfig)

    def token_of(self, namespace: str, account: str) -> str:
        """Return a new token of a service account; it expires after an hour."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.api.create(path, request)["status"]["token"])

    def credentials_of(self, namespace: str, account: str) -> Credentials:
        """Return credentials with a new token of a service account."""
        admin, token = self.credentials, self.token_of(namespace, account)
        return Credentials(server=admin.server, authority=admin.authority, token=token)

    @property
    def server(self) -> str:
        return self.credentials.server

    @property
    def api(self) -> ApiAccess:
        """Return an API client with the administrator's credentials; it is faster than kubectl."""
        # A cached_property has no lock, so several threads would create clients that are never closed.
        with _MAKING:
            if self._api is None:
                self._api = ApiAccess(self.credentials, scratch=self.folder / "scratch")
            return self._api

    def server_metrics(self, *names: str) -> Samples:
        """Return metrics of the API server: all, or those whose names begin with one of `names`."""
        lines = self.api.request("GET", "/metrics").splitlines(keepends=True)
        return Samples("".join(line for line in lines if not names or line.startswith(names)))

    def kubectl(
        self,
        *arguments: str | Path,
        stdin: str | None = None,
        check: bool = True,
        kubeconfig: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator, or with another `kubeconfig`.

        Raises:
            AssertionError: kubectl failed, and `check` is true; the message contains the output.
        """
        command: Sequence[str | Path] = [
            self.kubectl_program(),
            f"--kubeconfig={kubeconfig or self.kubeconfig}",
            f"--cache-dir={self.folder / 'kubectl-cache'}",
            # By default kubectl waits 32 s for discovery and schemas, which a busy machine can exceed.
            f"--request-timeout={KUBECTL_TIMEOUT:g}s",
            *arguments,
        ]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=KUBECTL_TIMEOUT,
            check=False,
            env={**os.environ, **KUBECTL},
        )
        if check and done.returncode != 0:
            shown = " ".join(str(argument) for argument in arguments)
            raise AssertionError(
                f"kubectl {shown} ended with {done.returncode}: {done.stderr or done.stdout}"
            )
        return done
