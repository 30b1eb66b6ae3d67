"""`init`: the bundled library wheel in a new project, and its installation by pip."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from manager_tools.scaffold import Names, ScaffoldError, renew_library
from manager_tools.scaffold.new_project import packed_library
from manager_tools.scaffold.writing import template
from tests.support import ROOT
from tests.support.makefile import make
from tests.support.wheels import LIBRARY, PINS, dependencies

WHEEL, CONTENT = packed_library()
LINE = f"file:{WHEEL}#sha256={hashlib.sha256(CONTENT).hexdigest()}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a project with a library wheel of an older version."""
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/operator_manager-0.0.1-py3-none-any.whl").write_text("old")
    (tmp_path / "wheels/other-1-py3-none-any.whl").write_text("other")
    requirements = "# mine\nfile:wheels/operator_manager-0.0.1-py3-none-any.whl#sha256=0\nhttpx==0.28.1\n"
    (tmp_path / "requirements.txt").write_text(requirements)
    return tmp_path


def test_renew_library_replaces_the_wheel_and_its_line_in_the_requirements(folder: Path):
    assert renew_library(folder) == WHEEL
    names = sorted(path.name for path in (folder / "wheels").iterdir())
    assert names == [WHEEL.name, "other-1-py3-none-any.whl"]
    assert (folder / "requirements.txt").read_text() == f"# mine\n{LINE}\nhttpx==0.28.1\n"
    renew_library(folder)
    assert (folder / WHEEL).read_bytes() == CONTENT, "the same library makes the same wheel"


@pytest.mark.parametrize("line", ["operator-manager==0.1.0", f"{LINE}\n{LINE}"])
def test_renew_library_refuses_requirements_without_exactly_one_wheel_line(folder: Path, line: str):
    (folder / "requirements.txt").write_text(f"{line}\n")
    with pytest.raises(ScaffoldError, match=r"requirements\.txt has \d lines for operator-manager"):
        renew_library(folder)
    assert not (folder / WHEEL).exists()


def install(folder: Path) -> subprocess.CompletedProcess[str]:
    flags = ("--no-index", "--no-deps", "--require-hashes", "--target=there", "-r", "requirements.txt")
    command = [sys.executable, "-m", "pip", "install", *flags]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_pip_installs_the_bundled_library_and_refuses_a_changed_wheel(folder: Path):
    renew_library(folder)
    (folder / "requirements.txt").write_text(f"{LINE}\n")
    done = install(folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "there/manager/py.typed").exists()
    assert not list((folder / "there").glob("controllers"))
    with zipfile.ZipFile(folder / WHEEL, "a") as wheel:
        wheel.writestr("manager/evil.py", "")
    done = install(folder)
    assert done.returncode != 0
    assert "Expected sha256" in done.stderr


def test_new_project_requirements_pin_every_package_with_the_same_hashes_as_this_repository():
    files = [
        template(Path(name)) for name in ("requirements.txt", "requirements-dev.txt", "requirements-bill.txt")
    ]
    ours, named = PINS.read_text(), []
    for text in files:
        entries = re.findall(r"^\S+==.*(?:\n .*)*\n", text, re.MULTILINE)
        assert [each for each in entries if each not in ours or "--hash=sha256:" not in each] == []
        named.append({each.partition("==")[0] for each in entries})
        assert "://" not in text
    project = tomllib.loads(template(Path("pyproject.in.toml")))
    extras = project["project"]["optional-dependencies"]
    extras["dev"] += project["build-system"]["requires"]
    assert named[0] == {canonicalize_name(each) for each in dependencies(LIBRARY)}
    for extra, found in zip(("dev", "bill"), named[1:], strict=True):
        assert {canonicalize_name(Requirement(each).name) for each in extras[extra]} <= found
        assert not found & named[0]


def uses(*workflows: str) -> set[str]:
    """Return the actions that the workflows use, with their commit hashes."""
    jobs = [job for text in workflows for job in yaml.safe_load(text)["jobs"].values()]
    return {step["uses"] for job in jobs for step in job["steps"] if "uses" in step}


def test_project_template_has_the_same_manager_yaml_and_pinned_ci_actions_as_this_repository():
    names = Names(program="operator-manager", domain="example.com")
    manager = Path("config/manager/manager.yaml")
    assert names.in_place(template(manager)) == (ROOT / manager).read_text()
    theirs = uses(*(template(Path(f"github/workflows/{name}.yaml")) for name in ("ci", "release")))
    assert theirs <= uses(*(path.read_text() for path in (ROOT / ".github/workflows").iterdir()))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("venv",), f'make: {WHEEL} is missing: "make library FROM=CHECKOUT" makes it'),
        (("venv", "PYTHON=false"), "make: false is not Python 3.11 or newer: set PYTHON to one"),
        (("library",), 'make: FROM has to name a checkout of the library in which "make venv" has run'),
    ],
)
def test_make_in_a_new_project_fails_and_names_a_missing_library_or_python(
    project: Path, arguments: tuple[str, ...], said: str
):
    (project / WHEEL).unlink()
    done = make(f"PYTHON={sys.executable}", *arguments, folder=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == said
    assert done.stderr.count("\n") == 2  # make adds a line
    assert not (project / ".venv").exists()
