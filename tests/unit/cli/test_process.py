"""What only a process of its own can show: exit codes, and what is not imported."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import IO

import pytest

from manager.version import VERSION
from tests.support import ROOT
from tests.support.fork_server import run, start
from tests.support.manager_process import run_once

GENEROUS = 30.0
PROGRAMS = {
    name: (str(Path(sys.executable).with_name(name)),)
    for name in ("operator-manager", "petstore", "devcluster")
}


def interpreted(code: str, stderr: int | IO[bytes] = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """In an interpreter that has imported nothing yet."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        stdout=subprocess.PIPE,
        stderr=stderr,
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
def test_program_reports_bad_input_in_one_line_with_its_exit_code(
    argv: tuple[str, ...], code: int, expected: str, tmp_path: Path
):
    ended = run_once(*argv, folder=tmp_path)
    assert ended.returncode == code
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    assert expected in ended.stderr
    assert "Traceback" not in ended.stderr


@functools.cache
def loaded() -> tuple[set[str], list[str]]:
    """What loads a manager, imported as `run` does it: its modules, and the files whose source is read."""
    done = interpreted(
        "import sys, linecache; import controllers.main;"
        "import manager.cli.run, manager.cli.assembly, manager.cli.signals;"
        "print('imported', *sorted(sys.modules)); print('read', *linecache.cache)"
    )
    assert done.returncode == 0, done.stderr
    *_, imported, read = (line.split() for line in done.stdout.splitlines())
    assert (imported[0], read[0]) == ("imported", "read")
    return set(imported[1:]), read[1:]


def test_manager_imports_only_modules_that_every_operator_needs():
    imported, _ = loaded()
    assert {"controllers.cache.memcached", "controllers.petstore.pet"} <= imported
    assert not {"manager.console", "manager.explain", "manager.planning", "petstore.client"} & imported
    packages = {name.partition(".")[0] for name in imported}
    assert "structlog" in packages
    assert not {"grpc", "google", "cryptography", "rich", "devcluster", "manager_tools"} & packages
    assert not {"aiohttp", "jinja2", "kubernetes_asyncio", "opentelemetry", "yaml"} & packages


def test_manager_reads_no_source_at_its_start():
    assert loaded()[1] == []


@pytest.mark.parametrize("argv", ["version", "crds"])
def test_command_succeeds_when_its_output_pipe_is_closed(argv: str, tmp_path: Path):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody, (tmp_path / "errors").open("wb") as errors:
        ended = start([*PROGRAMS["operator-manager"], argv], os.environ, nobody, errors)
        assert ended.wait(GENEROUS) == 0
    assert (tmp_path / "errors").read_text() == ""


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("argv", "closed", "code"),
    [("--help", ">&-", 0), ("--version", "<&- >&- 2>&-", 0), ("no-such-command", "2>&-", 2)],
)
def test_program_prints_nothing_when_standard_files_are_closed(
    program: str, argv: str, closed: str, code: int
):
    ended = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *PROGRAMS[program], argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=GENEROUS,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")


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


def test_stuck_process_exits_when_its_log_pipe_is_full():
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb") as full:
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
        os.set_blocking(writing, True)
        ended = interpreted(STUCK, stderr=full)
    assert ended.returncode == 1


def test_version_is_the_same_in_library_and_application():
    library, application = [
        tomllib.loads((ROOT / path).read_text())["project"]
        for path in ("pyproject.toml", "controllers/pyproject.toml")
    ]
    assert library["version"] == application["version"] == VERSION
    assert f"{library['name']}=={VERSION}" in application["dependencies"]


@pytest.mark.parametrize("argument", ["version", "--version", "--help"])
def test_version_and_help_import_no_operator(argument: str):
    code = (
        f"import sys; sys.argv = ['operator-manager', {argument!r}]\n"
        "from controllers.program import main\n"
        "assert main() == 0\n"
        "heavy = {'controllers.main', 'manager.operator', 'manager.kube', 'pydantic', 'aiohttp', 'grpc'}\n"
        "assert not heavy & sys.modules.keys()"
    )
    ran = interpreted(code)
    assert (ran.returncode, ran.stderr) == (0, "")


LIBRARY = (sys.executable, "-m", "manager")
"""The program that begins projects, whose own programs complete as it does."""


