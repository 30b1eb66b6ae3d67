"""Output of `make uninstall`; tests/integration/test_library.py tests its effects."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from manager_tools.commands import uninstall
from manager_tools.commands.uninstall import _left_of, _print_waiting

KUBECTL = """#!/bin/sh
cd $(dirname $0)
case $1 in
get) cat list; echo $2 > asked ;;
delete) cat > deleted; until [ -e asked ]; do sleep 0.05; done; exit 3 ;;
esac
"""
"""A kubectl whose `delete` ends only after a `get`."""


def kubectl_with(folder: Path, *conditions: dict[str, Any]) -> str:
    """Write a fake kubectl that lists one object, which has these conditions; return its path."""
    metadata = {"name": "rex", "namespace": "ns", "deletionTimestamp": "x", "finalizers": ["a"]}
    rex = {"metadata": metadata, "status": {"conditions": conditions}}
    (folder / "list").write_text(json.dumps({"items": [rex]}))
    kubectl = folder / "kubectl"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    return str(kubectl)


def test_uninstall_escapes_and_shortens_the_message_of_a_condition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    message = "\x1b]0;owned\x07\nline two" + "x" * 30_000
    kubectl = kubectl_with(tmp_path, {"type": "Ready", "message": message})
    _print_waiting(_left_of(kubectl, "pets"))
    said = capsys.readouterr().err
    assert said.replace("\n", "").isprintable()
    assert r"  ns/pets/rex: \x1b]0;owned\x07\nline twoxxx" in said.splitlines()[1]
    assert len(said) < 2_000


def test_uninstall_prints_no_namespace_for_a_cluster_scoped_object(capsys: pytest.CaptureFixture[str]):
    _print_waiting([("", "clusters.v1.example.com/x", "")])
    said = capsys.readouterr().err.splitlines()
    assert said[1] == "  clusters.v1.example.com/x"
    assert said[-1].startswith("  kubectl patch clusters.v1.example.com/x --type=merge")


def test_uninstall_names_objects_with_finalizers_and_returns_the_exit_code_of_kubectl(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    # Without a manager no webhook converts objects, so kubectl can list only the stored version.
    versions = [{"name": "v2", "storage": False}, {"name": "v1", "storage": True}]
    spec = {"group": "example.com", "names": {"plural": "pets"}, "versions": versions}
    kubectl = kubectl_with(tmp_path, {}, {"message": "x"}, {"type": "Ready"})  # some lack a type or a message
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"spec": spec})))
    monkeypatch.setattr(uninstall, "_PATIENCE", 0.1)
    assert uninstall.main(kubectl) == 3
    assert json.loads((tmp_path / "deleted").read_text()) == {"spec": spec}
    said = capsys.readouterr().err
    assert "  ns/pets.v1.example.com/rex\n" in said
    assert "  kubectl patch -n ns pets.v1.example.com/rex --type=merge" in said
