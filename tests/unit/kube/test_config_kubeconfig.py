"""Kubeconfigs of any shape: a configuration, or one line that says what is wrong with which file."""

from __future__ import annotations

import asyncio
import base64
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from manager.kube import config
from manager.kube.config import (
    Choice,
    Entry,
    Kubeconfig,
    credentials_of,
    impersonation_of,
    read_kubeconfig,
)
from manager.kube.credentials import Credentials
from manager.kube.errors import ConfigError


def document(name: str = "a", **changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}"}}],
        "users": [{"name": name, "user": {"token": name}}],
        **changes,
    }


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def read(*paths: Path) -> Kubeconfig:
    return read_kubeconfig(paths, source="here")


def test_current_context_is_used(tmp_path: Path):
    path = write(tmp_path / "config", document())
    choice = read(path).choose(None)
    assert choice.cluster.value == {"server": "https://a"}
    assert choice.user is not None
    assert choice.user.value == {"token": "a"}
    assert choice.namespace == "ns-a"
    assert choice.source == f"{path}, context 'a'"


def test_kubeconfig_choose_returns_the_named_context(tmp_path: Path):
    config = read(write(tmp_path / "a", document("a")), write(tmp_path / "b", document("b")))
    assert config.choose("b").cluster.name == "b"


def test_kubeconfig_takes_each_entry_from_the_first_file_that_has_it(tmp_path: Path):
    first = write(tmp_path / "first", document("a", **{"current-context": ""}))
    again = document("b")
    again["clusters"] += [{"name": "a", "cluster": {"server": "https://too-late"}}]
    second = write(tmp_path / "second", again)
    third = write(tmp_path / "third", document("c"))
    config = read(first, second, third)
    assert config.current_context == "b"
    assert config.choose("a").cluster.value == {"server": "https://a"}
    assert config.choose("c").cluster.value == {"server": "https://c"}


def test_parts_of_one_context_may_come_from_several_files(tmp_path: Path):
    first = write(tmp_path / "x/first", document(users=[]))
    second = write(tmp_path / "y/second", {"users": document()["users"]})
    choice = read(first, second).choose(None)
    assert choice.cluster.path == first
    assert choice.user is not None
    assert choice.user.path == second


def test_files_that_do_not_exist_are_left_out_unless_none_does(tmp_path: Path):
    path = write(tmp_path / "config", document())
    assert read(tmp_path / "none", path).choose(None).namespace == "ns-a"
    with pytest.raises(ConfigError, match=r"^here: no such file$"):
        read(tmp_path / "none")


def test_context_may_name_no_user(tmp_path: Path):
    path = write(tmp_path / "config", document(contexts=[{"name": "a", "context": {"cluster": "a"}}]))
    choice = read(path).choose(None)
    assert choice.user is None
    assert choice.namespace is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "here: no current-context; name one with --context"),
        ("{", "not valid YAML in line 1, column 2: "),
        ("\x00", "not valid YAML: "),
        ("- a", "not a kubeconfig"),
        ("just text", "not a kubeconfig"),
        (document(contexts={"a": {}}), "contexts is not a list"),
        (document(contexts=["a"]), "an entry of contexts has no name"),
        (document(clusters=[{"cluster": {}}]), "an entry of clusters has no name"),
        (document(users=[{"name": "a", "user": "me"}]), "user 'a' is not a mapping"),
        (document(contexts=[]), r"here: no context 'a' \(there are: none\)"),
        (document(**{"current-context": "z"}), r"here: no context 'z' \(there are: 'a'\)"),
        (document(clusters=[]), "here: no cluster 'a', which context 'a' refers to"),
        (document(users=None), "here: no user 'a', which context 'a' refers to"),
        (document(contexts=[{"name": "a", "context": {}}]), "context 'a' names no cluster"),
        (document(contexts=[{"name": "a", "context": {"cluster": 5}}]), "cluster of 'a' is not text"),
    ],
)
def test_kubeconfig_error_is_one_line_that_begins_with_its_source(tmp_path: Path, content: Any, message: str):
    path = write(tmp_path / "config", content)
    with pytest.raises(ConfigError, match=message) as caught:
        read(path).choose(None)
    assert str(caught.value).startswith(("here: ", f"{path}: "))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "{token: hunter2: x}",
        "*hunter2",
        "!hunter2",
        "!<hunter2>",
        "!!hunter2",
        "!x!hunter2",
        "!hunter2!x",
        "!hun%ter2",
        "!hun%ffter2",
        "!<hunter2 x",
        "&hunter2 &hunter2 x",
        "[&hunter2 x, &hunter2 y, *hunter3]",
        "[hunter2",
        "{hunter2: [",
        "@hunter2",
        "`hunter2",
        "|hunter2",
        "'hunter2",
        '"hunter2\\q"',
        '"hunter2\\xz"',
        "!!int hunter2",
        "!!float hunter2",
        "!!bool hunter2",
        "!!timestamp hunter2",
        "!!binary h\u00fcnter2",
        "!!binary hunter2!",
        "!!map hunter2",
        "!!seq hunter2",
        "!!set [hunter2]",
        "!!omap [hunter2]",
        "!!pairs [hunter2]",
        "{[hunter2]: x}",
        "{<<: hunter2}",
        "x\n%TAG !hunter2! x",
        "x\n...\n%TAG !hunter2! x\n%TAG !hunter2! x\n--- y",
        "x\n...\n%YAML 9.hunter2\n---",
    ],
)
def test_kubeconfig_yaml_error_quotes_nothing_that_may_be_a_secret(tmp_path: Path, value: str):
    path = write(tmp_path / "config", f"users:\n- name: a\n  user: {value}")
    with pytest.raises(
        ConfigError, match=rf"^{path}: not valid YAML in line \d+, column \d+: [^\"]+$"
    ) as caught:
        read(path)
    told = str(caught.value).removeprefix(f"{path}")
    for quoted in re.findall("'([^']*)'", told):
        assert quoted in {",", "]", "}", ":", "-", "?", ">", "<document start>"}
    assert not re.search("hun|ter2|nter", told)


