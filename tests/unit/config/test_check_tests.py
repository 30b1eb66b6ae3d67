"""`scripts/check-tests`: names of tests, and the map of modules and their test files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_check_refuses_names_that_begin_with_an_article_or_a_pronoun(tmp_path: Path):
    good = (
        "test_queue_drops_a_key",
        "test_itself_is_not_a_pronoun_here",
        "test_another_queue_is_empty",
        "test_a",
    )
    bad = ("test_nobody_waits", "test_it", "test_a_key_is_dropped", "test_an_old_key_stays", "test_the_limit")
    text = "class TestQueue:\n" + "".join(f"    async def {name}(self): ...\n" for name in (*good, *bad))
    assert check(tmp_path, {"tests/integration/test_queue.py": text}) == [
        f"tests/integration/test_queue.py:{line}: {name} does not begin with the unit that it tests"
        for line, name in enumerate(bad, 2 + len(good))
    ]


def test_check_refuses_modules_test_files_and_exceptions_that_are_alone(tmp_path: Path):
    files = {
        "manager/cache/store.py": QUEUE,
        "tests/unit/cache/test_store_deletions.py": "",
        "devcluster/api/paging.py": QUEUE,
        "tests/unit/devcluster/api/test_paging.py": "",
        "manager/cache/limits.py": "LIMIT = 3\n\nclass Store(Protocol):\n    def get(self): ...\n",
    }
    assert check(tmp_path, files) == []
    alone = {
        "manager/cache/sink.py": QUEUE,
        "tests/unit/cache/test_storage.py": "",
        "tests/map.toml": '[modules]\n"manager/kube/*" = "a reason"\n[tests]\n',
    }
    assert check(tmp_path, alone) == [
        "manager/cache/sink.py: has no test file, and tests/map.toml gives no reason",
        "tests/map.toml: manager/kube/* excuses no file",
        "tests/unit/cache/test_storage.py: has no module, and tests/map.toml gives no reason",
    ]
