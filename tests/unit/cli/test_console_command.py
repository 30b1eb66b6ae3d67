from __future__ import annotations

import pytest

from controllers.main import PROGRAM
from manager.address import BindAddress
from manager.cli.arguments import UsageError
from manager.cli.console import ConsoleArguments, parse_console_arguments


def test_parse_console_arguments_defaults_to_the_deployed_manager():
    assert parse_console_arguments([], PROGRAM) == ConsoleArguments(
        "operator-manager-system", "operator-manager-"
    )


def test_parse_console_arguments_reads_every_flag():
    argv = "-n zoo --kubeconfig k --context=c --port 9 --bind-address=localhost:7 --no-browser"
    argv += " --manager https://manager:8082/ --manager-ca-file ca.crt --manager-token-file token"
    argv += " --name-prefix zoo-"
    assert parse_console_arguments(argv.split(), PROGRAM) == ConsoleArguments(
        namespace="zoo",
        name_prefix="zoo-",
        kubeconfig="k",
        context="c",
        port=9,
        manager="https://manager:8082",
        manager_ca_file="ca.crt",
        manager_token_file="token",
        bind_address=BindAddress("localhost", 7),
        no_browser=True,
    )
    argv = "--pod=p --service-account=tools/ann --insecure-skip-tls-verify"
    assert parse_console_arguments(argv.split(), PROGRAM) == ConsoleArguments(
        namespace="operator-manager-system",
        name_prefix="operator-manager-",
        pod="p",
        service_account=("tools", "ann"),
        insecure_skip_tls_verify=True,
    )


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--manager=http://127.0.0.1:8082"], "--manager: https://HOST:PORT is expected"),
        (["--manager=none"], "--manager: https://HOST:PORT is expected"),
        (["--manager=https://m:1", "--insecure-skip-tls-verify"], "--insecure-skip-tls-verify and --manager"),
        (
            ["--manager-ca-file=c", "--insecure-skip-tls-verify"],
            "--insecure-skip-tls-verify and --manager-ca-",
        ),
        (["--manager-token-file=t", "--service-account=a/b"], "--service-account and --manager-token-file "),
        (["--service-account=ann"], "--service-account: NAMESPACE/NAME is expected, not 'ann'"),
        (["--manager=https://m:1", "--pod=p"], "--pod and --manager cannot be given together"),
        (["--port=0"], "--port: a whole number from 1 to 65535 is expected, not '0'"),
        (["--port=65536"], "--port: a whole number from 1 to 65535 is expected"),
        (["--bind-address=:8083"], "--bind-address: an address of this machine alone is expected"),
        (["--bind-address=0"], "--bind-address: an address of this machine alone is expected"),
        (["--bind-address=0.0.0.0:1"], "--bind-address: an address of this machine alone is expected"),
        (["pet/rex"], "unexpected argument 'pet/rex'"),
        (["--browser"], "unknown flag '--browser'; did you mean --no-browser?"),
    ],
)
def test_parse_console_arguments_names_the_wrong_argument(argv: list[str], told: str):
    with pytest.raises(UsageError) as error:
        parse_console_arguments(argv, PROGRAM)
    assert str(error.value).startswith(f"console: {told}")
