from __future__ import annotations

import pytest

from manager.cli.settings import OWN, Settings
from manager.util.address import BindAddress
from tests.support.settings import FIELDS, load_settings
from tests.unit.settings.conftest import WriteFile


def test_load_settings_returns_defaults_without_sources():
    settings = load_settings({})
    assert settings.namespaces == ()
    assert settings.controllers == ("*",)
    assert settings.concurrency == {}
    assert settings.leader_elect is False
    assert settings.leader_elect_lease_duration == 15
    assert settings.graceful_shutdown_timeout == 30


@pytest.mark.parametrize(("pod", "host"), [(False, "127.0.0.1"), (True, "")])
def test_bind_addresses_default_to_loopback_except_in_a_pod(
    monkeypatch: pytest.MonkeyPatch, pod: bool, host: str
):
    if pod:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    settings = load_settings({})
    assert settings.metrics_bind_address == BindAddress(host, 8080)
    assert settings.health_probe_bind_address == BindAddress(host, 8081)
    assert settings.webhook_bind_address == BindAddress(host, 9443)
    assert settings.console_bind_address == (BindAddress(host, 8082) if host else None)
    given = load_settings({"metrics_bind_address": ":8080", "webhook_bind_address": "127.0.0.1:9443"})
    assert given.metrics_bind_address == BindAddress("", 8080)
    assert given.webhook_bind_address == BindAddress("127.0.0.1", 9443)


@pytest.mark.parametrize(
    ("flag", "variable", "in_file", "expected"),
    [
        ("debug", "warn", "error", "debug"),
        (None, "warn", "error", "warn"),
        (None, None, "error", "error"),
        (None, None, None, "info"),
        ("debug", None, "error", "debug"),
    ],
)
def test_flag_overrides_environment_and_environment_overrides_file(
    monkeypatch: pytest.MonkeyPatch,
    write_file: WriteFile,
    flag: str | None,
    variable: str | None,
    in_file: str | None,
    expected: str,
):
    flags = {"config": write_file("" if in_file is None else f"log-level: {in_file}\n")}
    if flag is not None:
        flags["log_level"] = flag
    if variable is not None:
        monkeypatch.setenv("OPERATOR_MANAGER_LOG_LEVEL", variable)
    assert load_settings(flags).log_level == expected


def test_stronger_source_replaces_the_whole_list(monkeypatch: pytest.MonkeyPatch, write_file: WriteFile):
    monkeypatch.setenv("OPERATOR_MANAGER_NAMESPACES", "b")
    flags = {
        "config": write_file("concurrency: {foo: 3}\nnamespaces: [a]\ncontrollers: [foo]"),
        "concurrency": "bar=2",
    }
    settings = load_settings(flags)
    assert settings.concurrency == {"bar": 2}
    assert settings.namespaces == ("b",)
    assert settings.controllers == ("foo",)


def test_config_variable_names_the_settings_file(monkeypatch: pytest.MonkeyPatch, write_file: WriteFile):
    monkeypatch.setenv("OPERATOR_MANAGER_CONFIG", write_file("leader-elect: true"))
    assert load_settings({}).leader_elect is True


def test_watch_namespace_sets_the_namespaces(monkeypatch: pytest.MonkeyPatch, write_file: WriteFile):
    monkeypatch.setenv("WATCH_NAMESPACE", "a, b")
    assert load_settings({}).namespaces == ("a", "b")
    assert load_settings({"config": write_file("namespaces: [c]")}).namespaces == ("a", "b")
    assert load_settings({"namespaces": "d"}).namespaces == ("d",)
    monkeypatch.setenv("OPERATOR_MANAGER_NAMESPACES", "e")
    assert load_settings({}).namespaces == ("e",)


@pytest.mark.parametrize("name", ["WATCH_NAMESPACE", "OPERATOR_MANAGER_LOG_LEVEL", "OPERATOR_MANAGER_CONFIG"])
def test_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setenv(name, "")
    assert load_settings({}).log_level == "info"
    assert load_settings({}).namespaces == ()


def test_file_key_without_value_counts_as_unset(write_file: WriteFile):
    path = write_file("log-level:\n")
    assert load_settings({"config": path}).log_level == "info"


