"""What a control plane has in its database: objects as they are stored, which no request shows."""

from __future__ import annotations

import base64
import json
import sqlite3
import urllib.request
from contextlib import closing
from typing import TYPE_CHECKING, Any

from tests.support.devcluster_plane import DevclusterControlPlane
from tests.support.envtest import EnvtestControlPlane

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane

__all__ = ["stored_objects", "stored_versions"]


def stored_objects(plane: ControlPlane, group: str, plural: str) -> dict[str, dict[str, Any]]:
    """The stored objects of a custom kind, by "namespace/name", or by the name of one without a namespace.

    devcluster lets nobody else read its file, so it is killed for that, and started again.
    """
    if isinstance(plane, EnvtestControlPlane):
        return _in_etcd(plane.etcd, f"/registry/{group}/{plural}/")
    assert isinstance(plane, DevclusterControlPlane)
    plane.kill("apiserver")
    try:
        return _in_journal(plane, group, plural)
    finally:
        plane.restart("apiserver")


def stored_versions(plane: ControlPlane, group: str, plural: str) -> dict[str, int]:
    """How many of the stored objects are stored in each version."""
    counts: dict[str, int] = {}
    for obj in stored_objects(plane, group, plural).values():
        version = obj["apiVersion"].rpartition("/")[2]
        counts[version] = counts.get(version, 0) + 1
    return counts


def _in_etcd(address: str, prefix: str) -> dict[str, dict[str, Any]]:
    """By the gateway of etcd, which takes JSON over HTTP."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    body = json.dumps({"key": _encoded(prefix), "range_end": _encoded(end)}).encode()
    request = urllib.request.Request(f"http://{address}/v3/kv/range", data=body)
    with urllib.request.urlopen(request, timeout=30.0) as answer:
        found = json.load(answer).get("kvs", [])
    return {
        base64.b64decode(each["key"]).decode().removeprefix(prefix): json.loads(
            base64.b64decode(each["value"])
        )
        for each in found
    }


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _in_journal(plane: DevclusterControlPlane, group: str, plural: str) -> dict[str, dict[str, Any]]:
    query = "SELECT namespace, name, data FROM objects WHERE grp = ? AND plural = ?"
    with closing(sqlite3.connect(plane.folder / "data")) as database:
        rows = database.execute(query, (group, plural)).fetchall()
    return {"/".join(filter(None, row[:2])): json.loads(row[2]) for row in rows}
