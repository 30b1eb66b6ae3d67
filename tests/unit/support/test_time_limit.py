"""Time limit of a test: a hanging test fails with the stacks of its threads and tasks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
XDIST = ("-pxdist.plugin", "-n1")

WAITS = """
import asyncio, threading

async def waits_for_somebody():
    await asyncio.Event().wait()

async def test_hangs():
    thread = threading.Thread(target=threading.Event().wait, name="beside", daemon=True)
    thread.start()
    beside = asyncio.create_task(waits_for_somebody(), name="helper")
    await asyncio.sleep(3600)

def test_goes_on():
    pass
"""


def run(folder: Path, text: str, *flags: str, grace: float) -> str:
    test = folder / "test_hanging.py"
    test.write_text(text)
    settings = folder / "pytest.ini"
    settings.write_text("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    (folder / "graced.py").write_text(f"from tests.support import time_limit\n\ntime_limit.GRACE = {grace}\n")
    command = [sys.executable, "-m", "pytest", f"--config-file={settings}", "--timeout=0.5"]
    plugins = ("pytest_timeout", "pytest_asyncio.plugin", "tests.support.time_limit", "graced")
    done = subprocess.run(
        [*command, *(f"-p{each}" for each in plugins), *flags, test],
        env={"PYTHONPATH": f"{ROOT}:{folder}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize("flags", [(), XDIST], ids=["alone", "xdist"])
def test_time_limit_fails_a_test_with_the_stacks_of_threads_and_tasks(tmp_path: Path, flags: tuple[str, ...]):
    told = run(tmp_path, WAITS, *flags, grace=50)
    assert re.search(r"test_hanging\.py::test_hangs is not over after \d\.\d s", told)
    assert "1 failed, 1 passed" in told
    assert re.search(r"thread beside:\n(.*\n)*?.*threading\.py", told)
    assert re.search(r"task helper of waits_for_somebody:\n.*\n.*await asyncio\.Event\(\)\.wait\(\)", told)
    assert "await asyncio.sleep(3600)" in told
