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


def printed(tmp_path: Path, capsys: pytest.CaptureFixture[str], condition: dict[str, Any]) -> str:
    metadata = {"name": "rex", "namespace": "ns", "deletionTimestamp": "x", "finalizers": ["a"]}
    rex = {"metadata": metadata, "status": {"conditions": [condition]}}
    (tmp_path / "list").write_text(json.dumps({"items": [rex]}))
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\ncat {tmp_path / 'list'}\n")
    kubectl.chmod(0o755)
    _print_waiting(_left_of(str(kubectl), "pets"))
    return capsys.readouterr().err


def test_uninstall_escapes_and_shortens_the_message_of_a_condition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    message = "\x1b]0;owned\x07\nline two" + "x" * 30_000
    said = printed(tmp_path, capsys, {"type": "Ready", "message": message})
    assert said.replace("\n", "").isprintable()
    assert r"  ns/pets/rex: \x1b]0;owned\x07\nline twoxxx" in said.splitlines()[1]
    assert len(said) < 2_000


@pytest.mark.parametrize("condition", [{}, {"type": "Ready"}, {"message": "x"}])
def test_uninstall_prints_the_kubectl_patch_command_when_a_condition_is_malformed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], condition: dict[str, Any]
):
    assert "kubectl patch -n ns pets/rex" in printed(tmp_path, capsys, condition)


def test_uninstall_prints_no_namespace_for_a_cluster_scoped_object(capsys: pytest.CaptureFixture[str]):
    _print_waiting([("", "clusters.v1.example.com/x", "")])
    said = capsys.readouterr().err.splitlines()
    assert said[1] == "  clusters.v1.example.com/x"
    assert said[-1].startswith("  kubectl patch clusters.v1.example.com/x --type=merge")


KUBECTL = """#!/bin/sh
cd $(dirname $0)
case $1 in
get) echo '{"items": [{"metadata": {"name": "rex", "namespace": "ns", "deletionTimestamp": "x",'
     echo '"finalizers": ["a"]}}]}'; echo $2 > asked ;;
delete) cat > deleted; until [ -e asked ]; do sleep 0.05; done; exit 3 ;;
esac
"""
"""A kubectl whose `delete` ends only after a `get`."""


def test_uninstall_names_objects_with_finalizers_and_returns_the_exit_code_of_kubectl(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    # Without a manager no webhook converts objects, so kubectl can list only the stored version.
    versions = [{"name": "v2", "storage": False}, {"name": "v1", "storage": True}]
    spec = {"group": "example.com", "names": {"plural": "pets"}, "versions": versions}
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"spec": spec})))
    monkeypatch.setattr(uninstall, "_PATIENCE", 0.1)
    assert uninstall.main(str(kubectl)) == 3
    assert json.loads((tmp_path / "deleted").read_text()) == {"spec": spec}
    said = capsys.readouterr().err
    assert "  ns/pets.v1.example.com/rex\n" in said
    assert "  kubectl patch -n ns pets.v1.example.com/rex --type=merge" in said
