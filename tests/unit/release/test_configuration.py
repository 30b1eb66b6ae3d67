"""Tables of settings in docs/configuration.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from controllers.main import OPERATORS, PROGRAM
from release.configuration import BEGIN, END, with_tables
from tests.support.markdown import Page
from tests.support.settings import load_declared, load_settings

PAGE = Path("docs/configuration.md")


def test_settings_table_row_has_the_flag_the_default_the_variable_and_the_description():
    text = with_tables(f"{BEGIN}\n{END}\n", OPERATORS, PROGRAM)
    assert (
        "| `--namespaces NAME,...` | all | `OPERATOR_MANAGER_NAMESPACES`, `WATCH_NAMESPACE` | "
        "namespaces to watch |" in text
    )
    assert "| `--leader-elect[=BOOL]` | `false` | `OPERATOR_MANAGER_LEADER_ELECT` | reconcile only" in text
    assert "| `--petstore-address HOST:PORT` | `localhost:6742` | `PETSTORE_ADDRESS` | address" in text


def test_documented_config_file_gives_the_expected_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (example,) = (block.text for block in Page(PAGE).blocks() if block.language == "yaml")
    file = tmp_path / "manager.yaml"
    file.write_text(example)
    keys = [setting for each in OPERATORS for setting in each.declared_settings]
    for variable in (setting.variable for setting in keys):
        monkeypatch.delenv(variable, raising=False)
    flags = {"config": str(file)}
    settings = load_settings(flags, keys)
    values = load_declared(keys, flags)
    assert settings.namespaces == ("team-a", "team-b")
    assert settings.concurrency == {"memcached": 4}
    assert settings.graceful_shutdown_timeout == 60
    assert [str(values[key]) for key in keys if key.name == "petstore-address"] == ["pets.example.test:6742"]
