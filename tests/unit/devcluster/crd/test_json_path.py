from __future__ import annotations

from typing import Any

import pytest

from devcluster.crd.json_path import cell, find, nested
from devcluster.kinds.resource import Column

OBJ: dict[str, Any] = {
    "metadata": {"labels": {"a.b/c": "x"}},
    "spec": {
        "ports": [{"name": "http", "n": 1}, {"name": "ssh", "n": 22}],
        "size": 3,
        "on": False,
        "ratio": 0.5,
    },
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        (".spec.ports[1].name", ["ssh"]),
        (".spec.ports[-1].name", ["ssh"]),
        (".spec.ports[*].name", ["http", "ssh"]),
        (".spec.ports[0:1].name", ["http"]),
        (".metadata.labels['a.b/c']", ["x"]),
        (r".metadata.labels.a\.b/c", ["x"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Nope')].status", []),
        (".spec.ports[?(@.n>5)].name", ["ssh"]),
        ("..type", ["Ready", "Other"]),
        (".spec.nope.more", []),
        (".spec.ports[9]", []),
        (".spec[", []),
    ],
)
def test_json_path_leads_to_values(path: str, found: list[Any]):
    assert find(OBJ, path) == found


@pytest.mark.parametrize(
    ("kind", "path", "shown"),
    [
        ("integer", ".spec.size", 3),
        ("string", ".spec.size", "3"),
        ("string", ".spec.on", "false"),
        ("boolean", ".spec.on", False),
        ("number", ".spec.ratio", 0.5),
        ("integer", ".metadata.labels['a.b/c']", None),
        ("string", ".spec.ports[0]", '{"name":"http","n":1}'),
        ("date", ".spec.size", None),
        ("string", ".spec.nope", None),
    ],
)
def test_cell_has_the_type_of_its_column(kind: str, path: str, shown: Any):
    assert cell(OBJ, Column("C", kind, json_path=path)) == shown


@pytest.mark.parametrize(("path", "found"), [(".spec.size", 3), (".spec.x.b", None), (".spec.size.b", None)])
def test_nested_follows_a_simple_path(path: str, found: int | None):
    assert nested(OBJ, path) == found
