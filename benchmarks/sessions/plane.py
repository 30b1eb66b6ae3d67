"""A control plane for one measurement, and a writer of many objects."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import shutil
import tempfile
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from benchmarks.program import SERVER_CPUS, pinned_by
from manager.client.child_label import label_of
from tests.support.api_objects import deployment_path
from tests.support.crds import printed_crds, wait_served
from tests.support.envtest import BARE, EnvtestControlPlane
from tests.support.memcacheds import memcached, memcached_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NAMESPACE = "default"
GROUP = "cache.example.com"
# All names have the same length, so that all objects have the same size.
NAME = "object-{:06d}"
WRITERS = 4
MEMCACHED_KEY = f"/registry/{GROUP}/memcacheds/{{}}/"
DEPLOYMENT_KEY = "/registry/deployments/{}/"


@contextlib.contextmanager
def fresh_plane(*flags: str, all_kinds: bool = False) -> Iterator[EnvtestControlPlane]:
    """Run etcd and kube-apiserver with only Memcached's CRD; delete their data afterwards.

    `flags` are for the API server. With `all_kinds`, all CustomResourceDefinitions of this project are
    installed.
    """
    folder = Path(tempfile.mkdtemp(prefix="benchmark-"))
    try:
        before = pinned_by(SERVER_CPUS)
        with EnvtestControlPlane(
            folder, parts=BARE, apiserver_flags=flags, before=before, measured=True
        ) as plane:
            definitions = yaml.safe_load_all(printed_crds())
            plane.api.apply(each for each in definitions if all_kinds or each["spec"]["group"] == GROUP)
            wait_served(plane)
            yield plane
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def name_of(index: int) -> str:
    return NAME.format(index)


def create(plane: EnvtestControlPlane, index: int) -> dict[str, Any]:
    created: dict[str, Any] = plane.api.create(memcached_path(NAMESPACE), memcached(name_of(index)))
    return created


def store_copies(
    plane: EnvtestControlPlane, first: int, end: int, *, of: int, namespaces: Sequence[str] = (NAMESPACE,)
) -> None:
    """Store the copies `first` to `end` - 1 of Memcached number `of`, and of its Deployment if it has one.

    The copies are distributed over the namespaces. They are written directly to etcd, ten times as fast as
    with requests, as JSON, which the API server also reads. The copy of a finished object is finished, too.
    """
    sources = [(MEMCACHED_KEY, plane.api.get(memcached_path(NAMESPACE, name_of(of))))]
    deployment = plane.api.find(deployment_path(NAMESPACE, name_of(of)))
    if deployment is not None:
        sources.append((DEPLOYMENT_KEY, deployment))
    uids = [source["metadata"]["uid"] for _, source in sources]
    for _, source in sources:
        del source["metadata"]["resourceVersion"]  # the API server sets it from etcd's revision of the key
    texts = [(key, json.dumps(source, separators=(",", ":"))) for key, source in sources]
    _transactions(plane.etcd, _copies(texts, uids, name_of(of), range(first, end), namespaces))


def delete_copies(plane: EnvtestControlPlane, first: int, end: int) -> None:
    keys = (
        [prefix.format(NAMESPACE) + name_of(index) for prefix in (MEMCACHED_KEY, DEPLOYMENT_KEY)]
        for index in range(first, end)
    )
    _transactions(
        plane.etcd, ([{"requestDeleteRange": {"key": _encode(key)}} for key in pair] for pair in keys)
    )


def _copies(
    texts: list[tuple[str, str]],
    uids: list[str],
    name: str,
    indexes: Iterable[int],
    namespaces: Sequence[str],
) -> Iterator[list[dict[str, Any]]]:
    for index in indexes:
        puts = []
        namespace = namespaces[index % len(namespaces)]
        for prefix, source in texts:
            text = source.replace(name, name_of(index))
            text = text.replace(f'"namespace":"{NAMESPACE}"', f'"namespace":"{namespace}"')
            # A Deployment has a label with the shard of its owner.
            label, other = (label_of(uid) for uid in (uids[0], _copy_of(uids[0], index)))
            text = text.replace(f'/shard":"{label}"', f'/shard":"{other}"')
            for uid in uids:
                text = text.replace(uid, _copy_of(uid, index))
            key = prefix.format(namespace) + name_of(index)
            puts.append({"requestPut": {"key": _encode(key), "value": _encode(text)}})
        yield puts


def _copy_of(uid: str, index: int) -> str:
    return str(uuid.uuid5(uuid.UUID(uid), str(index)))


def _transactions(etcd: str, operations: Iterable[list[dict[str, Any]]]) -> None:
    """Run each operation in its own transaction, because a watch loses objects that share a revision."""
    local = threading.local()
    connections: list[http.client.HTTPConnection] = []

    def commit(operation: list[dict[str, Any]]) -> None:
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection(etcd)
            connections.append(local.connection)
        local.connection.request("POST", "/v3/kv/txn", json.dumps({"success": operation}))
        answer = local.connection.getresponse()
        text = answer.read().decode()
        if answer.status != http.HTTPStatus.OK:
            raise OSError(f"etcd: {text}")

    try:
        with ThreadPoolExecutor(WRITERS, thread_name_prefix="etcd") as pool:
            for _ in pool.map(commit, operations):
                pass
    finally:
        for connection in connections:
            connection.close()


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
