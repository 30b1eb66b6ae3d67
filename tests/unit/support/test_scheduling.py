"""Order in which workers get units of tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT
from tests.support.scheduling import Plan


def given(seconds: dict[str, float], *workers: str) -> list[str]:
    """Return the units in the order in which these workers take them, one worker after the other."""
    plan, left = Plan(seconds), dict.fromkeys(seconds)
    taken = []
    for worker in workers:
        unit = plan.next_of(worker, left)
        del left[unit]
        taken.append(unit)
    return taken


SHARED = """
from pathlib import Path
import pytest
from tests.support.scheduling import EndsWithItsTests

def told(what):
    with Path("told").open("a") as file:
        file.write(f"{what} ")

def pytest_configure(config):
    config.pluginmanager.register(EndsWithItsTests("plane"))

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.name)

@pytest.fixture(scope="session", params=["devcluster"])
def control_plane_kind(request):
    return request.param

@pytest.fixture(scope="session")
def plane(control_plane_kind):
    told("start")
    yield
    told("end")

@pytest.fixture(scope="session")
def definitions(plane):
    told("define")
"""


def test_shared_plane_ends_before_tests_without_it_and_starts_anew_for_the_next(
    tmp_path: Path,
):
    inner = tmp_path / "inner"  # hooks of a conftest.py beside the root are called for what is beside it
    inner.mkdir()
    (tmp_path / "pytest.ini").touch()
    (inner / "conftest.py").write_text(SHARED)
    (inner / "test_it.py").write_text(
        "from conftest import told\n"
        "def test_a(definitions): told('a')\n"
        "def test_b(definitions): told('b')\n"
        "def test_c(): told('c')\n"
        "def test_d(definitions): told('d')\n"
    )
    flags = ["-q", "-p", "no:cacheprovider", "inner"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *flags],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=True,
        capture_output=True,
    )
    assert (tmp_path / "told").read_text() == "start define a b end c start define d end "
