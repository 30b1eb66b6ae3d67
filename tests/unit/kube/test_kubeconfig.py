from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from manager.kube.errors import ConfigError
from manager.kube.kubeconfig import Entry, Kubeconfig, pem_of, read_kubeconfig


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


def test_the_current_context_is_chosen(tmp_path: Path):
    path = write(tmp_path / "config", document())
    choice = read(path).choose(None)
    assert choice.context == "a"
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
    assert read(tmp_path / "none", path).choose(None).context == "a"
    with pytest.raises(ConfigError, match=r"^here: no such file$"):
        read(tmp_path / "none")


def test_a_context_may_name_no_user(tmp_path: Path):
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


def test_a_key_in_place_of_the_name_of_its_file_is_not_quoted(tmp_path: Path):
    with pytest.raises(ConfigError, match=r": client-key of 'a' cannot be the name of a file$"):
        pem_of(Entry("a", {"client-key": "-----BEGIN\nhunter2"}, tmp_path / "config"), "client-key")


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path):
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
