"""Settings of the command `run`: their sources, and errors for invalid values."""

from __future__ import annotations

import pytest

from controllers.main import OPERATORS, PROGRAM
from manager.cli.operators import declared_settings
from manager.cli.settings import OWN, Settings, unknown_variables
from manager.settings import SettingsError
from manager.util.address import BindAddress
from tests.support.settings import FIELDS, load_settings
from tests.unit.cli.conftest import WriteFile


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


def test_flag_overrides_environment_and_environment_overrides_file(
    monkeypatch: pytest.MonkeyPatch, write_file: WriteFile
):
    file = {"config": write_file("log-level: error")}
    flag = {**file, "log_level": "debug"}
    found = [load_settings(flags).log_level for flags in ({}, file, flag)]
    monkeypatch.setenv("OPERATOR_MANAGER_LOG_LEVEL", "warn")
    found += [load_settings(flags).log_level for flags in (file, flag)]
    assert found == ["info", "error", "debug", "warn", "debug"]


def test_list_from_a_flag_or_environment_variable_replaces_the_list_from_the_settings_file(
    monkeypatch: pytest.MonkeyPatch, write_file: WriteFile
):
    monkeypatch.setenv("OPERATOR_MANAGER_NAMESPACES", "b")
    flags = {
        "config": write_file("concurrency: {foo: 3}\nnamespaces: [a]\ncontrollers: [foo]"),
        "concurrency": "bar=2",
    }
    settings = load_settings(flags)
    assert settings.concurrency == {"bar": 2}
    assert settings.namespaces == ("b",)
    assert settings.controllers == ("foo",)


def test_environment_variables_can_set_the_settings_file_and_disable_webhooks(
    monkeypatch: pytest.MonkeyPatch, write_file: WriteFile
):
    monkeypatch.setenv("OPERATOR_MANAGER_CONFIG", write_file("leader-elect: true"))
    monkeypatch.setenv("ENABLE_WEBHOOKS", "false")
    settings = load_settings({})
    assert settings.leader_elect is True
    assert settings.enable_webhooks is False


def test_watch_namespace_variable_sets_the_namespaces(monkeypatch: pytest.MonkeyPatch, write_file: WriteFile):
    monkeypatch.setenv("WATCH_NAMESPACE", "A")
    assert "'A' for the environment variable WATCH_NAMESPACE: " in refusal({})
    monkeypatch.setenv("WATCH_NAMESPACE", "a, b")
    assert load_settings({}).namespaces == ("a", "b")
    assert load_settings({"config": write_file("namespaces: [c]")}).namespaces == ("a", "b")
    assert load_settings({"namespaces": "d,e,,d"}).namespaces == ("d", "e")
    monkeypatch.setenv("OPERATOR_MANAGER_NAMESPACES", "e")
    assert load_settings({}).namespaces == ("e",)
    monkeypatch.setenv("OPERATOR_MANAGER_NAMESPACES", "E")
    assert "'E' for the environment variable OPERATOR_MANAGER_NAMESPACES: " in refusal({})


@pytest.mark.parametrize("name", ["WATCH_NAMESPACE", "OPERATOR_MANAGER_LOG_LEVEL", "OPERATOR_MANAGER_CONFIG"])
def test_load_settings_ignores_an_empty_variable_and_a_file_key_without_a_value(
    monkeypatch: pytest.MonkeyPatch, write_file: WriteFile, name: str
):
    monkeypatch.setenv(name, "")
    settings = load_settings({"config": write_file("log-level:\n")})
    assert (settings.log_level, settings.namespaces) == ("info", ())


