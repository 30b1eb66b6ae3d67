from __future__ import annotations

import tomllib
from pathlib import Path

from manager.version import VERSION

ROOT = Path(__file__).parents[3]


def test_the_version_is_that_of_the_library_and_of_the_application_which_needs_just_this_one():
    library, application = [
        tomllib.loads((ROOT / path).read_text())["project"]
        for path in ("pyproject.toml", "controllers/pyproject.toml")
    ]
    assert library["version"] == application["version"] == VERSION
    assert f"{library['name']}=={VERSION}" in application["dependencies"]
