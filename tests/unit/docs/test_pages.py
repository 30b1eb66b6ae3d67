"""Documentation pages: links resolve, named code exists, and the documented operator passes its checks."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
from functools import cache
from pathlib import Path

import pytest

from manager.util.version import VERSION
from tests.support import ROOT
from tests.support.control_plane_kinds import NEWEST, OLDEST
from tests.support.example_operator import WEBHOOKS_PAGE, ExampleOperator
from tests.support.fork_server import run
from tests.support.markdown import PAGES, Block, Page
from tests.support.terminal import ELSEWHERE, PROGRAMS, WALKED, WALKED_ALONE, commands
from tests.support.tools import output_of

OUTSIDE = re.compile(r"https?://|mailto:")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.path))
def test_page_links_point_to_existing_files_and_headings(page: Page):
    for link in page.links():
        if OUTSIDE.match(link):
            continue
        path, _, anchor = link.partition("#")
        target = Path(os.path.normpath(page.path.parent / path)) if path else page.path
        assert target.exists(), f"{page.path}: {link}"
        if anchor:
            assert anchor in Page(target).anchors(), f"{page.path}: {link}"


def test_readme_links_lead_to_every_documentation_page():
    found, left = set[Path](), [Path("README.md")]
    while left:
        path = left.pop()
        found.add(path)
        for link in Page(path).links():
            target = Path(os.path.normpath(path.parent / link.partition("#")[0]))
            if target.suffix == ".md" and target.is_file() and target not in found:
                left.append(target)
    assert {page.path for page in PAGES} - found == set()


# A changelog may name removed things.
PRESENT = [page for page in PAGES if page.path.name != "CHANGELOG.md"]
FOLDERS = {path.name for path in Path().iterdir() if path.is_dir() and not path.name.startswith(".")}
MADE = {"bundle", "dist", "build"}
"""Folders that builds create; the repository does not contain them."""
EXAMPLE = {"--greeting-separator"}
"""Flags that the example in writing-an-operator.md defines."""
PROGRAMS_WITH_FLAGS = (
    *(
        (PROGRAMS / "operator-manager", command)
        for command in ("run", "init", "model", "simulate", "explain", "console", "plan", "migrate-storage")
    ),
    *((PROGRAMS / "operator-manager", "create", what) for what in ("api", "webhook")),
    (PROGRAMS / "devcluster", "up"),
    *((PROGRAMS / "petstore", command) for command in ("serve", "add", "search", "delete")),
    (sys.executable, "-m", "examples.workloads"),
    *((sys.executable, "-m", module) for module in ("benchmarks", "benchmarks.live", "tests.mutants")),
)
every_page = pytest.mark.parametrize("page", PRESENT, ids=lambda page: str(page.path))


@pytest.fixture(scope="module")
def flags() -> set[str]:
    """Return the flags in the help of all programs of this repository."""
    helps = [help_of(*map(str, program)) for program in PROGRAMS_WITH_FLAGS]
    return {flag for text in helps for flag in re.findall(r"--[a-z][a-z-]+", text)} | {"--help"} | EXAMPLE


@every_page
def test_page_names_only_existing_flags_make_targets_modules_paths_and_tests(page: Page, flags: set[str]):
    words = list(page.words())
    # Targets of the Makefile of this repository or of a generated project.
    makefiles = (Path("Makefile"), Path("manager_tools/scaffold/project/Makefile"))
    targets = {
        each for file in makefiles for each in re.findall(r"^([a-z0-9-]+):", file.read_text(), re.MULTILINE)
    }
    made = {
        each for word in words if word.startswith("make ") for each in word.split()[1:] if "=" not in each
    }
    assert made <= targets
    named = [flag for word in words if word.startswith("--") for flag in re.findall(r"--[a-z][a-z-]+", word)]
    assert set(named) <= flags
    modules = [re.match(r"(?:\.venv/bin/)?python -m ([\w.]+)", word) for word in words]
    assert [each[1] for each in modules if each and importlib.util.find_spec(each[1]) is None] == []
    paths = {word for word in words if re.fullmatch(r"[\w.-]+/[\w./-]*", word)}
    ours = {path for path in paths if path.partition("/")[0] in FOLDERS - MADE}
    # A page may name a module without `.py`.
    assert [path for path in ours if not Path(path).exists() and not Path(f"{path}.py").exists()] == []
    tests = {word for word in words if re.match(r"(tests/\S+\.py)?::", word)}
    assert [word for word in tests if not is_test(*word.split("::"))] == []


def is_test(path: str, *names: str) -> bool:
    """Return whether the file defines all the named tests."""
    text = Path(path).read_text() if path else ""
    return all(re.search(rf"\b(def|class) {re.escape(name)}\b", text) for name in names)


@pytest.mark.parametrize("page", ["README.md", "docs/limits.md"])
def test_documented_kubernetes_versions_equal_the_tested_versions(page: str):
    assert f"for Kubernetes {OLDEST} to {NEWEST}." in Path(page).read_text()


LANGUAGES = {"sh", "console", "text", "python", "yaml", "mermaid"}
FOLLOWED = {*WALKED, *WALKED_ALONE, *ELSEWHERE}
OURS = (".venv/bin/operator-manager", ".venv/bin/devcluster")


def blocks(language: str) -> list[Block]:
    return [block for page in PAGES for block in page.blocks() if block.language == language]


DOCUMENTED = [command for block in blocks("sh") for command in commands(block)]


def test_code_blocks_of_pages_name_a_known_language():
    wrong = [block.where for page in PAGES for block in page.blocks() if block.language not in LANGUAGES]
    # sh has commands, console a terminal session with "$ " before each command, and text other output.
    assert wrong == [], f"after ``` one of these is expected: {', '.join(sorted(LANGUAGES))}"


def test_each_page_with_console_blocks_has_a_test_that_runs_them():
    pages = {str(block.page) for block in blocks("console")}
    assert pages <= FOLLOWED, "tests/support/terminal.py must name a test that runs each of these pages"
    assert [runner for runner in ELSEWHERE.values() if not is_test(*runner.split("::"))] == []


@cache
def help_of(*program: str) -> str:
    done = run(*program, "--help", environ=os.environ, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("text", sorted({each.text for each in DOCUMENTED if each.text.startswith(OURS)}))
def test_program_help_contains_the_documented_flags(text: str):
    program, *words = shlex.split(text.partition("|")[0])
    command = words[: 2 if words[0] == "create" else 1]
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    known = help_of(str(PROGRAMS / Path(program).name), *command)
    assert [flag for flag in flags if flag not in known] == []


@pytest.mark.parametrize("text", sorted({each.text for each in DOCUMENTED if each.text.startswith("make")}))
def test_makefile_has_the_documented_targets_and_variables(text: str):
    words = shlex.split(text)[1:]
    output_of("make", "--dry-run", *words)
    makefile = Path("Makefile").read_text()
    for variable in (word.partition("=")[0] for word in words if "=" in word):
        assert re.search(rf"^{variable} \?=", makefile, re.MULTILINE), variable


def test_documented_image_tags_equal_the_version_of_this_repository():
    text = " ".join(command.text for command in DOCUMENTED)
    assert set(re.findall(r"(?:operator-manager|petstore):(\d[\w.]*)", text)) == {VERSION}


NEW = ("apis/hello", "controllers/hello", "controllers/main.py", "tests/test_greeting.py")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ExampleOperator:
    more = Page(WEBHOOKS_PAGE).blocks() if request.param == "with webhooks" else ()
    return ExampleOperator(tmp_path_factory.mktemp("example"), more)


@pytest.mark.parametrize("example", ["without webhooks", "with webhooks"], indirect=True)
@pytest.mark.parametrize("check", [("check",), ("format", "--check")], ids=" ".join)
def test_ruff_finds_no_problems_in_the_documented_operator(example: ExampleOperator, check: tuple[str, ...]):
    flags = ("--no-cache", f"--config={ROOT / 'pyproject.toml'}")
    output_of(sys.executable, "-m", "ruff", *check, *flags, *NEW, cwd=example.folder)


# tests/integration/test_library.py runs the tests of the page without webhooks.
@pytest.mark.parametrize("example", ["with webhooks"], indirect=True)
def test_documented_operator_passes_its_own_tests(example: ExampleOperator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they need only pytest_asyncio
    options = ("-c", "/dev/null", f"--rootdir={example.folder}", "-o", "asyncio_mode=auto")
    plugin = ("-p", "pytest_asyncio.plugin")
    example.run("pytest", "-q", "--import-mode=importlib", *options, *plugin, "tests")