def test_error_does_not_quote_a_key_given_instead_of_its_file_name(tmp_path: Path):
    with pytest.raises(ConfigError, match=r": client-key of 'a' cannot be the name of a file$"):
        Entry("a", {"client-key": "-----BEGIN\nhunter2"}, tmp_path / "config").pem("client-key")


def test_error_names_unreadable_kubeconfig_file(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="/folder: cannot be read: Is a directory"):
        read(tmp_path / "folder")


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("apiVersion: v2", "apiVersion is 'v2', and of a kubeconfig it is v1"),
        ("kind: Pod", "kind is 'Pod', and of a kubeconfig it is Config"),
        ("users: [{name: a, user: {}}, {name: a, user: {}}]", "there are two entries 'a' in users"),
        ("clusters: [{name: a}, {name: b}, {name: a}]", "there are two entries 'a' in clusters"),
        ("contexts: [{name: a}, {name: a}]", "there are two entries 'a' in contexts"),
    ],
)
def test_file_is_refused_as_kubectl_does(tmp_path: Path, head: str, said: str):
    path = tmp_path / "config"
    path.write_text(head)
    with pytest.raises(ConfigError, match=f"^{path}: {said}$"):
        read_kubeconfig([path], source="there")


@pytest.mark.parametrize("head", ["{}", "apiVersion: v1", "kind: Config", "apiVersion: ''"])
def test_file_is_read_when_it_does_not_say_what_it_is(tmp_path: Path, head: str):
    path = tmp_path / "config"
    path.write_text(head)
    assert read_kubeconfig([path], source="there").current_context is None


V1BETA1 = "client.authentication.k8s.io/v1beta1"


def user(folder: Path, **value: Any) -> Entry:
    return Entry("me", value, folder / "config")


def credentials(entry: Entry | None, *, cluster: dict[str, Any] | None = None) -> Credentials:
    path = Path("/nowhere") if entry is None else entry.path
    choice = Choice(Entry("k", {"server": "https://x", **(cluster or {})}, path), entry, None, "here")
    return credentials_of(choice, {})


async def header(entry: Entry | None) -> str | None:
    return (await credentials(entry).current()).header


async def test_context_without_a_user_sends_no_credentials():
    assert await header(None) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"client-certificate": "crt", "client-key": "key"}, None),
        ({"token": "secret"}, "Bearer secret"),
        ({"username": "jane", "password": "secret"}, f"Basic {base64.b64encode(b'jane:secret').decode()}"),
        ({"tokenFile": "token", "token": "fixed"}, "Bearer from-file"),  # it lies beside the kubeconfig
    ],
)
async def test_user_sends_the_header_of_its_credentials(
    tmp_path: Path, value: dict[str, Any], expected: str | None
):
    (tmp_path / "token").write_text("from-file\n")
    assert await header(user(tmp_path, **value)) == expected


