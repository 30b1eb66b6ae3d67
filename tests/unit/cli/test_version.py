from __future__ import annotations

import tomllib
from pathlib import Path

from manager.version import VERSION

ROOT = Path(__file__).parents[3]


def test_the_version_is_that_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
