"""Packaging: folders are packages, pins are complete, licences are allowed, and the interpreter fits."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import ROOT
from tests.support.wheels import LIBRARY, PINS, PROJECTS, dependencies, pinned

PROJECT = PROJECTS[LIBRARY]
INSTALLED = {
    name: project["tool"]["setuptools"]["packages"]["find"]["include"] for name, project in PROJECTS.items()
}


@pytest.mark.parametrize(
    "package", [pattern.removesuffix("*") for patterns in INSTALLED.values() for pattern in patterns]
)
def test_folders_with_modules_are_packages(package: str):
    folders = {module.parent for module in (ROOT / package).rglob("*.py")}
    assert folders
    # Without this file a folder is missing in what is installed, and no layer is checked in it.
    assert [
        str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()
    ] == []


def test_pins_have_version_and_hashes_and_no_address():
    for part in pinned():
        for name, entry in part.items():
            assert re.fullmatch(
                r"[a-z0-9-]+==[^ ;]+(?: ; [^\\]+)? \\\n(?: {4}--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", entry
            ), name
    assert "://" not in PINS.read_text()
    assert not re.search(r"^\s*-(?!-hash)", PINS.read_text(), re.MULTILINE)


def test_first_part_of_pins_matches_runtime_dependencies():
    pins = {name: entry.split()[0].partition("==")[2] for part in pinned() for name, entry in part.items()}
    if any(pins.get(name, found.version) != found.version for name, found in dependencies().items()):
        pytest.skip("this environment has other versions than the pinned ones (make test VERSIONS=)")
    assert pinned()[0].keys() == dependencies().keys()


@pytest.mark.parametrize("group", PROJECT["dependency-groups"])
def test_pins_cover_every_requirement_of_a_dependency_group(group: str):
    names = {name for part in pinned() for name in part}
    asked = [each for each in PROJECT["dependency-groups"][group] if isinstance(each, str)]
    assert {canonicalize_name(Requirement(each).name) for each in asked} <= names
    assert {Requirement(each).name for each in PROJECT["build-system"]["requires"]} <= names


@pytest.mark.parametrize(
    "licence", ["GPL-3.0-only", "GPL-3.0-only AND MIT", "Of limited use", "Miscellaneous", None]
)
def test_licence_check_fails_for_licence_that_is_not_listed(tmp_path: Path, licence: str | None):
    information = tmp_path / "other-1.dist-info" / "METADATA"
    information.parent.mkdir()
    said = "" if licence is None else f"License-Expression: {licence}\n"
    information.write_text(f"Metadata-Version: 2.4\nName: other\nVersion: 1\n{said}")
    command = Path(sys.executable).with_name("pip-licenses")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    checked = subprocess.run([command], capture_output=True, text=True, check=False, env=environ, cwd=ROOT)
    assert checked.returncode == 1
    assert "not in allow-only licenses was found for package other:1" in checked.stderr


Pin = Callable[..., tuple[int, str, str]]
BASE = "python:3.13.16-slim-trixie"
OLD, NEW = f"sha256:{'0' * 64}", f"sha256:{'1' * 64}"


@pytest.fixture
def pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """scripts/pin on a Dockerfile of its own, with what crane says."""

    def run(crane: str, base: str = f"ARG PYTHON_IMAGE={BASE}@{OLD}\n") -> tuple[int, str, str]:
        program = tmp_path / "crane"
        program.write_text(f"#!/bin/sh\n{crane}\n")
        program.chmod(0o755)
        dockerfile = tmp_path / "Dockerfile"
        dockerfile.write_text(f"{base}FROM ${{PYTHON_IMAGE}} AS build\n")
        main = runpy.run_path(str(ROOT / "scripts" / "pin"))["main"]
        main.__globals__["DOCKERFILE"] = dockerfile
        monkeypatch.setenv("PATH", f"{tmp_path}:/bin/none")
        monkeypatch.setattr(sys, "argv", ["pin", "image"])
        code = main()
        printed = capfd.readouterr()
        return code, dockerfile.read_text(), printed.out + printed.err

    return run


def test_pin_writes_the_digest_that_the_registry_has_for_the_tag(pin: Pin):
    code, dockerfile, said = pin(f'[ "$*" = "digest {BASE}" ] && echo {NEW}')
    assert code == 0
    assert dockerfile.startswith(f"ARG PYTHON_IMAGE={BASE}@{NEW}\n")
    assert NEW in said


def test_pin_replaces_the_line_that_says_why_there_is_no_digest(pin: Pin):
    without = f"# A comment.\n# No digest: nobody could be asked.\nARG PYTHON_IMAGE={BASE}\n"
    code, dockerfile, _ = pin(f"echo {NEW}", without)
    assert code == 0
    assert dockerfile.startswith(f"# A comment.\nARG PYTHON_IMAGE={BASE}@{NEW}\nFROM")


def test_pin_leaves_the_digest_when_no_registry_answers(pin: Pin):
    code, dockerfile, said = pin("echo no route to host >&2; exit 1")
    assert code == 1
    assert f"@{OLD}" in dockerfile
    assert "left as it is" in said
    assert "crane: no route to host" in said


def test_make_venv_fails_when_requested_interpreter_is_too_old(tmp_path: Path):
    made = subprocess.run(
        [ROOT / "scripts" / "make-venv", tmp_path / "venv", "demo"],
        env={**os.environ, "PYTHON": "python2.7"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 1
    assert made.stderr == "make venv: PYTHON=python2.7 is not Python 3.11 or newer\n"


def test_make_venv_names_debian_package_when_no_environment_can_be_made(tmp_path: Path):
    calls = tmp_path / "calls"
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\necho "$*" >>{calls}\n[ "$1" = -c ]\n')
    python.chmod(0o755)
    made = subprocess.run(
        [ROOT / "scripts" / "make-venv", tmp_path / "venv", "demo"],
        env={**os.environ, "PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 1
    assert made.stderr.endswith("(Debian: apt install python3-venv)\n")
    asked = calls.read_text()
    assert " pip " not in asked
    # Else it fetches newer wheels of pip by itself, later and in the background, whatever their hashes.
    assert "-m virtualenv --quiet --no-download --no-periodic-update " in asked


@pytest.mark.long
def test_make_venv_copies_pip_of_python_when_ensurepip_is_missing(tmp_path: Path):
    python = tmp_path / "python3"
    refused = 'case "$2 $3" in "venv --without-pip") ;; venv*|virtualenv*) exit 1 ;; esac'
    python.write_text(f'#!/bin/sh\n{refused}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    subprocess.run(
        [ROOT / "scripts" / "make-venv", tmp_path / "venv", "demo"],
        env={**os.environ, "PYTHON": str(python), "PIP_NO_INDEX": "1"},  # then nothing is installed in it
        capture_output=True,
        check=False,
    )
    command = [tmp_path / "venv" / "bin" / "python", "-m", "pip", "--version"]
    assert str(tmp_path) in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_actions_are_pinned_to_commits():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    used = re.findall(r"uses: (\S+)", workflow)
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", each)] == []
