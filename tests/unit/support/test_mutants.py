"""`python -m tests.mutants` on a small package."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.support import ROOT
from tests.support.tools import output_of

CODE = """
LIMIT = 3


def is_below(number: int) -> bool:
    return number < LIMIT
"""
TESTS = """
from planted.code import is_below


def test_is_below():
    assert is_below(1)
    assert not is_below(4)
"""
LIMIT = "planted/code.py (module) constant 0: 3 -> 4"
BELOW = "planted/code.py is_below comparison 0: < -> <="


def test_mutation_run_reports_survived_only_for_mutants_that_pass_all_tests(tmp_path: Path):
    for name, text in {
        "planted/__init__.py": "",
        "planted/code.py": CODE,
        "tests/test_code.py": TESTS,
        "pytest.ini": "[pytest]\nasyncio_default_fixture_loop_scope = function\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    flags = ("--code=planted", "--out=out.json", "--tests=tests/test_code.py")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    output_of(sys.executable, "-m", "tests.mutants", *flags, cwd=tmp_path, environ=environ)
    outcomes = {each["mutant"]: each["outcome"] for each in json.loads((tmp_path / "out.json").read_text())}
    assert {key for key, each in outcomes.items() if each == "survived"} == {LIMIT, BELOW}
    assert "killed" in outcomes.values()
    assert (tmp_path / "planted/code.py").read_text() == CODE
