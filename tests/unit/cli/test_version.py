from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from manager.version import VERSION

ROOT = Path(__file__).parents[3]


def test_the_version_is_that_of_the_library_and_of_the_application_which_needs_just_this_one():
    library, application = [
        tomllib.loads((ROOT / path).read_text())["project"]
        for path in ("pyproject.toml", "controllers/pyproject.toml")
    ]
    assert library["version"] == application["version"] == VERSION
    assert f"{library['name']}=={VERSION}" in application["dependencies"]


@pytest.mark.parametrize("argument", ["version", "--version", "--help"])
def test_what_needs_no_operator_imports_none(argument: str):
    code = (
        f"import sys; sys.argv = ['operator-manager', {argument!r}]\n"
        "from controllers.program import main\n"
        "assert main() == 0\n"
        "heavy = {'controllers.main', 'manager.operator', 'manager.kube', 'pydantic', 'aiohttp', 'grpc'}\n"
        "assert not heavy & sys.modules.keys()"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
