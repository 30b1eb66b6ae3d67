"""The rule for names of tests, which `make lint` checks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT


@pytest.mark.parametrize(
    ("name", "is_refused"),
    [
        ("test_queue_drops_a_key", False),
        ("test_itself_is_not_a_pronoun_here", False),
        ("test_what_is_dropped_is_gone", True),
        ("test_nobody_waits", True),
        ("test_it", True),
    ],
)
def test_check_refuses_names_that_begin_with_a_pronoun(tmp_path: Path, name: str, *, is_refused: bool):
    file = tmp_path / "test_queue.py"
    file.write_text(f"class TestQueue:\n    async def {name}(self):\n        pass\n")
    command = [sys.executable, str(ROOT / "scripts" / "check-test-names"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == is_refused
    told = f"{file}:2: {name} does not begin with the unit that it tests\n"
    assert done.stdout == (told if is_refused else "")
