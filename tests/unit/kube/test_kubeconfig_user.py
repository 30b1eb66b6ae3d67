from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import orjson
import pytest

from manager.kube.credentials import Credentials
from manager.kube.errors import ConfigError
from manager.kube.kubeconfig import Choice, Entry, credentials_of, impersonation_of, pem_of

V1BETA1 = "client.authentication.k8s.io/v1beta1"


def user(folder: Path, **value: Any) -> Entry:
    return Entry("me", value, folder / "config")


def credentials(entry: Entry | None, *, cluster: dict[str, Any] | None = None) -> Credentials:
    path = Path("/nowhere") if entry is None else entry.path
    choice = Choice("c", Entry("k", {"server": "https://x", **(cluster or {})}, path), entry, None, "here")
    return credentials_of(choice, {})


async def header(entry: Entry | None) -> str | None:
    return (await credentials(entry).current()).header


async def test_a_context_without_a_user_sends_no_credentials():
    assert await header(None) is None


async def test_a_user_with_a_certificate_only_sends_no_credentials(tmp_path: Path):
    assert await header(user(tmp_path, **{"client-certificate": "crt", "client-key": "key"})) is None


async def test_a_token_is_sent_as_a_bearer_token(tmp_path: Path):
    assert await header(user(tmp_path, token="secret")) == "Bearer secret"


async def test_a_user_name_and_password_are_sent_as_basic_authentication(tmp_path: Path):
    expected = "Basic " + base64.b64encode(b"jane:secret").decode()
    assert await header(user(tmp_path, username="jane", password="secret")) == expected


async def test_a_token_file_lies_beside_the_kubeconfig_and_comes_before_a_token(tmp_path: Path):
    (tmp_path / "token").write_text("from-file\n")
    assert await header(user(tmp_path, tokenFile="token", token="fixed")) == "Bearer from-file"


async def test_a_program_lies_beside_the_kubeconfig_and_learns_of_the_cluster(tmp_path: Path):
    plugin = tmp_path / "plugin"
    plugin.write_text(
        '#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" > "$(dirname "$0")/seen"\n'
        f'echo \'{{"kind": "ExecCredential", "apiVersion": "{V1BETA1}", "status": {{"token": "x"}}}}\'\n'
    )
    plugin.chmod(0o700)
    (tmp_path / "ca.crt").write_text("CA")
    entry = user(
        tmp_path,
        exec={
            "command": "./plugin",
            "apiVersion": V1BETA1,
            "provideClusterInfo": True,
        },
    )
    cluster = {
        "certificate-authority": "ca.crt",
        "tls-server-name": "name",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}],
    }
    obtained = await (await asyncio.to_thread(credentials, entry, cluster=cluster)).current()
    assert obtained.header == "Bearer x"
    assert orjson.loads((tmp_path / "seen").read_text())["spec"]["cluster"] == {
        "server": "https://x",
        "tls-server-name": "name",
        "certificate-authority-data": base64.b64encode(b"CA").decode(),
        "config": {"audience": "me"},
    }


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"exec": {"apiVersion": "v1"}}, "exec: Object missing required field `command`"),
        ({"exec": "aws"}, "exec: Expected `object`, got `str`"),
        ({"tokenFile": 5}, "tokenFile of 'me' is not text"),
        ({"token": ["secret"]}, "token of 'me' is not text"),
        ({"username": "jane", "password": 12345}, "password of 'me' is not text"),
    ],
)
async def test_a_user_that_is_wrong_is_an_error_that_names_the_file(
    tmp_path: Path, value: dict[str, Any], message: str
):
    with pytest.raises(ConfigError, match=message) as caught:
        credentials(user(tmp_path, **value))
    assert str(caught.value).startswith(f"{tmp_path}/config: ")


PROVIDERS: list[dict[str, Any]] = [
    {"name": "oidc", "config": {"id-token": "x"}},
    {"name": "gcp", "config": {"cmd-path": "touch", "cmd-args": "ran"}},
    {},
]
OTHERS: list[dict[str, Any]] = [{}, {"token": "x"}, {"tokenFile": "x"}, {"exec": {"command": "x"}}]


@pytest.mark.parametrize("others", OTHERS, ids=lambda others: next(iter(others), "alone"))
@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.get("name", "unnamed"))
def test_an_auth_provider_is_refused_by_the_users_name_with_what_to_use_instead(
    tmp_path: Path, provider: dict[str, Any], others: dict[str, Any]
):
    expected = (
        f"{tmp_path}/config: user 'me': auth-provider is not supported: "
        "use exec, for OpenID Connect with kubelogin"
    )
    with pytest.raises(ConfigError) as caught:
        credentials(user(tmp_path, **{"auth-provider": provider}, **others))
    assert str(caught.value) == expected


def test_a_certificate_is_found_as_data_or_as_a_file_beside_the_kubeconfig(tmp_path: Path):
    (tmp_path / "x.crt").write_text("FILE")
    data = base64.b64encode(b"DATA").decode()
    by_data = pem_of(user(tmp_path, **{"crt-data": data, "crt": "x.crt"}), "crt")
    by_file = pem_of(user(tmp_path, crt="x.crt"), "crt")
    assert by_data is not None
    assert by_file is not None
    assert (by_data.read(), by_file.read()) == (b"DATA", b"FILE")
    assert pem_of(user(tmp_path, crt=""), "crt") is None


def test_a_user_may_act_as_another(tmp_path: Path):
    entry = user(
        tmp_path,
        **{"as": "jane", "as-uid": "1", "as-groups": ["a", "b"], "as-user-extra": {"reason": ["x", "y"]}},
    )
    assert impersonation_of(entry) == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-reason", "x"),
        ("Impersonate-Extra-reason", "y"),
    ]
    assert impersonation_of(user(tmp_path, token="x")) == impersonation_of(None) == []


def test_the_names_of_extras_are_written_so_that_they_can_be_names_of_headers(tmp_path: Path):
    entry = user(tmp_path, **{"as": "jane", "as-user-extra": {"acme.com/über 100%": ["x"]}})
    assert impersonation_of(entry)[1:] == [("Impersonate-Extra-acme.com%2F%C3%BCber%20100%25", "x")]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("as", "jane\nX-Other: 1"),
        ("as-groups", ["a", "b\r\n"]),
        ("as-user-extra", {"reason": ["x\0"]}),
        ("as-groups", [5]),
        ("as-user-extra", {5: ["x"]}),
    ],
)
def test_impersonation_refuses_values_that_a_header_cannot_hold(tmp_path: Path, key: str, value: object):
    with pytest.raises(ConfigError, match=rf"user 'me': {key}: .* is not (one line of )?text"):
        impersonation_of(user(tmp_path, **{"as": "jane", key: value}))


def test_acting_as_a_group_without_a_user_is_an_error(tmp_path: Path):
    with pytest.raises(ConfigError, match="'as' is missing"):
        impersonation_of(user(tmp_path, **{"as-groups": ["system:masters"]}))
