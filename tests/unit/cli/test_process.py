"""What only a process of its own can show: exit codes, and what is not imported."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from manager.version import VERSION

ROOT = Path(__file__).parents[3]
GENEROUS = 60.0


def run(*argv: str, python: tuple[str, ...] = ("-m", "controllers.main")) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *python, *argv],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=GENEROUS,
        check=False,
    )


@pytest.mark.parametrize(
    ("argv", "code", "expected"),
    [
        (("run", "--no-such-flag"), 2, "unknown flag '--no-such-flag'"),
        (("run", "--memcached-image="), 2, "invalid value '' for --memcached-image: some text is expected"),
        (("run", "--kubeconfig=/no/such/file"), 1, "/no/such/file"),
        (("run",), 1, "no cluster to talk to"),
    ],
)
def test_bad_input_ends_in_one_line_and_its_exit_code(argv: tuple[str, ...], code: int, expected: str):
    ended = run(*argv)
    assert ended.returncode == code
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    assert expected in ended.stderr
    assert "Traceback" not in ended.stderr


# What loads a manager: imported as `run` does it, and nothing connects.
LOADED = (
    "import sys, linecache; import manager.cli.run, manager.cli.assembly, manager.cli.signals;"
    "import controllers.main;"
)


def test_a_manager_imports_only_what_every_operator_needs():
    script = f"{LOADED} print('imported', *sorted(sys.modules))"
    imported = set(run(python=("-c", script)).stdout.rpartition("imported ")[2].split())
    assert {"controllers.cache.memcached", "controllers.petstore.pet"} <= imported
    assert not {"manager.codegen", "petstore.client"} & imported
    packages = {name.partition(".")[0] for name in imported}
    assert "structlog" in packages
    assert not {"grpc", "google", "cryptography", "kubernetes_asyncio", "rich", "devcluster"} & packages


def test_a_manager_reads_no_source_at_its_start():
    script = f"{LOADED} print('read', *linecache.cache)"
    assert run(python=("-c", script)).stdout.rpartition("read")[2].split() == []


@pytest.mark.parametrize("argv", ["version", "crds"])
def test_output_that_nobody_reads_is_no_error(argv: str):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        ended = subprocess.run(
            [sys.executable, "-m", "controllers.main", argv],
            cwd=ROOT,
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            timeout=GENEROUS,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (0, "")


STUCK = """
import asyncio, time
from manager.logs import configured
from manager.watchdog import Watchdog

async def main():
    time.sleep(60)

with configured() as lines, Watchdog(stop_within=0.1, before_exit=lines.flush) as watchdog:
    watchdog.stopping()
    asyncio.run(main())
"""


def test_a_log_that_nobody_reads_does_not_keep_a_stuck_process_alive():
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb") as full:
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
        os.set_blocking(writing, True)
        ended = subprocess.run(
            [sys.executable, "-c", STUCK], cwd=ROOT, stderr=full, timeout=GENEROUS / 2, check=False
        )
    assert ended.returncode == 1


def test_the_version_is_that_of_the_library_and_of_the_application_which_needs_just_this_one():
    library, application = [
        tomllib.loads((ROOT / path).read_text())["project"]
        for path in ("pyproject.toml", "controllers/pyproject.toml")
    ]
    assert library["version"] == application["version"] == VERSION
    assert f"{library['name']}=={VERSION}" in application["dependencies"]


@pytest.mark.parametrize("argument", ["version", "--version", "--help"])
def test_what_needs_no_operator_imports_none(argument: str):
    code = (
        f"import sys; sys.argv = ['operator-manager', {argument!r}]\n"
        "from controllers.program import main\n"
        "assert main() == 0\n"
        "heavy = {'controllers.main', 'manager.operator', 'manager.kube', 'pydantic', 'aiohttp', 'grpc'}\n"
        "assert not heavy & sys.modules.keys()"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
