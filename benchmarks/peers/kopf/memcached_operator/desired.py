"""The desired Deployment of a Memcached, and the status that reports its progress."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import kopf

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

IMAGE = "memcached:1.6.39-alpine"
# The label with the Memcached's name, on Deployments and pods.
CR_LABEL = "memcached_cr"

# The memcached server's probe.
ANSWERS = {"tcpSocket": {"port": "memcached"}, "timeoutSeconds": 3}

Object = dict[str, Any]


def labels_of(memcached: kopf.Body) -> dict[str, str]:
    return {"app": "memcached", CR_LABEL: memcached.metadata.name or ""}


def deployment(memcached: kopf.Body) -> Object:
    """Build the desired Deployment, with the fields that the operator owns."""
    labels = labels_of(memcached)
    shown = {
        **labels,
        "app.kubernetes.io/name": "memcached",
        "app.kubernetes.io/instance": memcached.metadata.name,
        "app.kubernetes.io/managed-by": "operator-manager",
    }
    container = {
        "name": "memcached",
        "image": memcached.spec.get("image") or IMAGE,
        "command": ["memcached", "-m", "64", "-o", "modern", "-v"],
        "ports": [{"name": "memcached", "containerPort": 11211, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "128Mi"}},
        "readinessProbe": {**ANSWERS, "periodSeconds": 5},
        "livenessProbe": {**ANSWERS, "periodSeconds": 10},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 11211,
        },
    }
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    wanted = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": memcached.metadata.name, "labels": shown},
        "spec": {
            "replicas": memcached.spec["size"],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": shown}, "spec": pod},
        },
    }
    kopf.append_owner_reference(wanted, owner=memcached)
    return wanted


def agrees(found: Mapping[str, Any], wanted: Object) -> bool:
    """Return whether the Deployment `found` has the size and the image of `wanted`."""
    return _essence(found) == _essence(wanted)


def _essence(obj: Mapping[str, Any]) -> tuple[Any, Any]:
    spec = obj["spec"]
    return spec.get("replicas"), spec["template"]["spec"]["containers"][0].get("image")


def status(memcached: kopf.Body, found: Mapping[str, Any], nodes: Collection[str]) -> Object:
    """Build the status from the Deployment and the names of the pods."""
    observed = found.get("status") or {}
    before = {each["type"]: each for each in memcached.status.get("conditions") or ()}
    conditions = [
        _condition(memcached, before.get(kind), kind, holds, reason, message)
        for kind, holds, reason, message in _observations(memcached, found)
    ]
    return {
        "nodes": sorted(nodes),
        "nodeCount": len(nodes),
        "replicas": observed.get("replicas", 0),
        "readyReplicas": observed.get("readyReplicas", 0),
        "selector": ",".join(f"{name}={value}" for name, value in labels_of(memcached).items()),
        "observedGeneration": memcached.metadata["generation"],
        "conditions": conditions,
    }


def _observations(memcached: kopf.Body, found: Mapping[str, Any]) -> Iterator[tuple[str, bool, str, str]]:
    observed, size = found.get("status") or {}, memcached.spec["size"]
    theirs = {each["type"]: each for each in observed.get("conditions") or ()}
    progress = f"{observed.get('readyReplicas', 0)} of {size} replicas are ready"

    available = theirs.get("Available", {}).get("status") == "True"
    yield "Available", available, "EnoughReady" if available else "NotEnoughReady", progress

    seen = observed.get("observedGeneration", 0) >= found["metadata"].get("generation", 0)
    counts = {observed.get(count, 0) for count in ("replicas", "updatedReplicas", "readyReplicas")}
    rolled_out = seen and counts == {size}
    yield "Progressing", not rolled_out, "RolledOut" if rolled_out else "RollingOut", progress

    for kind, bad in (("ReplicaFailure", "True"), ("Progressing", "False")):
        if theirs.get(kind, {}).get("status") == bad:
            yield "Degraded", True, theirs[kind].get("reason") or kind, theirs[kind].get("message", "")
            return
    yield "Degraded", False, "AsExpected", ""


def _condition(
    memcached: kopf.Body, before: Object | None, kind: str, holds: bool, reason: str, message: str
) -> Object:
    """Build a condition, whose time changes only if its status changes."""
    value = "True" if holds else "False"
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "observedGeneration": memcached.metadata["generation"],
        "lastTransitionTime": before["lastTransitionTime"] if before and before["status"] == value else now,
    }
