"""Command `create webhook` in a project whose files a user has edited."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Command
from tests.unit.manager_tools.conftest import files

WEBHOOK = ("create", "webhook", "--kind=Greeting")
OPERATOR = "controllers/hello/greeting.py"
EVERY = ("--defaulting", "--validation", "--conversion=v2")


@pytest.mark.parametrize(
    ("path", "there", "then", "expected"),
    [
        (
            OPERATOR,
            "Operator[Greeting]):",
            "Operator[Greeting]):\n    versions = tuple(found())\n",
            "the versions of GreetingOperator are not a tuple; write versions",
        ),
        (
            OPERATOR,
            "    async def reconcile",
            "    @webhook.validate_create\n    async def mine(self): ...\n\n    async def reconcile",
            "GreetingOperator.mine exists already",
        ),
        (
            OPERATOR,
            "    async def reconcile",
            "    def fill_in(self): ...\n\n    async def reconcile",
            "GreetingOperator.fill_in exists already",
        ),
        (
            OPERATOR,
            "from apis.hello.v1.greeting import",
            "from apis.models import",
            "Greeting is expected from apis/GROUP/VERSION/greeting.py",
        ),
        (OPERATOR, "class ", "class class ", "cannot be read: invalid syntax"),
        (
            "apis/hello/v1/greeting.py",
            'version="v1"',
            "version=VERSION",
            "copy it to apis/hello/v2 by hand, with that version",
        ),
        (
            "config/default/kustomization.yaml",
            "[WEBHOOK]",
            "",
            "has no [WEBHOOK]: put `- ../webhook` to its resources and",
        ),
    ],
)
def test_create_webhook_names_the_problem_of_an_edited_file_and_changes_no_file(
    command: Command, project: Path, path: str, there: str, then: str, expected: str
):
    text = (project / path).read_text()
    assert there in text
    (project / path).write_text(text.replace(there, then))
    before = files(project)
    said = command(*WEBHOOK, *EVERY).refusal().removeprefix(f"create webhook: {path}").lstrip(": ")
    assert said.startswith(expected)
    assert files(project) == before


def test_create_webhook_needs_the_group_flag_when_two_groups_have_the_kind(command: Command, project: Path):
    operator = project / "controllers" / "hello" / "greeting.py"
    other = project / "controllers" / "store" / "greeting.py"
    other.parent.mkdir()
    other.write_text(operator.read_text().replace("apis.hello", "apis.store"))
    assert (
        "are about Greeting; --group is needed: hello or store" in command(*WEBHOOK, "--validation").refusal()
    )
    assert command(*WEBHOOK, "--validation", "--group=hello").code == 0
