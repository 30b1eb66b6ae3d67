"""No command is in the documentation that nobody has tried, or of which it is not said why."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from manager.version import VERSION
from tests.support.documented_commands import ELSEWHERE, NOT_RUN, RUN_BY, WALKED, WALKED_ALONE
from tests.support.markdown import PAGES, Block
from tests.support.terminal import PROGRAMS
from tests.support.transcript import commands

LANGUAGES = {"sh", "console", "text", "python", "yaml", "mermaid"}
FOLLOWED = {*WALKED, *WALKED_ALONE, *ELSEWHERE}
LISTED = list(itertools.chain(*RUN_BY.values(), *NOT_RUN.values()))
OURS = (".venv/bin/operator-manager", ".venv/bin/devcluster")


def blocks(language: str) -> list[Block]:
    return [block for page in PAGES for block in page.blocks() if block.language == language]


DOCUMENTED = [command for block in blocks("sh") for command in commands(block)]


def test_every_block_says_what_it_is():
    wrong = [block.where for page in PAGES for block in page.blocks() if block.language not in LANGUAGES]
    # Commands are sh; console is what a terminal shows, with "$ " before each command; all else is text.
    assert wrong == [], f"after ``` one of these is expected: {', '.join(sorted(LANGUAGES))}"


def test_every_command_is_tried_by_somebody_or_it_is_said_why_not():
    unknown = [f"{command.where}: {command.text}" for command in DOCUMENTED if command.text not in LISTED]
    assert unknown == [], "tests/support/documented_commands.py has to say who runs these"


def test_every_console_is_followed_by_a_test():
    pages = {str(block.page) for block in blocks("console")}
    assert pages <= FOLLOWED, "tests/support/documented_commands.py has to say who follows these"


def test_what_is_listed_is_in_a_page_once_in_the_list():
    # Some stand in the prose; of these, not all are listed.
    documented = {command.text for command in DOCUMENTED}.union(*(page.words() for page in PAGES))
    assert [text for text in LISTED if text not in documented] == []
    assert [text for text, count in Counter(LISTED).items() if count > 1] == []


@pytest.mark.parametrize("runner", [*RUN_BY, *ELSEWHERE.values()])
def test_whoever_is_said_to_run_them_is_there(runner: str):
    path, _, test = runner.partition("::")
    assert Path(path).is_file()
    assert not test or f"def {test}(" in Path(path).read_text()


@cache
def help_of(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [program, *arguments, "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


@pytest.mark.parametrize("text", sorted({each.text for each in DOCUMENTED if each.text.startswith(OURS)}))
def test_our_programs_know_the_flags(text: str):
    program, *words = shlex.split(text.partition("|")[0])
    command = words[: 2 if words[0] == "create" else 1]
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    known = help_of(str(PROGRAMS / Path(program).name), *command)
    assert [flag for flag in flags if flag not in known] == []


@pytest.mark.parametrize("text", sorted({each.text for each in DOCUMENTED if each.text.startswith("make")}))
def test_make_knows_the_targets_and_variables(text: str):
    words = shlex.split(text)[1:]
    done = subprocess.run(
        ["make", "--dry-run", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    makefile = Path("Makefile").read_text()
    for variable in (word.partition("=")[0] for word in words if "=" in word):
        assert re.search(rf"^{variable} \?=", makefile, re.MULTILINE), variable


def test_images_have_the_version_of_this_tree():
    tags = re.findall(r"(?:operator-manager|petstore):(\d[\w.]*)", " ".join(LISTED))
    assert set(tags) == {VERSION}
