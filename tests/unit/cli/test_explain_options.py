from __future__ import annotations

import pytest

from apis.cache.v1.memcached import Memcached
from apis.petstore.v1beta1.pet import Pet
from controllers.main import OPERATORS, PROGRAM
from manager.api.apps_v1 import Deployment
from manager.cli.arguments import UsageError
from manager.cli.explain import ExplainArguments, parse_explain_arguments
from manager.cli.operators import kind_named, owned_by


def test_parse_explain_arguments_uses_defaults_when_no_flag_is_given():
    for argv in (["pet/rex"], ["pet", "rex"]):
        assert parse_explain_arguments(argv, PROGRAM) == ExplainArguments("pet", "rex")


def test_parse_explain_arguments_reads_every_flag_at_any_place():
    argv = "-n zoo pet/rex -o json --kubeconfig k --context=c --manager https://manager:8082/"
    argv += " --manager-ca-file ca.crt --manager-tls-server-name=om.svc --manager-token-file token"
    argv += " --manager-namespace=system"
    assert parse_explain_arguments(argv.split(), PROGRAM) == ExplainArguments(
        *(
            "pet",
            "rex",
            "zoo",
            "json",
            "k",
            "c",
            "https://manager:8082",
            "ca.crt",
            "om.svc",
            "token",
            "system",
        )
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
        (["pet/rex", "-o", "yaml"], "-o/--output: 'text' or 'json' is expected, not 'yaml'"),
        (["pet/rex", "--manager=http://elsewhere:80"], "--manager: https://HOST:PORT, http://127.0.0.1:PORT"),
        (["pet/rex", "--manager=https://host/path"], "--manager: https://HOST:PORT"),
        (["pet/rex", "--manager=file:///etc/passwd"], "--manager: https://HOST:PORT"),
        (["pet/rex", "--manager-token-file=t"], "--manager-token-file needs an https URL in --manager"),
        (["pet/rex", "--namespaces=a"], "unknown flag '--namespaces'; did you mean --namespace?"),
    ],
)
def test_parse_explain_arguments_names_the_wrong_argument(argv: list[str], told: str):
    with pytest.raises(UsageError) as error:
        parse_explain_arguments(argv, PROGRAM)
    assert str(error.value).startswith(f"explain: {told}")


@pytest.mark.parametrize("name", ["Pet", "pet", "PETS", "pets.petstore.example.com"])
def test_kind_named_accepts_any_name_of_a_kind(name: str):
    assert kind_named(name, [each.kind for each in OPERATORS], command="explain") is Pet


def test_kind_named_lists_known_kinds_when_the_kind_is_unknown():
    with pytest.raises(UsageError, match=r"unknown kind 'dog'; ours are .*Memcached.*Pet"):
        kind_named("dog", [each.kind for each in OPERATORS], command="explain")


def test_owned_by_returns_the_owned_kinds_that_operators_declare():
    assert owned_by(OPERATORS)[Memcached.gvk] == [Deployment.gvk]
