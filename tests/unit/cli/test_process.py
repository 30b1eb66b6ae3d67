"""Behaviour that needs a new process: exit codes, and modules that must not be imported."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from manager.cli import main
from manager.util.version import VERSION
from tests.support import ROOT
from tests.support.fork_server import run, start
from tests.support.manager_process import run_once

GENEROUS = 30.0
PROGRAMS = {
    name: (str(Path(sys.executable).with_name(name)),)
    for name in ("operator-manager", "petstore", "devcluster")
}


def interpreted(code: str, stderr: int | IO[bytes] = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter."""
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
        (("run", "--no-such-flag"), 2, "No such option '--no-such-flag'."),
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
    """Return the modules that `run` imports, and the files whose source it reads."""
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
    assert not {"manager.console", "manager.diagnose", "petstore.client"} & imported
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
def test_program_keeps_its_exit_code_when_standard_files_are_closed(
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
    assert (ended.returncode, ended.stderr) == (code, "")


STUCK = """
import asyncio, time
from manager.telemetry.logs import configured
from manager.telemetry.watchdog import Watchdog

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


def completed(program: str, shell: str, *words: str) -> list[str]:
    """Return what the program offers a shell for the last word, by the protocol of click."""
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    typed = words[-1] if shell == "fish" else str(len(words))
    asked = {variable: f"{shell}_complete", "COMP_WORDS": " ".join((program, *words)), "COMP_CWORD": typed}
    done = run(*PROGRAMS[program], environ=os.environ | asked, timeout=GENEROUS)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("program", "words", "offered"),
    [
        ("operator-manager", ["ru"], ["plain,run"]),
        ("operator-manager", ["run", "--leader-elect-l"], ["plain,--leader-elect-lease-duration"]),
        (
            "operator-manager",
            ["run", "--metrics-secure", "--petstore-c"],
            ["plain,--petstore-check-interval"],
        ),
        ("operator-manager", ["create", "a"], ["plain,api"]),
        ("operator-manager", ["create", "api", "--owns", "Con"], ["plain,ConfigMap"]),
        ("operator-manager", ["create", "webhook", "--kind", "P"], ["plain,Pet"]),
        ("operator-manager", ["run", "--controllers", "me"], ["plain,memcached"]),
        ("operator-manager", ["run", "--controllers", "=", "me"], ["plain,memcached"]),
        ("operator-manager", ["run", "--log-format", "="], ["plain,auto", "plain,json", "plain,console"]),
        ("operator-manager", ["run", "--log-format=j"], ["plain,json"]),
        ("operator-manager", ["run", "--config", "=", "x"], ["file,x"]),
        ("operator-manager", ["run", "--metrics-cert-path", "x"], ["dir,x"]),
        ("operator-manager", ["run", "--leader-elect", "--shar"], ["plain,--shards"]),
        ("operator-manager", ["plan", "-f", "x"], ["file,x"]),
        ("operator-manager", ["simulate", "--operator", "f"], ["plain,foo"]),
        ("operator-manager", ["completion", "z"], ["plain,zsh"]),
        ("petstore", ["se"], ["plain,search", "plain,serve"]),
        ("petstore", ["add", "Rex", "--type", "d"], ["plain,dog"]),
        ("petstore", ["search", "--type=c"], ["plain,cat"]),
        ("petstore", ["serve", "--data", "x"], ["file,x"]),
        ("devcluster", ["up", "--feature-gates", "="], ["plain,ShardedListAndWatch=true"]),
        ("devcluster", ["--v"], ["plain,--version"]),
        ("devcluster", ["up", "--data", "x"], ["file,x"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_program_offers_commands_flags_and_their_values_to_bash(
    program: str, words: list[str], offered: list[str]
):
    assert completed(program, "bash", *words) == offered


def test_completion_is_silent_when_the_operators_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("_PROGRAM_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "program run --")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert main([], [SimpleNamespace(name="lost")], name="program", version="1") == 1  # type: ignore[list-item]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_shell_completes_a_command_with_the_script_of_completion(shell: str, program: str, tmp_path: Path):
    """In the shell itself, where the machine has it: the script is valid and calls the program."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on the PATH")
    done = run(*PROGRAMS[program], "completion", shell, environ=os.environ, timeout=GENEROUS)
    assert (done.returncode, done.stderr) == (0, "")
    script = tmp_path / "script"
    script.write_text(done.stdout)
    name = program.replace("-", "_")
    asked = {
        "bash": f"source {script}; COMP_WORDS=({program} comp); COMP_CWORD=1; _{name}_completion {program}; "
        'printf "%s\\n" "${COMPREPLY[@]}"',
        # Only an interactive zsh completes, so the answer to its completion system is printed instead.
        "zsh": f"compdef() {{ :; }}; compadd() {{ print -l -- $completions; }}; "
        "_describe() { print -l -- $completions_with_descriptions; }; "
        f"source {script}; words=({program} comp); CURRENT=2; _{name}_completion",
        "fish": f'source {script}; complete --do-complete "{program} comp"',
    }
    path = f"{Path(PROGRAMS[program][0]).parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        [shell, "-c", asked[shell]],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    )
    assert ended.stderr == ""
    [offered] = ended.stdout.splitlines()
    assert offered.startswith("completion")


@pytest.mark.parametrize("program", PROGRAMS)
def test_completion_refuses_an_unknown_shell(program: str):
    done = run(*PROGRAMS[program], "completion", "csh", environ=os.environ, timeout=GENEROUS)
    assert done.returncode == 2
    assert "'csh' is not one of 'bash', 'zsh', 'fish'." in done.stderr
