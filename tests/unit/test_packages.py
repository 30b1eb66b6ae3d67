"""That everything is where the tools look that install, type-check and lint it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALLED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]


@pytest.mark.parametrize("package", [pattern.removesuffix("*") for pattern in INSTALLED["include"]])
def test_every_folder_of_modules_is_a_package(package: str):
    folders = {module.parent for module in (ROOT / package).rglob("*.py")}
    assert folders
    # Without this file a folder is missing in what is installed, and no layer is checked in it.
    assert [
        str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()
    ] == []
