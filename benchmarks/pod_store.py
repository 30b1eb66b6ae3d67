"""A writer of Pods and Deployments directly to etcd, thousands per second, with typical managedFields."""

from __future__ import annotations

import base64
import functools
import http.client
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES = Path(__file__).with_name("samples")
PER_TRANSACTION = 100
NAMESPACES = 20
OWNERS = 200


def store_pods(etcd: str, count: int) -> None:
    """Put `count` pods into the etcd at HOST:PORT, as JSON, which the API server also reads."""
    _store(
        etcd, count, lambda index: (f"/registry/pods/{_namespace(index)}/{_name(index)}", encode_pod(index))
    )


def store_deployments(etcd: str, count: int) -> None:
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
    return [
        f"/api/v1/namespaces/{_namespace(index)}/pods/{_name(index)}" for index in _last_transaction(count)
    ]


def last_deployments(count: int) -> list[str]:
    return [
        f"/apis/apps/v1/namespaces/{_namespace(index)}/deployments/{_deployment_name(index)}"
        for index in _last_transaction(count)
    ]


def _last_transaction(count: int) -> range:
    return range(max(0, count - 1) // PER_TRANSACTION * PER_TRANSACTION, count)


def encode_pod(index: int) -> bytes:
    return _filled(
        "others-pod",
        index,
        name=_name(index),
        owner_uid=_uid(_owner(index)),
        node=f"node-{index % 100}",
        host_ip=f"10.0.0.{index % 250}",
        pod_ip=f"10.{index >> 16 & 255}.{index >> 8 & 255}.{index & 255}",
        server_digest=uuid.UUID(_uid(f"server-{index}")).hex * 2,
        exporter_digest=uuid.UUID(_uid(f"exporter-{index}")).hex * 2,
    )


def encode_deployment(index: int) -> bytes:
    return _filled("others-deployment", index, name=_deployment_name(index))


def _filled(sample: str, index: int, *, name: str, **values: str) -> bytes:
    text = _sample(sample)
    common = {"name": name, "uid": _uid(name), "namespace": _namespace(index), "owner": _owner(index)}
    for key, value in (common | values).items():
        text = text.replace(f"@{key.replace('_', '-')}@".encode(), value.encode())
    return text


@functools.cache
def _sample(name: str) -> bytes:
    return orjson.dumps(orjson.loads((SAMPLES / f"{name}.json").read_bytes()))


def _uid(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def _entry(key: str, value: bytes) -> dict[str, str]:
    return {"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value).decode()}


def _namespace(index: int) -> str:
    return f"team-{index % NAMESPACES}"


def _name(index: int) -> str:
    return f"{_owner(index)}-7cf59d949b-{index:05d}"


def _owner(index: int) -> str:
    return f"shop-{index // NAMESPACES % OWNERS}"


def _deployment_name(index: int) -> str:
    return f"shop-{index:05d}"
