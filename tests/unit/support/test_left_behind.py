"""Leaks of a test: they fail that test, and no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT

LEAVES_A_TASK = """
import asyncio
import gc
import pytest

gc.disable()

class Keeper:
    def __init__(self):
        self.itself = self

async def fails():
    raise ValueError("nobody has seen it")

@pytest.fixture
def keeper():
    return Keeper()

def test_a(keeper):
    async def main():
        keeper.task = asyncio.create_task(fails())
        await asyncio.sleep(0)
        gc.collect(0)
    asyncio.run(main())
"""


def test_unseen_failure_of_a_task_fails_the_test_that_left_it(tmp_path: Path):
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = *_test.py\n")
    (tmp_path / "a_test.py").write_text(LEAVES_A_TASK)
    (tmp_path / "b_test.py").write_text("import gc\ndef test_b(): gc.collect()\n")
    flags = ["-q", "-W", "error", "-p", "no:cacheprovider", "-p", "tests.support.left_behind"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *flags],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert "ERROR a_test.py::test_a - " in ran.stdout
    assert "2 passed, 1 error in" in ran.stdout
    assert "nobody has seen it" in ran.stdout