def test_setting_has_the_same_value_from_flag_variable_and_file(
    monkeypatch: pytest.MonkeyPatch, write_file: WriteFile
):
    periods = ("resync_period", "graceful_shutdown_timeout", "shutdown_delay", "leader_elect_retry_period")
    certificates = (
        f"{each}_cert_{part}" for each in ("metrics", "webhook") for part in ("path", "name", "key")
    )
    texts = ("kubeconfig", "context", "webhook_client_ca_file", "webhook_local_path", *certificates)
    values = {
        **dict.fromkeys(periods, "5s"),
        **dict.fromkeys(texts, "some/text"),
        **dict.fromkeys(("leader_elect", "metrics_secure", "debug_pages"), "true"),
        **dict.fromkeys(("health_probe_bind_address", "console_bind_address"), "0"),
        **dict.fromkeys(("metrics_bind_address", "webhook_bind_address"), "127.0.0.1:1"),
        **dict.fromkeys(("leader_election_id", "leader_election_namespace", "webhook_name_prefix"), "mine"),
        "namespaces": "a,b",
        "controllers": "*,-foo",
        "concurrency": "foo=2",
        "max_concurrent_rollouts": "foo=0",
        "shards": "8",
        "leader_elect_lease_duration": "60s",
        "leader_elect_renew_deadline": "40s",
        "enable_webhooks": "false",
        "webhook_certificates": "files",
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


def test_webhook_url_accepts_host_with_or_without_port():
    for text in (
        "https://dev.example.test:9443",
        "https://10.0.0.1:9443/",
        "https://[::1]:9443",
        "https://a.test",
    ):
        assert load_settings({"webhook_url": text}).webhook_url == text.rstrip("/")


def test_settings_file_accepts_yaml_booleans_lists_mappings_and_numbers(write_file: WriteFile):
    text = "leader-elect: yes\ncontrollers: ['*', -foo]\nconcurrency: {foo: 3}\nmetrics-bind-address: 0\n"
    settings = load_settings({"config": write_file(text)})
    assert settings.leader_elect is True
    assert settings.controllers == ("*", "-foo")
    assert settings.concurrency == {"foo": 3}
    assert settings.metrics_bind_address is None


def refusal(flags: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as error:
        load_settings(flags)
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("log_level", "trace", "'debug', 'info', 'warn' or 'error' is expected"),
        ("leader_elect", "maybe", "true or false is expected"),
        ("graceful_shutdown_timeout", "30", 'a duration such as "15s"'),
        ("graceful_shutdown_timeout", "-1s", "a duration of 0 or more is expected"),
        ("metrics_bind_address", "8080", 'an address such as ":8080"'),
        ("health_probe_bind_address", ":99999", 'an address such as ":8080"'),
        ("namespaces", "good,Bad", "a namespace is expected"),
        ("leader_election_namespace", "a.b", "a namespace is expected"),
        ("leader_election_id", "Not_A_Name", "an object's name is expected"),
        ("concurrency", "memcached=0", "NAME=N is expected"),
        ("concurrency", "memcached=10001", "NAME=N is expected, N a whole number from 1 to 10000"),
        ("max_concurrent_rollouts", "memcached=-1", "N a whole number from 0 to"),
        ("max_concurrent_rollouts", "memcached=1000001", "N a whole number from 0 to 1000000"),
        ("kubeconfig", "", "a text that is not empty is expected"),
        *(
            ("shards", count, "0, or a power of two from 2 to 256 is expected")
            for count in ("3", "1", "512", "04")
        ),
        ("webhook_certificates", "cert-manager", "'auto', 'files', 'secret' or 'local' is expected"),
        ("webhook_name_prefix", "Mine-", "the beginning of an object's name is expected"),
        ("webhook_name_prefix", "x" * 201, "at most 200 characters"),
        *(
            ("webhook_url", url, '"https://HOST:PORT" is expected')
            for url in (
                "localhost:9443",
                "http://localhost:9443",
                "https://localhost:0",
                "https://[::1:9443",
                "https://me@localhost:9443",
                "https://localhost:9443/path",
            )
        ),
    ],
)
def test_load_settings_error_names_flag_and_expected_form_of_an_invalid_value(
    field: str, value: str, expected: str
):
    flag = "--" + field.replace("_", "-")
    text = refusal({field: value})
    assert text.startswith(f"invalid value {value!r} for {flag}: ")
    assert expected in text