async def test_exec_program_beside_the_kubeconfig_receives_the_cluster_info(tmp_path: Path):
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
async def test_error_names_the_kubeconfig_of_an_invalid_user(
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
def test_auth_provider_is_refused_with_the_name_of_its_user_and_an_alternative(
    tmp_path: Path, provider: dict[str, Any], others: dict[str, Any]
):
    expected = (
        f"{tmp_path}/config: user 'me': auth-provider is not supported: "
        "use exec, for OpenID Connect with kubelogin"
    )
    with pytest.raises(ConfigError) as caught:
        credentials(user(tmp_path, **{"auth-provider": provider}, **others))
    assert str(caught.value) == expected


def test_certificate_is_read_from_data_or_from_a_file_beside_the_kubeconfig(tmp_path: Path):
    (tmp_path / "x.crt").write_text("FILE")
    data = base64.b64encode(b"DATA").decode()
    by_data = user(tmp_path, **{"crt-data": data, "crt": "x.crt"}).pem("crt")
    by_file = user(tmp_path, crt="x.crt").pem("crt")
    assert by_data is not None
    assert by_file is not None
    assert (by_data.read(), by_file.read()) == (b"DATA", b"FILE")
    assert user(tmp_path, crt="").pem("crt") is None


def test_user_may_impersonate_another(tmp_path: Path):
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


def test_impersonation_extra_names_are_escaped_for_headers(tmp_path: Path):
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


INFO = "client.authentication.k8s.io/exec"


SHAPES: list[Any] = [{}, [], [[]], [{}], [5], [None], ["a\nb"], {5: 6}, {"a": "b"}, {"a": 5}, {"a": ["b", 5]}]


SHAPES += [{None: [None]}, {"a\nb": ["c"]}, [{"name": 5}], [{"name": INFO, "extension": {5: {b"x"}}}]]


SCALARS: list[Any] = [None, True, False, 0, -1, 2**70, 2**20_000, 1.5, float("nan"), b"\xff"]


TEXTS = ["", " ", ".", "..", "/", "//", "~", "a\0b", "a\nb", "\u00e9", "\ud800", "x" * 5000, "=", "eHg="]


URLS = [
    "https://a:1",
    "a:1",
    "https://",
    "https://[",
    "https://a:99999",
    "https://.",
    "https://%zz",
    "a..b:1",
]


ODD = [*SHAPES, *SCALARS, *TEXTS, *URLS]


PEM = "certificate-authority certificate-authority-data"


CLUSTER = f"server insecure-skip-tls-verify proxy-url tls-server-name extensions {PEM}".split()


CLIENT = "client-certificate client-certificate-data client-key client-key-data"


ACTING = "as as-uid as-groups as-user-extra"


USER = f"token tokenFile username password auth-provider exec {CLIENT} {ACTING}".split()


EXEC = ["command", "apiVersion", "args", "env", "installHint", "provideClusterInfo", "interactiveMode"]


def odd_document(**sections: Any) -> dict[str, Any]:
    exec_plugin = {
        "command": "none-such",
        "apiVersion": V1BETA1,
        "provideClusterInfo": True,
    }
    value = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "https://a:1", **sections.pop("cluster", {})}}],
        "users": [{"name": "a", "user": sections.pop("user", {"as": "jane"})}],
    }
    if "exec" in sections:
        value["users"] = [{"name": "a", "user": {"exec": {**exec_plugin, **sections.pop("exec")}}}]
    return {**value, **sections}


def odd_documents() -> Iterator[Any]:
    for odd in ODD:
        yield odd
        for key in ("current-context", "contexts", "clusters", "users"):
            yield odd_document(**{key: odd})
        for key, kind in itertools.product(("name", "context"), ("cluster", "user", "namespace")):
            yield odd_document(
                contexts=[{"name": "a", "context": {"cluster": "a", "user": "a", kind: odd}, key: odd}]
            )
        for key in CLUSTER:
            yield odd_document(cluster={key: odd})
            yield odd_document(cluster={key: odd}, exec={})
        for key in USER:
            yield odd_document(user={"as": "jane", key: odd})
        yield odd_document(user={"as-user-extra": {"a": odd}, "as": "jane"})
        yield odd_document(user={"as-groups": [odd], "as": "jane"})
        for key in ("certificate", "key"):
            yield odd_document(user={"client-certificate": "a", "client-key": "b", f"client-{key}-data": odd})
        for key in EXEC:
            yield odd_document(exec={key: odd})
        yield odd_document(exec={"env": [{"name": odd, "value": odd}]})


def test_kubeconfig_with_arbitrary_values_is_read_or_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "config"
    path.touch()
    with asyncio.Runner() as runner:
        for each in odd_documents():
            # Values that YAML cannot express are among them.
            monkeypatch.setattr("manager.util.yaml_text.load", lambda _, each=each: each)
            try:
                found = config._find(str(path), None, {"HOME": "/none", "PATH": "/none"})
                runner.run(found.authorization())
            except ConfigError as error:
                refusal = str(error)
            except Exception as error:
                error.add_note(f"for {each!r}"[:1000])
                raise
            else:
                continue
            assert "\n" not in refusal, each
            assert refusal.startswith((f"{path}:", f"--kubeconfig {path}")), each


