from __future__ import annotations

from typing import Any

import pytest

from controllers.main import PROGRAM
from manager.cli.settings import OWN
from manager.settings import Setting
from tests.unit.cli.conftest import Command


@pytest.mark.parametrize("setting", OWN, ids=lambda setting: setting.name)
def test_every_setting_is_shown_with_its_flag_and_its_variables(command: Command, setting: Setting[Any]):
    text = command("run", "--help").out
    assert f"\n  {setting.flag} " in text
    assert all(name in text for name in setting.variables(PROGRAM))
    # And what holds without it.
    said = " ".join(text.split()).partition(f" {setting.flag} ")[2].partition(" environment ")[0]
    assert "(default " in said


@pytest.mark.parametrize(
    "default", ["15s", "30s", "127.0.0.1:8080", "127.0.0.1:8081", "info", "auto", "false", "*"]
)
def test_defaults_are_shown_as_they_would_be_written(command: Command, default: str):
    assert f"(default {default};" in " ".join(command("run", "--help").out.split())


def test_a_default_that_is_another_in_a_pod_is_shown_alike_everywhere(
    command: Command, monkeypatch: pytest.MonkeyPatch
):
    outside = command("run", "--help").out
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert command("run", "--help").out == outside


def test_the_controllers_are_listed(command: Command):
    assert "The controllers are: memcached, foo, pet." in command("run", "--help").out


def test_no_flag_in_a_text_is_torn_apart(command: Command, monkeypatch: pytest.MonkeyPatch):
    for columns in map(str, range(60, 110)):
        monkeypatch.setenv("COLUMNS", columns)
        lines = command("run", "--help").out.splitlines()
        assert [line for line in lines if line.endswith("-")] == []


@pytest.mark.parametrize("columns", ["20", "80", "400"])
def test_lines_fit_the_terminal_within_reason(
    command: Command, monkeypatch: pytest.MonkeyPatch, columns: str
):
    monkeypatch.setenv("COLUMNS", columns)
    assert max(map(len, command("run", "--help").out.splitlines())) <= 120
