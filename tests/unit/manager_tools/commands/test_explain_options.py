from __future__ import annotations

from typing import Any

import pytest

from manager.kube.errors import ConfigError
from manager_tools.commands.explain import ExplainArguments
from tests.unit.cli.conftest import Command

MANAGER = "Invalid value for '--manager': "


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("memcached rex", ExplainArguments("memcached", "rex", manager="http://127.0.0.1:8082")),
        (
            "-n zoo memcached/rex -o json --manager https://manager:8082/",
            ExplainArguments("memcached", "rex", "zoo", "json", manager="https://manager:8082"),
        ),
    ],
)
def test_explain_parses_kind_and_name_as_one_or_two_words_among_its_flags(
    monkeypatch: pytest.MonkeyPatch, command: Command, argv: str, expected: ExplainArguments
):
    seen: list[ExplainArguments] = []

    async def look(_: object, arguments: ExplainArguments, *__: object) -> dict[str, Any]:
        seen.append(arguments)
        raise ConfigError("that is enough")

    monkeypatch.setattr("manager_tools.commands.explain._explain", look)
    assert command("explain", *argv.split()).refusal(1) == "explain: that is enough"
    assert seen == [expected]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([], "KIND/NAME is expected, such as pet/rex"),
        (["pet"], "KIND/NAME is expected"),
        (["pet/"], "KIND/NAME is expected"),
        (["/rex"], "KIND/NAME is expected"),
        (["pet/rex/tom"], "KIND/NAME is expected"),
        (["pet", "rex", "tom"], "KIND/NAME is expected"),
        (["pet/rex", "-o", "yaml"], "Invalid value for '-o' / '--output': 'yaml' is not one of 'text', 'js"),
        (["pet/rex", "--manager=http://elsewhere:80"], f"{MANAGER}https://HOST:PORT, http://127.0.0.1:PORT"),
        (["pet/rex", "--manager=https://host/path"], f"{MANAGER}https://HOST:PORT"),
        (["pet/rex", "--manager=file:///etc/passwd"], f"{MANAGER}https://HOST:PORT"),
        (["pet/rex", "--manager-token-file=t"], "--manager-token-file needs an https URL in --manager"),
        (["pet/rex", "--namespaces=a"], "No such option '--namespaces'. (Did you mean one of: '--manager-na"),
    ],
)
def test_explain_error_names_the_invalid_argument(command: Command, argv: list[str], told: str):
    assert command("explain", *argv).refusal().startswith(f"explain: {told}")
