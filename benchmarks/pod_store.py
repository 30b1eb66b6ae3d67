"""Pods and Deployments written directly into etcd, thousands per second, with typical managedFields."""

from __future__ import annotations

import base64
import functools
import http.client
import json
import uuid
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable

PER_TRANSACTION = 100
NAMESPACES = 20
OWNERS = 200
CREATED = "2026-01-01T00:00:00Z"


def store_pods(etcd: str, count: int) -> None:
    """Put `count` pods into the etcd at HOST:PORT; the API server sees them as if it had stored them."""
    _store(
        etcd, count, lambda index: (f"/registry/pods/{_namespace(index)}/{_name(index)}", encode_pod(index))
    )


def store_deployments(etcd: str, count: int) -> None:
    """Store Deployments without an owner, whose pods are like those of `store_pods`."""
    _store(
        etcd,
        count,
        lambda index: (
            f"/registry/deployments/{_namespace(index)}/{_deployment_name(index)}",
            encode_deployment(index),
        ),
    )


def _store(etcd: str, count: int, made: Callable[[int], tuple[str, bytes]]) -> None:
    connection = http.client.HTTPConnection(etcd)
    for start in range(0, count, PER_TRANSACTION):
        indexes = range(start, min(start + PER_TRANSACTION, count))
        puts = [{"requestPut": _entry(*made(index))} for index in indexes]
        connection.request("POST", "/v3/kv/txn", orjson.dumps({"success": puts}))
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != http.HTTPStatus.OK:
            raise OSError(f"etcd refused them: {text}")
    connection.close()


def last_stored(count: int) -> list[str]:
    """Return the API paths of the pods in the last transaction of `store_pods`."""
    return [
        f"/api/v1/namespaces/{_namespace(index)}/pods/{_name(index)}" for index in _last_transaction(count)
    ]


def last_deployments(count: int) -> list[str]:
    """Return the API paths of the Deployments in the last transaction of `store_deployments`."""
    return [
        f"/apis/apps/v1/namespaces/{_namespace(index)}/deployments/{_deployment_name(index)}"
        for index in _last_transaction(count)
    ]


def _last_transaction(count: int) -> range:
    return range(max(0, count - 1) // PER_TRANSACTION * PER_TRANSACTION, count)


def encode_pod(index: int) -> bytes:
    """Encode the pod as stored, about 10 KB."""
    pod = _pod(index)
    pod["metadata"]["managedFields"] = _managed_fields()
    return orjson.dumps(pod)


def encode_deployment(index: int) -> bytes:
    """Encode the Deployment as stored, about 8 KB."""
    deployment = _deployment(index)
    deployment["metadata"]["managedFields"] = _managed_fields_of_deployments()
    return orjson.dumps(deployment)


def _entry(key: str, value: bytes) -> dict[str, str]:
    return {"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value).decode()}


def _namespace(index: int) -> str:
    return f"team-{index % NAMESPACES}"


def _name(index: int) -> str:
    return f"{_owner(index)}-7cf59d949b-{index:05d}"


def _owner(index: int) -> str:
    return f"shop-{index // NAMESPACES % OWNERS}"


def _pod(index: int) -> dict[str, Any]:
    owner = _owner(index)
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{owner}-7cf59d949b",
        "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, owner)),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "name": _name(index),
        "generateName": f"{owner}-7cf59d949b-",
        "namespace": _namespace(index),
        "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, _name(index))),
        "creationTimestamp": CREATED,
        "labels": {
            "app": "memcached",
            "memcached_cr": owner,
            "pod-template-hash": "7cf59d949b",
            "tier": "backend",
        },
        "annotations": {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": "9150",
            "checksum/config": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "kubectl.kubernetes.io/restartedAt": CREATED,
        },
        "ownerReferences": [replica_set],
    }
    spec = {
        "containers": [_container(name) for name in ("server", "exporter")],
        "volumes": [
            {"name": "config", "configMap": {"name": owner, "defaultMode": 420}},
            {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}},
        ],
        "nodeName": f"node-{index % 100}",
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": owner,
        "serviceAccount": owner,
        "schedulerName": "default-scheduler",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{key}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for key in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    status = {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": CREATED}
            for kind in (
                "PodScheduled",
                "Initialized",
                "ContainersReady",
                "Ready",
                "PodReadyToStartContainers",
            )
        ],
        "hostIP": f"10.0.0.{index % 250}",
        "podIP": f"10.{index >> 16 & 255}.{index >> 8 & 255}.{index & 255}",
        "startTime": CREATED,
        "containerStatuses": [_container_status(name, index) for name in ("server", "exporter")],
        "qosClass": "Burstable",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def _deployment_name(index: int) -> str:
    return f"shop-{index:05d}"


def _deployment(index: int) -> dict[str, Any]:
    pod = _pod(index)
    # No program needs the fields of the scheduler and the kubelet.
    given = {
        name: pod["spec"][name]
        for name in ("containers", "volumes", "restartPolicy", "terminationGracePeriodSeconds", "dnsPolicy")
    }
    name = _deployment_name(index)
    labels = {"app": name, "tier": "backend", "app.kubernetes.io/managed-by": "Helm"}
    metadata = {
        "name": name,
        "namespace": _namespace(index),
        "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
        "generation": 3,
        "creationTimestamp": CREATED,
        "labels": labels,
        "annotations": {
            "deployment.kubernetes.io/revision": "3",
            "meta.helm.sh/release-name": name,
            "meta.helm.sh/release-namespace": _namespace(index),
        },
    }
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": f"{name} is as it should be",
            "lastTransitionTime": CREATED,
            "lastUpdateTime": CREATED,
        }
        for kind, reason in (
            ("Available", "MinimumReplicasAvailable"),
            ("Progressing", "NewReplicaSetAvailable"),
        )
    ]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": labels, "annotations": pod["metadata"]["annotations"]},
                "spec": given,
            },
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            },
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
        },
        "status": {
            "observedGeneration": 3,
            **dict.fromkeys(("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"), 2),
            "conditions": conditions,
        },
    }


