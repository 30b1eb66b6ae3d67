"""Clients that read /metrics over HTTPS, with a service account's token."""

from __future__ import annotations

import ssl
from pathlib import Path

import yaml

from tests.support.certificates import trusting
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.http_get import get
from tests.support.roles import is_allowed

READER = Path("config/rbac/metrics_reader_role.yaml")


class ServiceAccount:
    """An account of the cluster, with tokens as a pod would be given them."""

    def __init__(self, plane: ControlPlane, namespace: str, name: str) -> None:
        self._plane = plane
        self._namespace = namespace
        self._name = name
        plane.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})

    @property
    def user(self) -> str:
        """How the API server calls it."""
        return f"system:serviceaccount:{self._namespace}:{self._name}"

    def token(self) -> str:
        """Request a new token, which expires after an hour."""
        return self._plane.token_of(self._namespace, self._name)

    def may_read_metrics(self) -> None:
        """Give it the role in config/rbac/, under a name of its own."""
        role = yaml.safe_load(READER.read_text())
        role["metadata"]["name"] = name = f"{self._namespace}-{self._name}-{role['metadata']['name']}"
        subject = {"kind": "ServiceAccount", "namespace": self._namespace, "name": self._name}
        binding = {
            "apiVersion": role["apiVersion"],
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        }
        self._plane.api.apply([role, binding])
        page = {"path": "/metrics", "verb": "get"}
        # The binding takes effect once the authorizer has seen it; the manager caches a denial.
        eventually(lambda: is_allowed(self._plane, self.user, nonResourceAttributes=page), every=0.02)


def scrape(
    address: str, token: str | None = None, *, context: ssl.SSLContext | None = None
) -> tuple[int, str]:
    """Status and body of /metrics, over a connection of its own."""
    return get(f"https://{address}/metrics", token=token, context=context or trusting(None))
