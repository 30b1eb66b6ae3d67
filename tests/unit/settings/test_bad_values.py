from __future__ import annotations

import pytest

from controllers.main import OPERATORS, PROGRAM
from manager.cli.operators import declared_settings
from manager.cli.settings import unknown_variables
from manager.settings import SettingsError
from tests.support.settings import load_settings
from tests.unit.settings.conftest import WriteFile


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
        ("log_format", "xml", "'auto', 'json' or 'console' is expected"),
        ("leader_elect", "maybe", "true or false is expected"),
        ("graceful_shutdown_timeout", "30", 'a duration such as "15s"'),
        ("graceful_shutdown_timeout", "-1s", "a duration of 0 or more is expected"),
        ("leader_elect_lease_duration", "fifteen", 'a duration such as "15s"'),
        ("metrics_bind_address", "8080", 'an address such as ":8080"'),
        ("health_probe_bind_address", ":99999", 'an address such as ":8080"'),
        ("namespaces", "good,Bad", "a namespace is expected"),
        ("leader_election_namespace", "a.b", "a namespace is expected"),
        ("leader_election_id", "Not_A_Name", "an object's name is expected"),
        ("namespaces", ",", "a namespace is expected"),
        ("concurrency", "memcached", "NAME=N is expected"),
        ("concurrency", "memcached=0", "NAME=N is expected"),
        ("concurrency", "memcached=many", "NAME=N is expected"),
        ("concurrency", "=4", "NAME=N is expected"),
        ("concurrency", "memcached=10001", "at most 10000 objects at once are expected"),
        ("max_concurrent_rollouts", "memcached=-1", "N a whole number of at least 0"),
        ("max_concurrent_rollouts", "memcached=", "NAME=N is expected"),
        ("max_concurrent_rollouts", "memcached=1000001", "at most 1000000 objects at once are expected"),
        ("kubeconfig", "", "some text is expected"),
        ("webhook_certificates", "cert-manager", "'auto', 'files', 'secret' or 'local' is expected"),
        ("webhook_name_prefix", "Mine-", "the beginning of an object's name is expected"),
        ("webhook_name_prefix", "x" * 201, "at most 200 characters"),
        *(
            ("webhook_url", url, '"https://HOST:PORT" is expected')
            for url in (
                "localhost:9443",
                "http://localhost:9443",
                "https://",
                "https://:9443",
                "https://localhost:0",
                "https://localhost:99999",
                "https://[::1:9443",
                "https://me@localhost:9443",
                "https://localhost:9443/path",
                "https://localhost:9443?x=y",
                "https://local host:9443",
            )
        ),
    ],
)
def test_load_settings_names_flag_and_expected_form_of_wrong_value(field: str, value: str, expected: str):
    flag = "--" + field.replace("_", "-")
    text = refusal({field: value})
    assert text.startswith(f"invalid value {value!r} for {flag}: ")
    assert expected in text


