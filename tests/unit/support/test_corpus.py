"""`make corpus`: which files of a folder it takes, and which differences it reports."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.differences import Known
from tests.corpus.__main__ import read_folder, unknown

OBJECT = "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}\n"


def test_read_folder_takes_objects_of_lists_and_streams_and_counts_templates(tmp_path: Path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below/stream.yaml").write_text(
        OBJECT % "a" + "---\n" + "{kind: Kustomization}\n---\n" + OBJECT % "b" + "---\n[1]\n"
    )
    (tmp_path / "list.yml").write_text(f"apiVersion: v1\nkind: List\nitems: [{(OBJECT % 'c').strip()}]\n")
    (tmp_path / "template.yaml").write_text("{{ if .Values.a }}\na: b\n{{ end }}\n")
    (tmp_path / "notes.txt").write_text(OBJECT % "d")
    found, unread = read_folder(tmp_path)
    assert {name: each["metadata"]["name"] for name, each in found.items()} == {
        "below/stream.yaml#1": "a",
        "below/stream.yaml#2": "b",
        "list.yml#1": "c",
    }
    assert unread == 1


def test_unknown_groups_differences_of_the_same_field_and_counts_those_with_a_reason():
    manifests = {name: {"apiVersion": "apps/v1", "kind": "Deployment"} for name in ("a", "b", "c")}
    real = {name: {"created": {"code": 200, "items": [1, 2]}} for name in manifests}
    own = {
        "a": {"created": {"code": 200, "items": [0, 2]}},
        "b": {"created": {"code": 200, "items": [1, 0]}},
        "c": {"created": {"code": 500, "items": [1, 2]}},
    }
    groups, excused = unknown(manifests, real, own, [Known("Deployment/*", "*.code", "why")])
    assert groups == {
        "Deployment/apps: created.items.N": [
            "a: created.items.0: expected 1, is 0",
            "b: created.items.1: expected 2, is 0",
        ]
    }
    assert excused == 1
