"""Writing of generated files; commands/test_generating.py checks the files of this repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from manager_kinds.manifests import yaml_stream
from manager_tools.codegen.config_files import HEADER, GeneratedTree


def test_yaml_stream_has_block_scalars_and_no_aliases_and_keeps_the_order_of_keys():
    shared = {"b": 1, "a": [2]}
    manifest: dict[str, Any] = {"second": shared, "first": shared}
    assert yaml_stream([manifest]) == "---\nsecond:\n  b: 1\n  a:\n  - 2\nfirst:\n  b: 1\n  a:\n  - 2\n"
    assert yaml_stream([{"text": "one\n\ntwo"}]) == "---\ntext: |-\n  one\n\n  two\n"


def test_generated_tree_writes_only_missing_and_changed_files(tmp_path: Path):
    (tmp_path / "b.yaml").write_text("edited by hand\n")
    tree = GeneratedTree(tmp_path, {"a/new.yaml": "a\n", "b.yaml": "b\n"})
    expected = [tmp_path / "a" / "new.yaml", tmp_path / "b.yaml"]
    assert tree.stale() == tree.write() == expected
    assert tree.stale() == tree.write() == []
    assert (tmp_path / "b.yaml").read_text() == HEADER + "b\n"


def test_generated_tree_removes_obsolete_generated_files_and_keeps_handwritten_files(tmp_path: Path):
    GeneratedTree(tmp_path, {"crd/old.yaml": "old\n"}).write()
    old, sample = tmp_path / "crd" / "old.yaml", tmp_path / "sample.yaml"
    sample.write_text("kind: Sample\n")
    tree = GeneratedTree(tmp_path, {})
    assert tree.stale() == [old]
    tree.write()
    assert not old.exists()
    assert sample.exists()