def test_settings_are_equal_from_flags_variables_and_file(
    monkeypatch: pytest.MonkeyPatch, write_file: WriteFile
):
    values = {
        "kubeconfig": "/k",
        "context": "c",
        "namespaces": "a,b",
        "controllers": "*,-foo",
        "concurrency": "foo=2",
        "max_concurrent_rollouts": "foo=0",
        "resync_period": "1h",
        "graceful_shutdown_timeout": "1m",
        "shutdown_delay": "5s",
        "leader_elect": "true",
        "leader_election_id": "x.example.com",
        "leader_election_namespace": "ns",
        "shards": "8",
        "leader_elect_lease_duration": "60s",
        "leader_elect_renew_deadline": "40s",
        "leader_elect_retry_period": "5s",
        "metrics_bind_address": "127.0.0.1:1",
        "metrics_secure": "true",
        "metrics_cert_path": "/certificates",
        "metrics_cert_name": "metrics.crt",
        "metrics_cert_key": "metrics.key",
        "health_probe_bind_address": "0",
        "console_bind_address": "0",
        "debug_pages": "true",
        "enable_webhooks": "false",
        "webhook_bind_address": ":1",
        "webhook_certificates": "files",
        "webhook_cert_path": "/webhook",
        "webhook_cert_name": "webhook.crt",
        "webhook_cert_key": "webhook.key",
        "webhook_client_ca_file": "clients.crt",
        "webhook_local_path": "elsewhere",
        "webhook_name_prefix": "mine-",
        "log_level": "warn",
        "log_format": "json",
    }
    not_with_these = {"webhook_url"}
    assert values.keys() | {"config"} | not_with_these == set(FIELDS)

    def read(settings: Settings) -> dict[str, object]:
        return {field: getattr(settings, field) for field in values}

    by_flags = load_settings(values)
    path = write_file("".join(f"{key.replace('_', '-')}: '{value}'\n" for key, value in values.items()))
    by_file = load_settings({"config": path})
    for key, value in values.items():
        monkeypatch.setenv(f"OPERATOR_MANAGER_{key.upper()}", value)
    by_environment = load_settings({})
    assert read(by_flags) == read(by_environment) == read(by_file)
    assert by_flags.concurrency == {"foo": 2}
    assert by_flags.max_concurrent_rollouts == {"foo": 0}
    assert by_flags.health_probe_bind_address is None
    assert {each.name.replace("-", "_") for each in OWN if by_flags.is_given(each)} == values.keys()


def test_webhooks_are_turned_off_by_the_variable_that_kubebuilder_has_for_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ENABLE_WEBHOOKS", "false")
    assert load_settings({}).enable_webhooks is False
    assert load_settings({"enable_webhooks": "true"}).enable_webhooks is True


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://dev.example.test:9443", "https://dev.example.test:9443"),
        ("https://10.0.0.1:9443/", "https://10.0.0.1:9443"),
        ("https://[::1]:9443", "https://[::1]:9443"),
        ("https://dev.example.test", "https://dev.example.test"),
    ],
)
def test_webhook_url_accepts_host_with_or_without_port(monkeypatch: pytest.MonkeyPatch, text: str, url: str):
    monkeypatch.setenv("OPERATOR_MANAGER_WEBHOOK_URL", text)
    assert load_settings({}).webhook_url == url


def test_settings_file_accepts_yaml_types(write_file: WriteFile):
    text = """\
leader-elect: yes
namespaces: [a, b]
controllers: ['*', -foo]
concurrency: {foo: 3}
metrics-bind-address: 0
health-probe-bind-address: :99
"""
    settings = load_settings({"config": write_file(text)})
    assert settings.leader_elect is True
    assert settings.namespaces == ("a", "b")
    assert settings.controllers == ("*", "-foo")
    assert settings.concurrency == {"foo": 3}
    assert settings.metrics_bind_address is None
    assert settings.health_probe_bind_address == BindAddress("", 99)


def test_names_given_twice_count_once():
    assert load_settings({"namespaces": "a,b,,a"}).namespaces == ("a", "b")
