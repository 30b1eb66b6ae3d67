"""Links lead somewhere, examples can be read, and what the prose names in code is there."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.control_plane_kinds import NEWEST, OLDEST
from tests.support.markdown import PAGES, Block, Page
from tests.support.terminal import PROGRAMS

OUTSIDE = re.compile(r"https?://|mailto:")
EXAMPLES = [block for page in PAGES for block in page.blocks() if block.language in {"python", "yaml"}]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.path))
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page: Page):
    for link in page.links():
        if OUTSIDE.match(link):
            continue
        path, _, anchor = link.partition("#")
        target = Path(os.path.normpath(page.path.parent / path)) if path else page.path
        assert target.exists(), f"{page.path}: {link}"
        if anchor:
            assert anchor in Page(target).anchors(), f"{page.path}: {link}"


def test_every_page_is_found_from_the_readme():
    found, left = set[Path](), [Path("README.md")]
    while left:
        path = left.pop()
        found.add(path)
        for link in Page(path).links():
            target = Path(os.path.normpath(path.parent / link.partition("#")[0]))
            if target.suffix == ".md" and target.is_file() and target not in found:
                left.append(target)
    assert {page.path for page in PAGES} - found == set()


def test_every_page_is_in_the_menu_of_the_site_once():
    # `make docs` finds what is not there too, but nobody calls it as often.
    menu = re.findall(r"^ *- (?:[^:\n]+: )?(\S+\.md)$", Path("mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(menu) == sorted(str(page.path) for page in PAGES)


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.where)
def test_every_example_is_of_the_language_it_says(block: Block):
    if block.language == "yaml":
        assert yaml.safe_load(block.text)
    else:
        compile(block.text, block.where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)


# What was, a changelog may go on naming.
PRESENT = [page for page in PAGES if page.path.name != "CHANGELOG.md"]
FOLDERS = {path.name for path in Path().iterdir() if path.is_dir() and not path.name.startswith(".")}
MADE = {"bundle", "dist", "build"}
"""Folders that are made, and not kept in the repository."""
EXAMPLE = {"--greeting-separator"}
"""Flags of the example in writing-an-operator.md."""
PROGRAMS_WITH_FLAGS = (
    *(
        (PROGRAMS / "operator-manager", command)
        for command in ("run", "init", "model", "simulate", "migrate-storage")
    ),
    *((PROGRAMS / "operator-manager", "create", what) for what in ("api", "webhook")),
    (PROGRAMS / "devcluster", "up"),
    *((PROGRAMS / "petstore", command) for command in ("serve", "add", "search", "delete")),
    (sys.executable, "-m", "examples.workloads"),
    (sys.executable, "-m", "benchmarks.micro"),
)

every_page = pytest.mark.parametrize("page", PRESENT, ids=lambda page: str(page.path))


@pytest.fixture(scope="module")
def flags() -> set[str]:
    """Those of all our programs."""
    helps = [
        subprocess.run([*program, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
        for program in PROGRAMS_WITH_FLAGS
    ]
    return {flag for text in helps for flag in re.findall(r"--[a-z][a-z-]+", text)} | {"--help"} | EXAMPLE


@every_page
def test_targets_of_make_are_there(page: Page):
    targets = set(re.findall(r"^([a-z-]+):", Path("Makefile").read_text(), re.MULTILINE))
    named = [word.split() for word in page.words() if word.startswith("make ")]
    assert {each for words in named for each in words[1:] if "=" not in each} <= targets


@every_page
def test_flags_are_known_to_one_of_our_programs(page: Page, flags: set[str]):
    named = [word for word in page.words() if word.startswith("--")]
    assert {flag for word in named for flag in re.findall(r"--[a-z][a-z-]+", word)} <= flags


@every_page
def test_modules_to_run_are_there(page: Page):
    found = (re.match(r"(?:\.venv/bin/)?python -m ([\w.]+)", word) for word in page.words())
    named = {match[1] for match in found if match}
    assert [name for name in named if importlib.util.find_spec(name) is None] == []


@every_page
def test_files_and_folders_are_there(page: Page):
    named = {word for word in page.words() if re.fullmatch(r"[\w.-]+/[\w./-]*", word)}
    ours = {word for word in named if word.partition("/")[0] in FOLDERS - MADE}
    # A module may be named without its ending.
    assert [word for word in ours if not Path(word).exists() and not Path(f"{word}.py").exists()] == []


@every_page
def test_tests_are_there(page: Page):
    named = {word for word in page.words() if re.match(r"(tests/\S+\.py)?::", word)}
    assert [word for word in named if not is_test(*word.split("::"))] == []


def is_test(path: str, *names: str) -> bool:
    """Whether a file defines what is named of it."""
    text = Path(path).read_text() if path else ""
    return all(re.search(rf"\b(def|class) {re.escape(name)}\b", text) for name in names)


@pytest.mark.parametrize("page", ["README.md", "docs/limits.md"])
def test_the_supported_versions_of_kubernetes_are_those_that_are_tested(page: str):
    assert f"for Kubernetes {OLDEST} to {NEWEST}." in Path(page).read_text()
