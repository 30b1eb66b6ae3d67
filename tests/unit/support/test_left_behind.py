"""What a test leaves behind fails that test, and no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.dockerfile import ROOT

LEAVES_A_TASK = """
import asyncio
import gc
import pytest

gc.disable()

class Keeper:
    def __init__(self):
        self.itself = self

@pytest.fixture
def keeper():
    return Keeper()

async def fails():
    raise ValueError("nobody has seen it")

def test_a(keeper):
    async def main():
        keeper.task = asyncio.create_task(fails())
        await asyncio.sleep(0)
    asyncio.run(main())

def test_b(): pass
"""


def test_a_task_whose_failure_nobody_has_seen_fails_the_test_that_has_left_it(tmp_path: Path):
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_it.py").write_text(LEAVES_A_TASK)
    flags = ["-q", "-W", "error", "-p", "no:cacheprovider", "-p", "tests.support.left_behind"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *flags],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert "ERROR test_it.py::test_a - " in ran.stdout
    assert "2 passed, 1 error in" in ran.stdout
    assert "exception=ValueError('nobody has seen it')" in ran.stdout
