"""Sites and their child objects as the operator reads them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from apis.example.v1.wordpress import Wordpress
from manager.api import ObjectMeta
from manager_kinds.apps_v1 import Deployment

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


def site(**spec: Any) -> Wordpress:
    """Return a site called blog."""
    metadata = {"name": "blog", "namespace": "default", "uid": "u-1", "generation": 1}
    spec.setdefault("sqlrootpassword", "in-the-open")
    return Wordpress.model_validate({"metadata": metadata, "spec": spec})


def deployment(name: str, *, ready: bool) -> Deployment:
    counts = {
        "observedGeneration": 1,
        "replicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": int(ready),
        "conditions": [{"type": "Available", "status": str(ready)}],
    }
    found = Deployment.model_validate({"status": counts})
    found.metadata = ObjectMeta(name=name, namespace="default", generation=1)
    return found
