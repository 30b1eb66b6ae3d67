from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from manager.kube.errors import ConfigError
from manager.kube.kubeconfig import Choice, Entry, read_kubeconfig
from manager.kube.user import credentials_of, impersonation_of, pem_of


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"users: [{name: admin, user: {token: hunter2 ]", "not valid YAML in line 1: expected ',' or '}'"),
        (b"apiVersion: v1\nusers:\n- token: hunter2\n  'token\n", "not valid YAML in line 5: "),
        (b"token: hunter2\xff\xfe", "not valid YAML: "),
        (b"token: hunter2\nport: " + b"9" * 5000, "not valid YAML: "),
        (b"token: hunter2\nissued: 2001-99-99", "not valid YAML: "),
        (b"token: hunter2\nlasts: 1" + b":1" * 400 + b".5", "not valid YAML: "),
        (b"token: hunter2\nusers: " + b"[" * 1500, "not a kubeconfig: it is nested too deeply"),
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


def test_a_certificate_that_is_not_ascii_is_not_base64():
    with pytest.raises(ConfigError, match="client-key-data of 'jane': not base64"):
        pem_of(Entry("jane", {"client-key-data": "schlüssel"}, Path("file")), "client-key")


def test_extensions_of_a_cluster_that_are_no_list_are_refused_in_a_line():
    cluster = Entry("c", {"extensions": True}, Path("file"))
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}
    choice = Choice("here", cluster, Entry("jane", {"exec": spec}, Path("file")), None, "file")
    with pytest.raises(ConfigError, match="file: extensions of 'c' is not a list"):
        credentials_of(choice, {})
