"""A kind with an old and a new version, without a conversion or with one, to be stored in either.

And what a control plane has in its database: objects as they are stored, which no request shows.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import urllib.request
from contextlib import closing
from typing import TYPE_CHECKING, Any

from tests.support.crds import DEFINITIONS, wait_served
from tests.support.devcluster_plane import DevclusterControlPlane
from tests.support.envtest import EnvtestControlPlane

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.support.control_plane import ControlPlane

GROUP, PLURAL = "test.example.com", "gadgets"
GADGETS = f"{PLURAL}.{GROUP}"
OLD, NEW = "v1alpha1", "v1beta1"


def definition(
    storage: str,
    *,
    rules: Iterable[Mapping[str, Any]] = (),
    conversion: Mapping[str, Any] | None = None,
    status: bool = True,
) -> dict[str, Any]:
    """The definition with that storage version; the name of the one field is `size` in each version.

    `rules` are validations of the spec. With a `conversion`, the field is `dimension` in the new version.
    """
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": GADGETS},
        "spec": {
            "group": GROUP,
            "names": {"kind": "Gadget", "listKind": "GadgetList", "plural": PLURAL, "singular": "gadget"},
            "scope": "Namespaced",
            "versions": [
                _version(name, storage, field, rules, status=status)
                for name, field in ((OLD, "size"), (NEW, "dimension" if conversion else "size"))
            ],
            "conversion": conversion or {"strategy": "None"},
        },
    }


def install(plane: ControlPlane, storage: str, **options: Any) -> None:
    """Apply the definition, and wait until it is served."""
    plane.api.apply([definition(storage, **options)])
    wait_served(plane)


def gadgets_path(namespace: str, version: str = NEW) -> str:
    return f"/apis/{GROUP}/{version}/namespaces/{namespace}/{PLURAL}"


def create(plane: ControlPlane, namespace: str, count: int, *, version: str = OLD) -> None:
    """Create gadgets `g0000` and so on, of sizes 0 and so on."""
    plane.api.create_many(
        gadgets_path(namespace, version), [gadget(number, version) for number in range(count)]
    )


def gadget(number: int, version: str = OLD) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Gadget",
        "metadata": {"name": f"g{number:04}", "labels": {"app": "gadgets"}},
        "spec": {"size": number},
    }


def stored_versions_of(plane: ControlPlane) -> list[str]:
    """What the definition says of them."""
    found: list[str] = plane.api.get(f"{DEFINITIONS}/{GADGETS}")["status"]["storedVersions"]
    return found


def _version(
    name: str, storage: str, field: str, rules: Iterable[Mapping[str, Any]], *, status: bool
) -> dict[str, Any]:
    spec = {"type": "object", "properties": {field: {"type": "integer"}}}
    if rules:
        spec["x-kubernetes-validations"] = list(rules)
    properties = {"spec": spec, "status": {"type": "object", "properties": {"seen": {"type": "integer"}}}}
    return {
        "name": name,
        "served": True,
        "storage": name == storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        **({"subresources": {"status": {}}} if status else {}),
    }


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
