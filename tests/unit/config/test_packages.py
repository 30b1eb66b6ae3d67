"""Packaging: folders are packages, versions are equal, pins are complete, and licences are allowed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from manager.util.version import VERSION
from tests.support import ROOT
from tests.support.scripts import script
from tests.support.wheels import LIBRARY, PINS, PROJECTS, dependencies, pinned

PROJECT = PROJECTS[LIBRARY]
INSTALLED = {
    name: project["tool"]["setuptools"]["packages"]["find"]["include"] for name, project in PROJECTS.items()
}


@pytest.mark.parametrize(
    "package", [pattern.removesuffix("*") for patterns in INSTALLED.values() for pattern in patterns]
)
def test_installed_folders_with_python_modules_have_an_init_file(package: str):
    folders = {module.parent for module in (ROOT / package).rglob("*.py")}
    assert folders
    # Without this file the folder is not installed, and import-linter ignores it.
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_application_and_library_have_the_same_version():
    library, application = (project["project"] for project in PROJECTS.values())
    assert library["version"] == application["version"] == VERSION
    assert f"{LIBRARY}=={VERSION}" in application["dependencies"]


def test_pinned_requirements_have_a_version_and_hashes_and_no_url():
    for part in pinned():
        for name, entry in part.items():
            assert re.fullmatch(
                r"[a-z0-9-]+==[^ ;]+(?: ; [^\\]+)? \\\n(?: {4}--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", entry
            ), name
    assert "://" not in PINS.read_text()
    assert not re.search(r"^\s*-(?!-hash)", PINS.read_text(), re.MULTILINE)


def test_first_section_of_pinned_requirements_matches_the_runtime_dependencies():
    pins = {name: entry.split()[0].partition("==")[2] for part in pinned() for name, entry in part.items()}
    if any(pins.get(name, found.version) != found.version for name, found in dependencies().items()):
        pytest.skip("this environment has other versions than the pinned ones (make test VERSIONS=)")
    assert pinned()[0].keys() == dependencies().keys()


def test_pin_script_changes_no_file_when_a_resolution_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pin = script("pin")
    project, pins = tmp_path / "project", tmp_path / "constraints.txt"
    shutil.copytree(pin.PROJECT, project, ignore=lambda _, names: [each for each in names if "." not in each])
    pins.write_text("old\n")
    before = {path: path.read_bytes() for path in (pins, *project.iterdir())}

    def compiled(needed: list[str], *more: str, prefer: str) -> dict[str, str]:
        if any(each.startswith("cyclonedx") for each in needed):
            raise pin.CannotRenew("no network")
        return {"a": "a==1\n"}

    monkeypatch.setattr(pin, "compiled", compiled)
    monkeypatch.setattr(pin, "PINS", pins)
    monkeypatch.setattr(pin, "PROJECT", project)
    with pytest.raises(pin.CannotRenew):
        pin.renew_packages(keep=True)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    "licence", ["GPL-3.0-only", "GPL-3.0-only AND MIT", "Of limited use", "Miscellaneous", None]
)
def test_licence_check_fails_for_a_package_with_an_unlisted_licence(tmp_path: Path, licence: str | None):
    information = tmp_path / "other-1.dist-info" / "METADATA"
    information.parent.mkdir()
    said = "" if licence is None else f"License-Expression: {licence}\n"
    information.write_text(f"Metadata-Version: 2.4\nName: other\nVersion: 1\n{said}")
    command = Path(sys.executable).with_name("pip-licenses")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    checked = subprocess.run([command], capture_output=True, text=True, check=False, env=environ, cwd=ROOT)
    assert checked.returncode == 1
    assert "not in allow-only licenses was found for package other:1" in checked.stderr
