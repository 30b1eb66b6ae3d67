from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

WriteFile = Callable[[str], str]


@pytest.fixture(autouse=True)
def no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("OPERATOR_MANAGER_") or name in {
            *("WATCH_NAMESPACE", "ENABLE_WEBHOOKS", "KUBERNETES_SERVICE_HOST")
        }:
            monkeypatch.delenv(name)


@pytest.fixture
def write_file(tmp_path: Path) -> WriteFile:
    """Return a function that writes a settings file and returns its path."""

    def write(text: str) -> str:
        path = tmp_path / "settings.yaml"
        path.write_text(text)
        return str(path)

    return write
