"""Mutation tests: the tests of this or another commit decide whether a mutant survives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

CODE = """
LIMIT = 3


def is_below(number: int) -> bool:
    return number < LIMIT
"""
WEAK = """
from planted.code import is_below


def test_is_below():
    assert is_below(1)
    assert not is_below(4)
"""
STRONG = """
from planted.code import is_below


def test_limit_is_3():
    assert [is_below(number) for number in (2, 3)] == [True, False]


def test_fails_without_a_fault():
    assert not is_below(0)
"""
LIMIT = "planted/code.py (module) constant 0: 3 -> 4"
BELOW = "planted/code.py is_below comparison 0: < -> <="


def run(*options: str) -> dict[str, Any]:
    """Run the mutants; return the result of each."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants", "--code=planted", "--out=out.json", *options],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return {each["mutant"]: each["outcome"] for each in json.loads(Path("out.json").read_text())}


def test_mutant_survives_until_a_test_detects_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    test = Path("tests/test_code.py")
    for folder in ("planted", "tests"):
        Path(folder).mkdir()
    Path("planted/__init__.py").touch()
    Path("planted/code.py").write_text(CODE)
    Path("pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    test.write_text(STRONG)
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "strong"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)
    test.write_text(WEAK)
    outcomes = run("--tests=tests/test_code.py")
    assert {key for key, each in outcomes.items() if each == "survived"} == {LIMIT, BELOW}
    assert "killed" in outcomes.values()
    assert Path("planted/code.py").read_text() == CODE
    again = ("--again=out.json", "--tests=tests/test_code.py", "--tests-of=HEAD")
    assert run(*again) == {LIMIT: "killed", BELOW: "killed"}
