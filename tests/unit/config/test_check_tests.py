"""`scripts/check-tests`: names of tests, and the map of modules and their test files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

QUEUE = "class Queue:\n    def drop(self):\n        pass\n"


def check(folder: Path, files: dict[str, str]) -> list[str]:
    """Return the problems that the script prints for a repository of these files."""
    for name, text in {"tests/map.toml": "[modules]\n[tests]\n", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if name.endswith(".py"):
            (path.parent / "__init__.py").touch()
    command = [sys.executable, str(ROOT / "scripts" / "check-tests"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == bool(done.stdout), done.stderr
    return done.stdout.splitlines()


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
    text = f"class TestQueue:\n    async def {name}(self):\n        pass\n"
    told = f"tests/integration/test_queue.py:2: {name} does not begin with the unit that it tests"
    assert check(tmp_path, {"tests/integration/test_queue.py": text}) == [told] * is_refused


@pytest.mark.parametrize(
    ("module", "test"),
    [
        ("manager/cache/store.py", "tests/unit/cache/test_store.py"),
        ("manager/cache/store.py", "tests/unit/cache/test_store_deletions.py"),
        ("devcluster/api/paging.py", "tests/unit/devcluster/api/test_paging.py"),
    ],
)
def test_check_accepts_a_module_with_its_test_file(tmp_path: Path, module: str, test: str):
    assert check(tmp_path, {module: QUEUE, test: ""}) == []


def test_check_refuses_a_module_and_a_test_file_that_are_alone(tmp_path: Path):
    assert check(tmp_path, {"manager/cache/store.py": QUEUE, "tests/unit/cache/test_storage.py": ""}) == [
        "manager/cache/store.py: has no test file, and tests/map.toml gives no reason",
        "tests/unit/cache/test_storage.py: has no module, and tests/map.toml gives no reason",
    ]


def test_check_needs_no_tests_of_constants_and_protocols(tmp_path: Path):
    text = "LIMIT = 3\n\nclass Store(Protocol):\n    def get(self): ...\n"
    assert check(tmp_path, {"manager/cache/store.py": text}) == []


def test_check_refuses_an_exception_that_excuses_no_file(tmp_path: Path):
    listed = '[modules]\n"manager/cache/*" = "a reason"\n"manager/kube/*" = "another"\n[tests]\n'
    assert check(tmp_path, {"tests/map.toml": listed, "manager/cache/store.py": QUEUE}) == [
        "tests/map.toml: manager/kube/* excuses no file"
    ]
