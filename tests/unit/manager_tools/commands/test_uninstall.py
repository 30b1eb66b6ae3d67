"""Output of `make uninstall` about objects that wait; tests/integration/test_library.py tests the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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
def test_uninstall_prints_the_next_command_when_a_condition_is_malformed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], condition: dict[str, Any]
):
    assert "kubectl patch -n ns pets/rex" in printed(tmp_path, capsys, condition)
