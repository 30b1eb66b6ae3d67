"""Fixtures: the command line, and a new project that `init` creates."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from manager.cli import main
from tests.unit.cli.conftest import command, garbage_collector_as_it_was, no_settings_in_the_environment

__all__ = ["command", "garbage_collector_as_it_was", "no_settings_in_the_environment"]


@pytest.fixture(scope="session")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a project that `init` created; tests must not change it."""
    folder = tmp_path_factory.mktemp("scaffold") / "shop"
    argv = ("init", str(folder), "--domain=acme.test")
    assert main(argv, (), name="operator-manager", version="1") == 0
    return folder


@pytest.fixture
def project(new_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the new project, make the copy the current folder, and return the copy."""
    folder = tmp_path / "shop"
    shutil.copytree(new_project, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(folder)
    return folder


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_bytes().decode(errors="replace")
        for path in folder.rglob("*")
        if path.is_file() and not {"__pycache__", ".git"}.intersection(path.parts)
    }