@functools.cache
def script(shell: str, *program: str) -> str:
    done = run(*program, "completion", shell, environ=os.environ, timeout=GENEROUS)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def completed(program: tuple[str, ...], *words: str) -> list[str]:
    """What bash offers for the last word."""
    text = script("bash", *program)
    function = re.search(r"-F (\S+) (\S+)\n", text)
    assert function is not None
    line = " ".join(f"'{word}'" for word in (function[2], *words))
    asked = f"{text}COMP_WORDS=({line}); COMP_CWORD={len(words)}; {function[1]}"
    asked += '; printf "%s\\n" "${COMPREPLY[@]}"'
    bash = subprocess.run(["bash", "--norc", "-c", asked], capture_output=True, text=True, check=True)
    assert bash.stderr == ""
    return bash.stdout.split()


@pytest.mark.parametrize(
    ("program", "words", "offered"),
    [
        ("operator-manager", ["ru"], ["run"]),
        ("operator-manager", ["run", "--leader-elect-l"], ["--leader-elect-lease-duration"]),
        ("operator-manager", ["run", "--metrics-secure", "--petstore-c"], ["--petstore-check-interval"]),
        ("operator-manager", ["create", "a"], ["api"]),
        ("operator-manager", ["create", "api", "--o"], ["--owns"]),
        ("operator-manager", ["create", "api", "--c"], ["--cluster-scoped"]),
        ("operator-manager", ["create", "api", "--owns", "Con"], ["ConfigMap"]),
        ("operator-manager", ["create", "webhook", "--co"], ["--conversion"]),
        ("operator-manager", ["create", "webhook", "--kind", "P"], ["Pet"]),
        ("operator-manager", ["run", "--controllers", "me"], ["memcached"]),
        ("operator-manager", ["run", "--controllers", "=", "me"], ["memcached"]),
        ("operator-manager", ["run", "--log-format", "="], ["auto", "json", "console"]),
        ("operator-manager", ["run", "--log-format=j"], ["json"]),
        ("operator-manager", ["run", "--config="], []),
        ("operator-manager", ["run", "--config", ""], []),
        ("operator-manager", ["run", "--config", "=", ""], []),
        ("operator-manager", ["run", "--leader-elect", "--shar"], ["--shards"]),
        ("operator-manager", ["plan", "-f", ""], []),
        ("operator-manager", ["plan", "--filen"], ["--filename"]),
        ("operator-manager", ["simulate", "--operator", "f"], ["foo"]),
        ("petstore", ["se"], ["serve", "search"]),
        ("petstore", ["add", "Rex", "--birth"], ["--birthday"]),
        ("petstore", ["completion", "z"], ["zsh"]),
        ("petstore", ["add", "Rex", "--type", "d"], ["dog"]),
        ("petstore", ["search", "--type=c"], ["cat"]),
        ("devcluster", ["up", "--feature-gates", "="], ["ShardedListAndWatch=true"]),
        ("devcluster", ["--v"], ["--version"]),
        ("devcluster", ["up", "--data", "a", "--no-c"], ["--no-controllers"]),
        ("devcluster", ["up", "--data", ""], []),
        ("devcluster", ["up", "--data="], []),
        ("devcluster", ["up", "--memory"], []),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_bash_offers_commands_and_the_flags_of_each(program: str, words: list[str], offered: list[str]):
    assert completed(PROGRAMS[program], *words) == offered


def test_completion_works_for_the_library_program():
    assert completed(LIBRARY, "init", "--dom") == ["--domain"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_fish_offers_the_shells_as_words_and_flags_as_flags(program: str):
    lines = script("fish", *PROGRAMS[program]).splitlines()
    of_completion = [line for line in lines if "__fish_seen_subcommand_from completion'" in line]
    shells = ("bash", "zsh", "fish")
    assert [line.partition("' ")[2] for line in of_completion] == [f"-f -a {shell}" for shell in shells]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_completion_script_is_valid_in_zsh_and_fish(shell: str, program: str):
    text = script(shell, *PROGRAMS[program])
    assert program in text
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on the PATH")
    subprocess.run([shell, "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize("program", PROGRAMS)
def test_completion_refuses_an_unknown_shell(program: str):
    done = run(*PROGRAMS[program], "completion", "csh", environ=os.environ, timeout=GENEROUS)
    assert done.returncode == 2
    assert done.stderr == f"{program}: completion: one of bash, zsh, fish is expected, not 'csh'\n"
