"""What `make venv` and `make tools` install, and when they do it again; a script stands in for pip."""

from __future__ import annotations

import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from tests.support.dockerfile import ROOT

PARTS = (
    "What the programs need",
    "What builds them",
    "What the demo adds",
    "What lists them",
    "What development adds",
    "What the documentation as a site adds",
)
PROJECT = "This project"
DEMO = [PARTS[0], PARTS[1], PROJECT, PARTS[2]]
# Says what it is asked for, and does what the test wants of it.
PIP = """
import pathlib, sys
names = [line.split("==")[0] for line in sys.stdin if "==" in line]
print(*[f"Collecting {name}" for name in names], sep="\\n")
fails = pathlib.Path(__file__).parent / "fails"
if fails.exists() and (not fails.read_text() or fails.read_text() in names):
    sys.exit("ERROR: no such hash")
"""


class Checkout:
    """A project with one package in each part of its pins, and an environment with that pip."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/fill-venv", folder / "scripts")
        (folder / "controllers").mkdir()
        for project in ("pyproject.toml", "controllers/pyproject.toml"):
            shutil.copy(ROOT / project, folder / project)
        self.pins = folder / "constraints.txt"
        self.pins.write_text(
            "".join(f"\n# {part}.\none-of-{number}==1\n" for number, part in enumerate(PARTS))
        )
        venv.create(folder / ".venv", symlinks=True)
        (packages,) = folder.glob(".venv/lib/python*/site-packages")
        self.pip = packages / "pip"
        self.pip.mkdir()
        (self.pip / "__main__.py").write_text(PIP)

    def fill(self, what: str) -> subprocess.CompletedProcess[str]:
        command = [self.folder / ".venv/bin/python", self.folder / "scripts/fill-venv", what]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def filled(self, what: str) -> list[str]:
        """What it installs now."""
        done = self.fill(what)
        assert done.returncode == 0, done.stderr
        return [line.partition(":")[0] for line in done.stdout.splitlines()]


@pytest.fixture
def checkout(tmp_path: Path):
    return Checkout(tmp_path)


def test_the_demo_needs_less_than_the_tools_and_these_less_than_the_site(checkout: Checkout):
    assert checkout.filled("demo") == DEMO
    assert checkout.filled("tools") == list(PARTS[3:5])
    assert checkout.filled("site") == [PARTS[5]]
    assert checkout.filled("demo") == checkout.filled("tools") == checkout.filled("site") == []


def test_every_heading_of_the_pins_is_a_part():
    headings = [
        line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("# What")
    ]
    assert headings == [f"# {part}." for part in PARTS]


def test_a_part_whose_pins_have_changed_is_installed_alone(checkout: Checkout):
    checkout.fill("tools")
    checkout.pins.write_text(checkout.pins.read_text().replace("one-of-2==1", "one-of-2==2"))
    assert checkout.filled("tools") == [PARTS[2]]


@pytest.mark.parametrize(
    ("old", "new", "installed"),
    [
        ("line-length = 110", "line-length = 100", []),
        ('version = "0.1.0"', 'version = "0.2.0"', [PROJECT]),
        ('devcluster = "devcluster.cli:main"', 'other = "devcluster.cli:main"', [PROJECT]),
    ],
    ids=["a tool's setting", "the version", "a program"],
)
def test_the_project_is_installed_again_for_what_an_installation_depends_on(
    old: str, new: str, installed: list[str], checkout: Checkout
):
    checkout.fill("demo")
    project = checkout.folder / "pyproject.toml"
    assert old in project.read_text()
    project.write_text(project.read_text().replace(old, new))
    assert checkout.filled("demo") == installed


def test_what_pip_says_when_it_fails_is_shown_and_the_part_is_tried_again(checkout: Checkout):
    failing = checkout.pip / "fails"
    failing.touch()
    done = checkout.fill("demo")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [f"{PARTS[0]}: 1 package"]
    assert done.stderr.splitlines() == [
        "make venv: pip failed to install this:",
        "Collecting one-of-0",
        "ERROR: no such hash",
    ]
    failing.unlink()
    assert checkout.filled("demo") == DEMO


def test_a_part_is_shared_out_to_two_pips_of_which_one_may_fail(checkout: Checkout):
    packages = "".join(f"{name}==1 \\\n    --hash=sha256:0\n    # via {name}\n" for name in "abc")
    checkout.pins.write_text(checkout.pins.read_text().replace("one-of-0==1\n", packages))
    failing = checkout.pip / "fails"
    for fails, asked in (("b", ["Collecting b"]), ("c", ["Collecting a", "Collecting c"])):
        failing.write_text(fails)
        done = checkout.fill("demo")
        assert done.returncode == 1
        assert done.stdout.splitlines() == [f"{PARTS[0]}: 3 packages"]
        assert done.stderr.splitlines()[1:] == [*asked, "ERROR: no such hash"]
    failing.unlink()
    assert checkout.filled("demo") == DEMO
