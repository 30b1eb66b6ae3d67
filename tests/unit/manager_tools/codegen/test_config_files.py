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


def test_generated_tree_writes_stale_files_and_removes_generated_but_no_handwritten_files(tmp_path: Path):
    new, edited, old, sample = (tmp_path / name for name in ("a/new.yaml", "b.yaml", "c/old.yaml", "d.yaml"))
    GeneratedTree(tmp_path, {"c/old.yaml": "old\n"}).write()
    edited.write_text("edited by hand\n")
    sample.write_text("kind: Sample\n")
    tree = GeneratedTree(tmp_path, {"a/new.yaml": "a\n", "b.yaml": "b\n"})
    assert tree.stale() == tree.write() == [new, edited, old]
    assert tree.stale() == tree.write() == []
    assert (edited.read_text(), sample.read_text()) == (f"{HEADER}b\n", "kind: Sample\n")
    assert not old.exists()
