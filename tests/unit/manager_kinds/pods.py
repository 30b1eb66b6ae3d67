"""Pods in API format for tests of pod health."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from manager.cache.record import Parts


def pod(
    *containers: Mapping[str, Any], name: str = "web-1", phase: str = "Running", **status: Any
) -> dict[str, Any]:
    """Return a pod with these container statuses and status fields; `metadata` extends its metadata."""
    metadata = {"name": name, "namespace": "default", "uid": f"{name}-uid", **status.pop("metadata", {})}
    ready = bool(containers) and all(each["ready"] for each in containers)
    status.setdefault("conditions", [{"type": "Ready", "status": "True" if ready else "False"}])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": "node-1", "containers": [{"name": "memcached"}]},
        "status": {"phase": phase, "hostIP": "10.0.0.1", **status, "containerStatuses": list(containers)},
    }


def container(
    state: Mapping[str, Any], *, name: str = "memcached", ready: bool = False, **more: Any
) -> dict[str, Any]:
    known = {"name": name, "image": "memcached:1.6", "imageID": "sha256:1", "ready": ready, "restartCount": 0}
    return {**known, "state": state, "lastState": {}, **more}


def terminated(
    code: int, reason: str, message: str = "", *, since: str = "2026-05-01T11:00:00Z", until: str = ""
) -> dict[str, Any]:
    """Return the state of a container that ran from `since` to `until`; an empty `until` means `since`."""
    ended = {"exitCode": code, "reason": reason, "startedAt": since, "finishedAt": until or since}
    return {
        "terminated": {**ended, "containerID": "containerd://1", **({"message": message} if message else {})}
    }


def cached(parts: Parts, found: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of the pod that a cache with this projection stores."""
    kept: dict[str, Any] = orjson.loads(parts.of(orjson.dumps(found)))
    return kept
