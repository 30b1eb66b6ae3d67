from __future__ import annotations

import pytest

from manager.settings.environment import unknown_variables


def test_a_mistyped_variable_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPERATOR_MANAGER_LOGLEVEL", "debug")
    monkeypatch.setenv("OPERATOR_MANAGER_LOG_LEVEL", "debug")
    monkeypatch.setenv("WATCH_NAMESPACE", "a")
    assert unknown_variables() == ("OPERATOR_MANAGER_LOGLEVEL",)


@pytest.mark.parametrize(
    "name",
    [
        "OPERATOR_MANAGER_SERVICE_HOST",
        "OPERATOR_MANAGER_SERVICE_PORT",
        "OPERATOR_MANAGER_SERVICE_PORT_METRICS",
        "OPERATOR_MANAGER_PORT",
        "OPERATOR_MANAGER_PORT_8080_TCP",
        "OPERATOR_MANAGER_PORT_8080_TCP_ADDR",
        "OPERATOR_MANAGER_METRICS_SERVICE_HOST",
    ],
)
def test_what_kubernetes_sets_for_services_is_not_taken_for_a_setting(
    monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setenv(name, "tcp://10.0.0.1:8080")
    assert unknown_variables() == ()