@functools.cache
def _managed_fields_of_deployments() -> list[dict[str, Any]]:
    deployment = _deployment(0)
    owned = {
        "metadata": {name: deployment["metadata"][name] for name in ("labels", "annotations")},
        "spec": deployment["spec"],
    }
    status = {
        **_managed("kube-controller-manager", {"status": deployment["status"]}),
        "subresource": "status",
    }
    return [{**each, "apiVersion": "apps/v1"} for each in (_managed("helm", owned), status)]


@functools.cache
def _managed_fields() -> list[dict[str, Any]]:
    """Return the managedFields of every pod, since all pods have the same fields."""
    pod = _pod(0)
    owned = {"metadata": _owned_metadata(pod["metadata"]), "spec": pod["spec"]}
    return [
        _managed("kube-controller-manager", owned),
        {**_managed("kubelet", {"status": pod["status"]}), "subresource": "status"},
    ]


def _container(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"registry.example.com/team/{name}:1.6.39-alpine",
        "imagePullPolicy": "IfNotPresent",
        "command": [f"/usr/bin/{name}", "--config=/etc/config/main.yaml", "--log-level=info"],
        "ports": [{"name": "tcp", "containerPort": 11211, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{index}", "value": f"the value of setting {index}"} for index in range(6)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/config"},
            {"name": "data", "mountPath": "/data"},
        ],
        "livenessProbe": _probe(20),
        "readinessProbe": _probe(5),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def _probe(delay: int) -> dict[str, Any]:
    return {
        "tcpSocket": {"port": "tcp"},
        "initialDelaySeconds": delay,
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def _container_status(name: str, index: int) -> dict[str, Any]:
    digest = uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}-{index}").hex * 2
    return {
        "name": name,
        "image": f"registry.example.com/team/{name}:1.6.39-alpine",
        "imageID": f"registry.example.com/team/{name}@sha256:{digest}",
        "containerID": f"containerd://{digest}",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": CREATED}},
        "lastState": {},
    }


def _owned_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    return {field: metadata[field] for field in ("generateName", "labels", "annotations")}


def _managed(manager: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": CREATED,
        "fieldsType": "FieldsV1",
        "fieldsV1": _field_set(fields),
    }


def _field_set(value: Any) -> dict[str, Any]:
    """Return the set of the fields in `value`, in the API server's format."""
    if isinstance(value, dict):
        return {f"f:{key}": _field_set(child) for key, child in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {_item_key(item): {".": {}, **_field_set(item)} for item in value}
    return {}


def _item_key(item: dict[str, Any]) -> str:
    key = next(field for field in ("name", "type", "mountPath", "key") if field in item)
    return "k:" + json.dumps({key: item[key]}, separators=(",", ":"))
