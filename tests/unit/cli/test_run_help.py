from __future__ import annotations

import pytest

from controllers.main import PROGRAM
from manager.cli.run_help import run_help
from manager.settings import Settings
from manager.settings.origin import env_names, flag_name
from tests.unit.cli.conftest import OPERATORS


@pytest.mark.parametrize("field", Settings.model_fields)
def test_every_setting_is_shown_with_its_flag_and_its_variables(field: str):
    text = run_help(OPERATORS, PROGRAM)
    assert f"\n  {flag_name(field)}" in text
    assert all(name in text for name in env_names(field, PROGRAM))


@pytest.mark.parametrize(
    "default", ["15s", "30s", "127.0.0.1:8080", "127.0.0.1:8081", "info", "auto", "false", "*"]
)
def test_defaults_are_shown_as_they_would_be_written(default: str):
    assert f"(default {default};" in " ".join(run_help(OPERATORS, PROGRAM).split())


def test_a_default_that_is_another_in_a_pod_is_shown_alike_everywhere(monkeypatch: pytest.MonkeyPatch):
    outside = run_help(OPERATORS, PROGRAM)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert run_help(OPERATORS, PROGRAM) == outside


def test_the_controllers_are_listed():
    assert "The controllers are: memcached, foo, pet." in run_help(OPERATORS, PROGRAM)


@pytest.mark.parametrize("columns", ["20", "80", "400"])
def test_lines_fit_the_terminal_within_reason(monkeypatch: pytest.MonkeyPatch, columns: str):
    monkeypatch.setenv("COLUMNS", columns)
    assert max(map(len, run_help(OPERATORS, PROGRAM).splitlines())) <= 120
