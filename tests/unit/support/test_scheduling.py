"""Order in which workers get units of tests."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.scheduling import Bounded, Plan, unit_of


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/unit/util/test_clock.py::test_it", "tests/unit/util/test_clock.py"),
        ("tests/unit/util/test_clock.py::test_it[fast-devcluster]", "tests/unit/util/test_clock.py"),
        ("tests/test_pet.py::test_it[devcluster]", "tests/test_pet.py devcluster"),
        ("tests/test_pet.py::test_it[envtest-a::b]", "tests/test_pet.py envtest"),
        (
            "tests/test_pet.py::test_it[envtest-1.33]",
            "tests/test_pet.py envtest-1.33",
        ),
        *[
            (f"tests/unit/manager_tools/simulation/test_operators.py::test_it[{seed}]",) * 2
            for seed in (0, 6)
        ],
    ],
)
def test_a_unit_is_a_file_on_one_kind_of_control_plane(nodeid: str, unit: str):
    assert unit_of(nodeid) == unit


def given(seconds: dict[str, float], *workers: str) -> list[str]:
    """Return the units in the order in which these workers take them, one worker after the other."""
    plan, left = Plan(seconds), dict.fromkeys(seconds)
    taken = []
    for worker in workers:
        unit = plan.next_of(worker, left)
        del left[unit]
        taken.append(unit)
    return taken


def test_plan_gives_the_longest_unit_first():
    assert given({"a": 1, "b": 30, "c": 2}, *"xyx") == ["b", "c", "a"]


def test_a_worker_stays_on_its_control_plane():
    seconds = {"a real": 300, "b embedded": 200, "c real": 30, "d embedded": 40, "e": 500}
    assert given(seconds, *"xyxyx") == ["a real", "b embedded", "c real", "d embedded", "e"]


def test_workers_go_where_most_is_left_for_each():
    seconds = {"a real": 90, "b real": 80, "c real": 70, "d embedded": 100}
    assert given(seconds, *"xyz") == ["a real", "d embedded", "b real"]


def test_plan_starts_no_control_plane_for_a_short_unit_while_others_are_left():
    seconds = {"a real": 90, "b real": 10, "c": 5}
    assert given(seconds, *"xyy") == ["a real", "c", "b real"]


@pytest.mark.parametrize(
    ("file", "run"), [("tests/unit/test_new.py", 3), ("tests/unit/server/test_connection.py", 9)]
)
def test_bounded_skips_tests_of_an_unmeasured_file_beyond_its_limit(file: str, run: int):
    clock = itertools.count(step=2.0)
    bounded = Bounded(5, clock.__next__)
    passed = 0
    for number in range(9):
        item: Any = SimpleNamespace(nodeid=f"{file}::test_{number}")
        around = bounded.pytest_runtest_protocol(item)
        next(around)
        with contextlib.suppress(pytest.skip.Exception):
            bounded.pytest_runtest_setup(item)
            passed += 1
        with contextlib.suppress(StopIteration):
            around.send(None)
    assert passed == run


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