@pytest.mark.parametrize(
    "content",
    [
        b"{a: " * 1500,
        *(b"a: " + each for each in (b"2001-99-99", b"!!int x", b"!!float x", b"!!timestamp x", b"!!bool x")),
    ],
)
def test_kubeconfig_with_invalid_yaml_characters_is_refused_in_one_line(tmp_path: Path, content: bytes):
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"^{path}: not valid YAML in line 1, column \d+: .*$"):
        read_kubeconfig([path], source="test")


BOMB = "a: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))


MERGED = "b: &b0 {x: y}\n" + "".join(f"b{n}: &b{n} {{<<: [*b{n - 1}, *b{n - 1}]}}\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (BOMB, "its aliases expand to too much"),
        (MERGED, "its aliases expand to too much"),
        (f"a: &a {'x' * 10_000}\nb: [{', '.join(['*a'] * 200)}]", "its aliases expand to too much"),
        ("a: &a [[*a]]", "it is part of itself, by an alias"),
    ],
)
def test_nested_yaml_aliases_are_refused_before_their_expansion(tmp_path: Path, content: str, problem: str):
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ConfigError, match=rf"^{path}: not valid YAML in line \d+, column \d+: {problem}$"):
        read_kubeconfig([path], source="test")


def test_aliases_in_reason_are_read(tmp_path: Path):
    path = tmp_path / "config"
    path.write_text("users: [{name: a, user: &a {token: x}}, {name: b, user: {<<: *a}}, {name: c, user: *a}]")
    users = read_kubeconfig([path], source="test").sections["users"]
    assert [entry.value for entry in users.values()] == [{"token": "x"}] * 3


@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_read_kubeconfig_raises_only_one_line_errors_for_any_bytes(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
):
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(content)
    refusal = ""
    try:
        read_kubeconfig([path], source="test")
    except ConfigError as error:
        refusal = str(error)
    assert "\n" not in refusal


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            b"users: [{name: admin, user: {token: hunter2 ]",
            "not valid YAML in line 1, column 45: expected ',' or",
        ),
        (b"apiVersion: v1\nusers:\n- token: hunter2\n  'token\n", "not valid YAML in line 5, column 1: "),
        (b"token: hunter2\xff\xfe", "not valid YAML: "),
        (b"token: hunter2\nport: " + b"9" * 5000, "not valid YAML in line 2, column 7: it is a number of"),
        (b"token: hunter2\nport: 0x" + b"f" * 5000, "not valid YAML in line 2, column 7: it is a number of"),
        (b"token: hunter2\nissued: 2001-99-99", "not valid YAML in line 2, column 9: "),
        (b"token: hunter2\nlasts: 1" + b":1" * 400 + b".5", "not valid YAML in line 2, column 8: "),
        (b"token: hunter2\nusers: " + b"[" * 250, "not valid YAML in line 2, column 207: it is nested too"),
    ],
)
def test_error_names_the_line_of_invalid_yaml_and_does_not_quote_it(
    tmp_path: Path, content: bytes, expected: str
):
    file = tmp_path / "config"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        read_kubeconfig([file], source="--kubeconfig")
    assert str(error.value).startswith(f"{file}: {expected}")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"as": "x", "as-groups": 5}, "as-groups of 'jane' is not a list"),
        ({"as": "x", "as-groups": {"a": 1}}, "as-groups of 'jane' is not a list"),
        ({"as": "x", "as-user-extra": ["a"]}, "as-user-extra of 'jane' is not a mapping to lists"),
        ({"as": "x", "as-user-extra": {"a": 1}}, "as-user-extra of 'jane' is not a mapping to lists"),
    ],
)
def test_invalid_impersonation_is_refused_with_a_one_line_message(value: dict[str, Any], expected: str):
    with pytest.raises(ConfigError, match=re.escape(f"file: {expected}")):
        impersonation_of(Entry("jane", value, Path("file")))


@pytest.mark.parametrize("data", ["schlüssel", "YWJj=", "YWJj====", "YQ=", "YQ==YQ==", "YW Jj"])
def test_certificate_without_valid_base64_is_refused(data: str):
    with pytest.raises(ConfigError, match="client-key-data of 'jane': not base64"):
        Entry("jane", {"client-key-data": data}, Path("file")).pem("client-key")


def test_extensions_of_a_cluster_that_are_no_list_are_refused_in_a_line():
    cluster = Entry("c", {"extensions": True}, Path("file"))
    spec = {"apiVersion": V1BETA1, "command": "x"}
    choice = Choice(cluster, Entry("jane", {"exec": spec}, Path("file")), None, "file")
    with pytest.raises(ConfigError, match="file: extensions of 'c' is not a list"):
        credentials_of(choice, {})
