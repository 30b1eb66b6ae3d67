"""Which engine is found, and what is said where none is of use: no time is lost on a sick one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import container_engine
from tests.support.container_engine import ContainerEngine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="engines of other systems are not looked for")

HANGS = "exec sleep 100"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine but the test's own."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CONTAINER_TOOL", "engine")
    monkeypatch.setenv("PYTHON_IMAGE", "registry/python")


def engine(folder: Path, script: str) -> None:
    program = folder / "engine"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def why_skipped() -> str:
    with pytest.raises(pytest.skip.Exception) as skipped:
        ContainerEngine.find()
    return str(skipped.value.msg)


def test_an_engine_with_the_base_image_is_taken(tmp_path: Path):
    engine(tmp_path, "exit 0")
    assert ContainerEngine.find().tool == "engine"


def test_one_that_is_not_there_or_has_no_daemon_is_not(tmp_path: Path):
    assert why_skipped() == "no container engine answers (engine: not on the PATH)"
    engine(tmp_path, "echo first >&2; echo 'no daemon' >&2; exit 1")
    assert why_skipped() == "no container engine answers (engine: no daemon)"


def test_one_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(container_engine, "ANSWERS_WITHIN", 0.2)
    engine(tmp_path, HANGS)
    assert why_skipped() == "no container engine answers (engine: no answer within 0.2 s)"


def test_a_base_image_that_does_not_come_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(container_engine, "PULLED_WITHIN", 0.2)
    engine(tmp_path, f'case "$2" in inspect) exit 1 ;; pull) {HANGS} ;; esac')
    assert why_skipped() == (
        "engine has no base image registry/python, and cannot get it: no answer within 0.2 s"
    )
