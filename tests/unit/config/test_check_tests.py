"""`scripts/check-tests`: it checks the names of tests, and the exceptions in tests/map.toml."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import ROOT

QUEUE = "class Queue:\n    def drop(self):\n        pass\n"


def test_check_tests_script_reports_misnamed_tests_and_modules_without_tests(tmp_path: Path):
    files = {
        "manager/__init__.py": "",
        "manager/cache/__init__.py": "",
        "manager/cache/store.py": QUEUE,
        "manager/cache/sink.py": QUEUE,
        "manager/cache/limits.py": "LIMIT = 3\n\nclass Store(Protocol):\n    def get(self): ...\n",
        "tests/map.toml": '[modules]\n"manager/*" = "a reason"\n"manager/kube/*" = "tests/kube"\n[tests]\n',
        "tests/unit/cache/test_store_deletions.py": "def test_itself(): ...\nasync def test_it_is(): ...\n",
        "tests/unit/cache/test_storage.py": "def test_a_key_is_dropped(): ...\ndef test_another(): ...\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    command = [sys.executable, str(ROOT / "scripts" / "check-tests"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    unnamed = "does not begin with the unit that it tests"
    assert done.stdout.splitlines() == [
        f"tests/unit/cache/test_storage.py:1: test_a_key_is_dropped {unnamed}",
        f"tests/unit/cache/test_store_deletions.py:2: test_it_is {unnamed}",
        "manager/cache/sink.py: has no test file, and tests/map.toml gives no reason",
        "tests/map.toml: manager/* excuses no file",
        "tests/map.toml: manager/*: the reason names no test",
        "tests/map.toml: manager/kube/* excuses no file",
        "tests/map.toml: manager/kube/*: there is no tests/kube",
        "tests/unit/cache/test_storage.py: has no module, and tests/map.toml gives no reason",
    ]