@pytest.mark.parametrize(
    ("text", "shown", "key"),
    [
        ("log-level: loud", "'loud'", "log-level"),
        ("leader-elect-retry-period: 2", "'2'", "leader-elect-retry-period"),
        ("graceful-shutdown-timeout: .nan", "'nan'", "graceful-shutdown-timeout"),
        ("kubeconfig: 2021-04-01", "'2021-04-01'", "kubeconfig"),
        ("concurrency: {memcached: yes}", "'memcached=True'", "concurrency"),
        ("namespaces: [1]", "'[1]'", "namespaces"),
        ("metrics-bind-address: false", "'false'", "metrics-bind-address"),
        ("kubeconfig: [a]", "\"['a']\"", "kubeconfig"),
        ("namespaces: no", "'False'", "namespaces"),
    ],
)
def test_load_settings_error_names_file_and_key_of_an_invalid_value(
    write_file: WriteFile, text: str, shown: str, key: str
):
    path = write_file(text)
    assert refusal({"config": path}).startswith(f"invalid value {shown} for {key!r} in {path}: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("loglevel: info", "unknown key 'loglevel'; did you mean 'log-level'?"),
        ("1: 1", "unknown key 1"),
        ("config: other.yaml", "unknown key 'config'"),
        ("- a", "a mapping of settings is expected"),
        ("a: [", "not valid YAML in line 2, column 1: "),
        (
            "log-level: info\nlog-level: warn\n",
            "not valid YAML in line 2, column 1: 'log-level' occurs twice",
        ),
        ("log-level: " + "9" * 5000, "not valid YAML in line 1, column 12: it is a number"),
        ("log-level: " + "[" * 250, "not valid YAML in line 1, column 211: it is nested"),
    ],
)
def test_load_settings_error_names_the_settings_file_that_has_invalid_yaml_or_an_unknown_key(
    write_file: WriteFile, text: str, expected: str
):
    path = write_file(text)
    assert refusal({"config": path}).startswith(f"{path}: {expected}")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"metrics_cert_path": "/c"}, "--metrics-cert-path is given without --metrics-secure"),
        ({"leader_elect_lease_duration": "10s"}, "--leader-elect-lease-duration (10s) must be longer than"),
        ({"leader_elect_retry_period": "9s"}, "--leader-elect-renew-deadline (10s) must be longer than"),
        ({"leader_elect_renew_deadline": "-1s"}, "--leader-elect-renew-deadline must be longer than zero"),
        ({"webhook_certificates": "files"}, "--webhook-certificates=files needs --webhook-cert-path"),
        ({"webhook_certificates": "local"}, "--webhook-certificates=local needs --webhook-url"),
        (
            {"webhook_certificates": "secret", "webhook_cert_path": "/c"},
            "--webhook-cert-path is given, and not used by",
        ),
        ({"webhook_cert_path": "/c", "webhook_url": "https://localhost:9443"}, "--webhook-url is given with"),
    ],
)
def test_conflicting_settings_are_refused_with_the_names_of_their_flags(flags: dict[str, str], told: str):
    assert refusal(flags).startswith(told)


def test_unknown_variable_check_suggests_a_similar_setting_and_ignores_variables_of_kubernetes_services(
    monkeypatch: pytest.MonkeyPatch,
):
    settings = ("LOGLEVEL", "LOG_LEVEL", "PETSTORE_ADDRESS", "XYZ")
    services = ("SERVICE_HOST", "SERVICE_PORT_METRICS", "PORT_8080_TCP_ADDR", "METRICS_SERVICE_HOST")
    for name in (*settings, *services):
        monkeypatch.setenv(f"OPERATOR_MANAGER_{name}", "1")
    monkeypatch.setenv("WATCH_NAMESPACE", "a")
    assert unknown_variables(PROGRAM, declared_settings(OPERATORS, PROGRAM)) == {
        "OPERATOR_MANAGER_LOGLEVEL": "OPERATOR_MANAGER_LOG_LEVEL",
        "OPERATOR_MANAGER_PETSTORE_ADDRESS": "PETSTORE_ADDRESS",
        "OPERATOR_MANAGER_XYZ": None,
    }