def test_load_settings_names_variable_of_wrong_value(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPERATOR_MANAGER_LOG_LEVEL", "loud")
    assert "'loud' for the environment variable OPERATOR_MANAGER_LOG_LEVEL: " in refusal({})


def test_load_settings_names_variable_alias_of_wrong_value(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WATCH_NAMESPACE", "A")
    assert "'A' for the environment variable WATCH_NAMESPACE: " in refusal({})


@pytest.mark.parametrize(
    ("text", "shown", "key"),
    [
        ("log-level: loud", "'loud'", "log-level"),
        ("leader-elect-retry-period: 2", "'2'", "leader-elect-retry-period"),
        ("leader-elect-retry-period: 1.5", "'1.5'", "leader-elect-retry-period"),
        ("graceful-shutdown-timeout: .nan", "'nan'", "graceful-shutdown-timeout"),
        ("leader-elect-lease-duration: .inf", "'inf'", "leader-elect-lease-duration"),
        ("kubeconfig: 2021-04-01", "'2021-04-01'", "kubeconfig"),
        ("concurrency: {memcached: 0}", "'memcached=0'", "concurrency"),
        ("concurrency: {memcached: yes}", "'memcached=True'", "concurrency"),
        ("namespaces: {a: b}", "'a=b'", "namespaces"),
        ("namespaces: [1]", "'[1]'", "namespaces"),
        ("metrics-bind-address: 8080", "'8080'", "metrics-bind-address"),
        ("metrics-bind-address: false", "'false'", "metrics-bind-address"),
        ("kubeconfig: [a]", "\"['a']\"", "kubeconfig"),
        ("namespaces: no", "'False'", "namespaces"),
        ("controllers: 1", "'1'", "controllers"),
        ("leader-elect: [true]", "'[True]'", "leader-elect"),
    ],
)
def test_load_settings_names_file_and_key_of_wrong_value(
    write_file: WriteFile, text: str, shown: str, key: str
):
    path = write_file(text)
    assert refusal({"config": path}).startswith(f"invalid value {shown} for {key!r} in {path}: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("loglevel: info", "unknown key 'loglevel'; did you mean 'log-level'?"),
        ("log_level: info", "unknown key 'log_level'; did you mean 'log-level'?"),
        ("zzz: 1", "unknown key 'zzz'"),
        ("1: 1", "unknown key 1"),
        ("config: other.yaml", "unknown key 'config'"),
        ("- a", "a mapping of settings is expected"),
        ("log-level: info\n a: [", "not valid YAML in line 2, column 3: mapping values"),
        ("a: [", "not valid YAML in line 1, column 5: "),
        (
            "log-level: info\nlog-format: json\nlog-level: warn\n",
            "not valid YAML in line 3, column 1: 'log-level' is there twice",
        ),
        (
            "concurrency:\n  pet: 1\n  foo: 1\n  pet: 2\n",
            "not valid YAML in line 4, column 3: 'pet' is there twice",
        ),
        ("\0", "not valid YAML: it holds what no text does"),
        ("log-level: " + "9" * 5000, "not valid YAML in line 1, column 12: it is a number"),
        ("log-level: 0x" + "f" * 5000, "not valid YAML in line 1, column 12: it is a number"),
        ("log-level: 2001-99-99", "not valid YAML in line 1, column 12: there is no such value"),
        ("log-level: " + "[" * 250, "not valid YAML in line 1, column 211: it is nested"),
    ],
)
def test_load_settings_names_unusable_file(write_file: WriteFile, text: str, expected: str):
    path = write_file(text)
    assert refusal({"config": path}).startswith(f"{path}: {expected}")


def test_load_settings_names_missing_file():
    text = refusal({"config": "/no/such/file"})
    assert text == "/no/such/file: cannot read the settings file: No such file or directory"


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (
            {"leader_elect_lease_duration": "10s"},
            ("--leader-elect-lease-duration", "--leader-elect-renew-deadline"),
        ),
        (
            {"leader_elect_retry_period": "9s"},
            ("--leader-elect-renew-deadline", "--leader-elect-retry-period"),
        ),
        ({"leader_elect_retry_period": "0"}, ("--leader-elect-retry-period",)),
        ({"leader_elect_renew_deadline": "-1s"}, ("--leader-elect-renew-deadline",)),
    ],
)
def test_lease_times_that_do_not_fit_together_are_told_by_their_flags(
    flags: dict[str, str], names: tuple[str, ...]
):
    text = refusal(flags)
    assert all(name in text for name in names)


def test_load_settings_refuses_metrics_cert_path_without_metrics_secure():
    assert refusal({"metrics_cert_path": "/c"}) == (
        "--metrics-cert-path is given without --metrics-secure, and metrics would go over plain HTTP"
    )
    assert load_settings({"metrics_cert_path": "/c", "metrics_secure": "true"}).metrics_cert_path == "/c"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"webhook_certificates": "files"}, "--webhook-certificates=files needs --webhook-cert-path"),
        ({"webhook_certificates": "local"}, "--webhook-certificates=local needs --webhook-url"),
        (
            {"webhook_certificates": "secret", "webhook_cert_path": "/c"},
            "--webhook-cert-path is given, and not used by --webhook-certificates=secret",
        ),
        (
            {"webhook_cert_path": "/c", "webhook_url": "https://localhost:9443"},
            "--webhook-url is given with --webhook-cert-path",
        ),
    ],
)
def test_certificates_of_webhooks_come_from_one_place_and_all_of_it_is_told(flags: dict[str, str], told: str):
    assert refusal(flags).startswith(told)


def test_unknown_variables_suggests_near_setting(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPERATOR_MANAGER_LOGLEVEL", "debug")
    monkeypatch.setenv("OPERATOR_MANAGER_LOG_LEVEL", "debug")
    monkeypatch.setenv("OPERATOR_MANAGER_PETSTORE_ADDRESS", "localhost:1")
    monkeypatch.setenv("OPERATOR_MANAGER_XYZ", "1")
    monkeypatch.setenv("WATCH_NAMESPACE", "a")
    assert unknown_variables(PROGRAM, declared_settings(OPERATORS, PROGRAM)) == {
        "OPERATOR_MANAGER_LOGLEVEL": "OPERATOR_MANAGER_LOG_LEVEL",
        "OPERATOR_MANAGER_PETSTORE_ADDRESS": "PETSTORE_ADDRESS",
        "OPERATOR_MANAGER_XYZ": None,
    }


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
def test_unknown_variables_ignores_kubernetes_service_variables(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setenv(name, "tcp://10.0.0.1:8080")
    assert unknown_variables(PROGRAM) == {}
