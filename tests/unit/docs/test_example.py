"""The operator of docs/writing-an-operator.md, and what docs/webhooks.md adds, is as tidy as ours are."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.dockerfile import ROOT
from tests.support.example_operator import PACKAGE, WEBHOOKS_PAGE, ExampleOperator
from tests.support.markdown import Page

if TYPE_CHECKING:
    from pathlib import Path


NEW = ("apis/hello", "controllers/hello", "controllers/main.py", "tests/test_greeting.py")


@pytest.fixture(scope="module", params=[[], [Page(WEBHOOKS_PAGE)]], ids=["alone", "with webhooks"])
def example(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ExampleOperator:
    more = [block for page in request.param for block in page.blocks()]
    return ExampleOperator(tmp_path_factory.mktemp("example"), more)


@pytest.mark.parametrize("check", [("check",), ("format", "--check")], ids=" ".join)
def test_the_linter_finds_nothing_to_complain_about(example: ExampleOperator, check: tuple[str, ...]):
    done = ruff(example.folder, *check)
    assert done.returncode == 0, done.stdout + done.stderr


def ruff(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ruff", *arguments, "--no-cache", f"--config={ROOT / 'pyproject.toml'}"]
    return subprocess.run([*command, *NEW], cwd=folder, capture_output=True, text=True, check=False)


def test_the_tests_of_the_pages_pass(example: ExampleOperator):
    options = (
        "-c",
        "/dev/null",
        f"--rootdir={example.folder}",
        "-o",
        "asyncio_mode=auto",
        "-p",
        "no:randomly",
    )
    example.run("pytest", "-q", "--import-mode=importlib", *options, "tests")


def test_the_page_says_what_a_new_folder_needs():
    assert f"`{PACKAGE.strip()}`" in WEBHOOKS_PAGE.read_text()
