from __future__ import annotations

from pathlib import Path

from manager.codegen.tree import HEADER, GeneratedTree


def test_files_that_are_missing_or_differ_are_stale_until_they_are_written(tmp_path: Path):
    (tmp_path / "b.yaml").write_text("edited by hand\n")
    tree = GeneratedTree(tmp_path, {"a/new.yaml": "a\n", "b.yaml": "b\n"})
    expected = [tmp_path / "a" / "new.yaml", tmp_path / "b.yaml"]
    assert tree.stale() == expected
    assert tree.write() == expected
    assert tree.stale() == []
    assert (tmp_path / "b.yaml").read_text() == HEADER + "b\n"


def test_a_file_that_is_no_longer_generated_is_stale_and_is_removed(tmp_path: Path):
    GeneratedTree(tmp_path, {"crd/old.yaml": "old\n"}).write()
    old = tmp_path / "crd" / "old.yaml"
    tree = GeneratedTree(tmp_path, {})
    assert tree.stale() == [old]
    tree.write()
    assert not old.exists()


def test_files_written_by_hand_are_left_alone(tmp_path: Path):
    sample = tmp_path / "sample.yaml"
    sample.write_text("kind: Sample\n")
    tree = GeneratedTree(tmp_path, {})
    assert tree.stale() == []
    tree.write()
    assert sample.exists()


def test_writing_again_touches_nothing(tmp_path: Path):
    tree = GeneratedTree(tmp_path, {"a.yaml": "a\n"})
    tree.write()
    assert tree.write() == []
