"""Planted faults: which there are, and that tests are what decides whether one survives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

CODE = '''
"""A module."""
from functools import cached_property
from itertools import cycle

LIMIT = 3


def is_below(number: int) -> bool:
    """Whether it is, as all can read."""
    return number < LIMIT


def total(numbers: list[int]) -> int:
    found = 0
    for number in numbers:
        if not number and (number is not None):
            continue
        found += number
    return found


class Box:
    size = 1

    @cached_property
    def doubled(self) -> int:
        return self.size + self.size

    def fill(self, things: list[str]) -> None:
        for thing in cycle(things):
            self.thing = thing
            break


class Large(Box):
    def fill(self, things: list[str]) -> None:
        super().fill(things=things)
        self.full = True
'''
WEAK = """
from planted.code import Box, Large, is_below, total


def test_is_below():
    assert is_below(1)
    assert not is_below(4)


def test_total():
    assert total([0, 1, 2]) == 3


def test_box():
    assert Box().doubled == 2


def test_large():
    box = Large()
    box.fill(["a", "b"])
    assert (box.thing, box.full) == ("a", True)
"""
STRONG = """
from planted.code import is_below


def test_limit_is_3():
    assert [is_below(number) for number in (2, 3)] == [True, False]


def test_fails_by_itself():
    assert not is_below(0)
"""
LIMIT = "planted/code.py (module) constant 0: 3 -> 4"
BELOW = "planted/code.py is_below comparison 0: < -> <="
# Mutant that no test can distinguish from the original.
EQUIVALENT = "planted/code.py total comparison 0: is not -> is"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a small project, which becomes the working directory."""
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted/__init__.py").touch()
    (tmp_path / "planted/code.py").write_text(CODE)
    (tmp_path / "test_weak.py").write_text(WEAK)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


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


@pytest.mark.whole
def test_mutant_survives_until_a_test_tells_it_apart(planted: Path):
    outcomes = run("--tests=test_weak.py")
    assert {key for key, each in outcomes.items() if each == "survived"} == {LIMIT, BELOW, EQUIVALENT}
    endless = "planted/code.py Box.fill loop 0: break -> continue"
    assert [key for key, each in outcomes.items() if each == "timeout"] == [endless]
    # A method without super() is another closure, and a class has its size when it is imported.
    assert outcomes["planted/code.py Large.fill statement 0: super().fill(things=things) -> pass"] == "killed"
    assert outcomes["planted/code.py (module) constant 1: 1 -> 2"] == "killed"
    assert (planted / "planted/code.py").read_text() == CODE
    # A test that fails without a fault kills no mutant.
    (planted / "test_strong.py").write_text(STRONG)
    assert run("--again=out.json", "--tests=test_strong.py") == {
        LIMIT: "killed",
        BELOW: "killed",
        EQUIVALENT: "survived",
    }


def test_tests_of_another_commit_run_against_the_current_code(planted: Path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    old = planted / "tests/test_old.py"
    old.parent.mkdir()
    old.write_text(STRONG)
    (planted / "planted/code.py").write_text(CODE.replace("3", "30"))
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "old"]):
        subprocess.run([*git, *words], check=True)
    old.write_text("def test_nothing():\n    pass\n")
    (planted / "planted/code.py").write_text(CODE)
    Path("before.json").write_text(json.dumps([{"mutant": BELOW, "outcome": "survived"}]))
    again = ("--again=before.json", "--tests=tests/test_old.py")
    assert run(*again) == {BELOW: "survived"}
    assert run(*again, "--tests-of=HEAD") == {BELOW: "killed"}
