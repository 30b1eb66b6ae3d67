from __future__ import annotations

from typing import Any

import click
import pytest

from apis.petstore.v1beta1.pet import Pet
from controllers.main import OPERATORS
from manager.kube.errors import ConfigError
from manager_tools.commands.cluster import kind_named
from manager_tools.commands.explain import ExplainArguments
from tests.unit.cli.conftest import Command

MANAGER = "Invalid value for '--manager': "


def asked(monkeypatch: pytest.MonkeyPatch, command: Command, *argv: str) -> ExplainArguments:
    """Return the options that `explain` reads from these arguments."""
    seen: list[ExplainArguments] = []

    async def look(_: object, arguments: ExplainArguments, *__: object) -> dict[str, Any]:
        seen.append(arguments)
        raise ConfigError("that is enough")

    monkeypatch.setattr("manager_tools.commands.explain._explain", look)
    assert command("explain", *argv).refusal(1) == "explain: that is enough"
    return seen[0]


def test_explain_uses_defaults_when_no_flag_is_given(monkeypatch: pytest.MonkeyPatch, command: Command):
    defaults = ExplainArguments("memcached", "rex", manager="http://127.0.0.1:8082")
    assert asked(monkeypatch, command, "memcached", "rex") == defaults


def test_explain_parses_every_flag_when_flags_surround_its_positional_argument(
    monkeypatch: pytest.MonkeyPatch, command: Command
):
    argv = "-n zoo memcached/rex -o json --kubeconfig k --context=c --manager https://manager:8082/"
    argv += " --manager-ca-file ca.crt --manager-tls-server-name=om.svc --manager-token-file token"
    argv += " --manager-namespace=system"
    assert asked(monkeypatch, command, *argv.split()) == ExplainArguments(
        kind="memcached",
        name="rex",
        namespace="zoo",
        output="json",
        kubeconfig="k",
        context="c",
        manager="https://manager:8082",
        manager_ca_file="ca.crt",
        manager_tls_server_name="om.svc",
        manager_token_file="token",
        manager_namespace="system",
    )


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


@pytest.mark.parametrize("name", ["Pet", "pet", "PETS", "pets.petstore.example.com"])
def test_kind_lookup_accepts_kind_or_plural_or_full_crd_name_in_any_letter_case(name: str):
    assert kind_named(name, [each.kind for each in OPERATORS]) is Pet


def test_kind_lookup_error_lists_the_known_kinds_when_the_kind_is_unknown():
    with pytest.raises(click.UsageError, match=r"unknown kind 'dog'; known kinds are .*Memcached.*Pet"):
        kind_named("dog", [each.kind for each in OPERATORS])
