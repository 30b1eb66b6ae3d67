"""Wordpress objects for the integration tests."""

from __future__ import annotations

import base64
from typing import Any

from tests.support.api_objects import condition, event_counts, manifest, object_path
from tests.support.walk import Walk

API = "example.com/v1"
PASSWORD = "Tr0ub4dor&3-inline"
CHILDREN = (
    ("v1", "persistentvolumeclaims", "{}-mysql-pv-claim"),
    ("v1", "persistentvolumeclaims", "{}-wp-pv-claim"),
    ("v1", "secrets", "{}-mysql"),
    ("apps/v1", "deployments", "{}-mysql"),
    ("v1", "services", "{}-mysql"),
    ("apps/v1", "deployments", "{}"),
    ("v1", "services", "{}"),
)
"""API, plural and name pattern of each child, in the order of their creation."""
COLLECTED = CHILDREN[3:]


def wordpress(name: str, **spec: Any) -> dict[str, Any]:
    """Return a Wordpress manifest; the password is in the spec unless `spec` names a Secret."""
    if "sqlRootPasswordSecretRef" not in spec:
        spec.setdefault("sqlrootpassword", PASSWORD)
    return manifest(API, "Wordpress", name, **spec)


def wordpress_path(namespace: str, name: str = "") -> str:
    return object_path(API, namespace, "wordpresses", name)


class WordpressWalk(Walk):
    """Namespace with Wordpress objects, kubectl, and a manager."""

    def create(self, name: str, **spec: Any) -> dict[str, Any]:
        """Create a Wordpress; return it as stored."""
        created: dict[str, Any] = self.plane.api.create(
            wordpress_path(self.namespace), wordpress(name, **spec)
        )
        return created

    def change(self, name: str, **spec: Any) -> None:
        self.plane.api.patch(wordpress_path(self.namespace, name), {"spec": spec})

    def site(self, name: str) -> dict[str, Any]:
        """Return the Wordpress as stored."""
        return self.get(API, "wordpresses", name)

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """Return the condition of type `kind` of a Wordpress."""
        return condition(self.site(name), kind)

    def is_available(self, name: str) -> bool:
        """Return whether a Wordpress has Available true and Progressing false."""
        available, progressing = self.condition(name, "Available"), self.condition(name, "Progressing")
        return available["status"] == "True" and progressing["status"] == "False"

    def events(self, name: str) -> dict[str, int]:
        """Return the counts of the Events about a Wordpress, by reason."""
        return event_counts(self.plane, self.site(name))

    def paths(self, name: str, children: Any = CHILDREN) -> list[str]:
        """Return the API paths of the child objects."""
        return [
            object_path(api, self.namespace, plural, pattern.format(name))
            for api, plural, pattern in children
        ]

    def missing(self, name: str) -> list[str]:
        """Return the API paths of the child objects that do not exist."""
        return [path for path in self.paths(name) if self.plane.api.find(path) is None]

    def passwords(self, name: str) -> dict[str, str]:
        """Return the decoded data of the Secret of a Wordpress."""
        data = self.get("v1", "secrets", f"{name}-mysql")["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def deployment(self, name: str) -> dict[str, Any]:
        return self.get("apps/v1", "deployments", name)

    def service(self, name: str) -> dict[str, Any]:
        return self.get("v1", "services", name)
