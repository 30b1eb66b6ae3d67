"""Public names of the library in docs/architecture.md: they exist, and example code uses no others."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import manager
from tests.support import LIBRARY_PACKAGES
from tests.support.markdown import PAGES

PAGE = Path("docs/architecture.md")
_, _, SECTION = PAGE.read_text().partition("### What of the library is public\n")
ROWS = re.findall(r"^\| (`.+?) \|", SECTION.partition("\n## ")[0], re.MULTILINE)
PUBLIC = [name for row in ROWS for name in re.findall(r"`([\w.]+)`", row)]
TEMPLATE = "manager_tools/scaffold/project"
SOURCES = [
    path
    for folder in ("apis", "controllers", "examples", TEMPLATE)
    for path in sorted(Path(folder).rglob("*.py"))
]


def names_of(module: str) -> set[str]:
    found = importlib.import_module(module)
    return set(getattr(found, "__all__", [name for name in dir(found) if not name.startswith("_")]))


@pytest.mark.parametrize("name", manager.__all__)
def test_manager_imports_each_public_name_at_its_first_use(monkeypatch: pytest.MonkeyPatch, name: str):
    wanted = getattr(manager, name)
    monkeypatch.delattr(manager, name)
    assert getattr(manager, name) is wanted


def public_names(module: str) -> set[str]:
    """Return the public names of the module, or of its nearest parent in PUBLIC, or an empty set."""
    while module not in PUBLIC:
        module = module.rpartition(".")[0]
        if not module:
            return set()
    return names_of(module)


def private_imports(code: str) -> set[str]:
    """Return the non-public names of the library that the code imports."""
    imported = set[str]()
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
    for node in ast.walk(compile(code, "", "exec", flags=flags)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            imported |= {prefix + each.name for each in node.names}
    return {name for name in imported if name.partition(".")[0] in LIBRARY_PACKAGES and not is_public(name)}


def is_public(name: str) -> bool:
    module, _, last = name.rpartition(".")
    return name in PUBLIC or last in public_names(module)


@pytest.mark.parametrize("module", PUBLIC)
def test_public_module_defines_every_name_in_its_all_list(module: str):
    found = importlib.import_module(module)
    assert [name for name in names_of(module) if not hasattr(found, name)] == []


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_operator_and_example_sources_import_only_public_names_of_the_library(path: Path):
    # A generated project imports its modules without the prefix of the template's folder.
    written = path.read_text().replace(f"{TEMPLATE.replace('/', '.')}.", "")
    assert private_imports(written) == set()


def test_python_blocks_of_the_pages_import_only_public_names_of_the_library():
    private = {
        f"{block.where}: {name}"
        for page in PAGES
        for block in page.blocks()
        if block.language == "python"
        for name in private_imports(block.text)
    }
    assert private == set()
