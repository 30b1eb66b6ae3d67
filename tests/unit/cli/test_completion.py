"""What shells complete of our programs' commands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = {
    name: (str(Path(sys.executable).with_name(name)),)
    for name in ("operator-manager", "petstore", "devcluster")
}
LIBRARY = (sys.executable, "-m", "manager")
"""The program that begins projects, whose own programs complete as it does."""


def script(shell: str, *program: str) -> str:
    done = subprocess.run([*program, "completion", shell], capture_output=True, text=True, check=True)
    assert done.stderr == ""
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
        ("operator-manager", ["simulate", "--operator", "f"], ["foo"]),
        ("petstore", ["se"], ["serve", "search"]),
        ("petstore", ["add", "Rex", "--birth"], ["--birthday"]),
        ("petstore", ["completion", "z"], ["zsh"]),
        ("devcluster", ["--v"], ["--version"]),
        ("devcluster", ["up", "--data", "--no-c"], ["--no-controllers"]),
        ("devcluster", ["up", "--memory"], []),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_bash_offers_commands_and_the_flags_of_each(program: str, words: list[str], offered: list[str]):
    assert completed(PROGRAMS[program], *words) == offered


def test_a_project_of_ones_own_completes_as_well():
    assert completed(LIBRARY, "init", "--dom") == ["--domain"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_other_shells_read_it(shell: str, program: str):
    text = script(shell, *PROGRAMS[program])
    assert program in text
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on the PATH")
    subprocess.run([shell, "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize("program", PROGRAMS)
def test_another_shell_is_refused(program: str):
    done = subprocess.run(
        [*PROGRAMS[program], "completion", "csh"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == f"{program}: completion: one of bash, zsh, fish is expected, not 'csh'\n"
