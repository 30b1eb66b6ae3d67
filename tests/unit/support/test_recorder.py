"""`make record`: whatever fails, all answers are of the version that is recorded with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.recordings import load_answers, versions, write_answers
from tests.recordings.__main__ import keep
from tests.recordings.parts import Part

BEFORE = {"kubernetes": "v1.36.3", "kubectl": ["1.36", "1.32"]}
AFTER = {"kubernetes": "v1.37.0", "kubectl": ["1.37", "1.32"]}
OLD, NEW = {"a case": {"field": 1}}, {"a case": {"field": 2}}
FAILURE = AssertionError("it never answers")


@pytest.fixture(autouse=True)
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder with the answers of BEFORE."""
    folder = tmp_path / "answers"
    monkeypatch.setattr("tests.recordings.ANSWERS", folder)
    for name in ("some/first", "some/second"):
        write_answers(name, OLD)
    write_answers("versions", BEFORE)
    return folder


def part(name: str) -> Part:
    return Part(name=name, cases=dict.fromkeys(OLD), record=lambda plane, folder: NEW)


def keep_outcome(version: dict[str, Any], second: dict[str, Any] | AssertionError) -> int:
    return keep(version, [(part("some/first"), NEW), (part("some/second"), second)])


def test_keep_writes_nothing_of_another_version_when_a_part_fails(capsys: pytest.CaptureFixture[str]):
    assert keep_outcome(AFTER, FAILURE) == 1
    assert load_answers("some/first") == load_answers("some/second") == OLD
    assert versions() == BEFORE
    assert "nothing is written" in capsys.readouterr().out
