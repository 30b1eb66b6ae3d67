"""Kubeconfigs of any shape: a configuration, or one line that says what is wrong with which file."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.kube import config
from manager.kube.errors import ConfigError
from manager.kube.kubeconfig import Choice, Entry, credentials_of, impersonation_of, pem_of, read_kubeconfig

V1BETA1 = "client.authentication.k8s.io/v1beta1"

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


def document(**sections: Any) -> dict[str, Any]:
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


def documents() -> Iterator[Any]:
    for odd in ODD:
        yield odd
        for key in ("current-context", "contexts", "clusters", "users"):
            yield document(**{key: odd})
        for key, kind in itertools.product(("name", "context"), ("cluster", "user", "namespace")):
            yield document(
                contexts=[{"name": "a", "context": {"cluster": "a", "user": "a", kind: odd}, key: odd}]
            )
        for key in CLUSTER:
            yield document(cluster={key: odd})
            yield document(cluster={key: odd}, exec={})
        for key in USER:
            yield document(user={"as": "jane", key: odd})
        yield document(user={"as-user-extra": {"a": odd}, "as": "jane"})
        yield document(user={"as-groups": [odd], "as": "jane"})
        for key in ("certificate", "key"):
            yield document(user={"client-certificate": "a", "client-key": "b", f"client-{key}-data": odd})
        for key in EXEC:
            yield document(exec={key: odd})
        yield document(exec={"env": [{"name": odd, "value": odd}]})


def test_a_kubeconfig_with_anything_in_any_place_is_read_or_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "config"
    path.touch()
    with asyncio.Runner() as runner:
        for each in documents():
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
def test_a_file_that_yaml_itself_cannot_take_is_refused_in_one_line(tmp_path: Path, content: bytes):
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
def test_aliases_of_aliases_are_refused_before_anybody_writes_them_out(
    tmp_path: Path, content: str, problem: str
):
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
def test_a_file_that_is_not_yaml_is_told_by_its_line_and_not_by_its_content(
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
def test_a_user_who_acts_as_another_in_a_way_that_makes_no_sense_is_refused_in_a_line(
    value: dict[str, Any], expected: str
):
    with pytest.raises(ConfigError, match=re.escape(f"file: {expected}")):
        impersonation_of(Entry("jane", value, Path("file")))


@pytest.mark.parametrize("data", ["schlüssel", "YWJj=", "YWJj====", "YQ=", "YQ==YQ==", "YW Jj"])
def test_a_certificate_that_is_not_base64_is_refused(data: str):
    with pytest.raises(ConfigError, match="client-key-data of 'jane': not base64"):
        pem_of(Entry("jane", {"client-key-data": data}, Path("file")), "client-key")


def test_extensions_of_a_cluster_that_are_no_list_are_refused_in_a_line():
    cluster = Entry("c", {"extensions": True}, Path("file"))
    spec = {"apiVersion": V1BETA1, "command": "x"}
    choice = Choice("here", cluster, Entry("jane", {"exec": spec}, Path("file")), None, "file")
    with pytest.raises(ConfigError, match="file: extensions of 'c' is not a list"):
        credentials_of(choice, {})
