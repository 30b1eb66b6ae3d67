from __future__ import annotations

import asyncio

import click
import pytest

from manager.util.address import BindAddress
from manager_tools.commands.console import ConsoleArguments, _end_of
from tests.unit.cli.conftest import Command


def test_console_command_parses_addresses_and_accounts_and_defaults_to_the_deployed_manager(
    command: Command, monkeypatch: pytest.MonkeyPatch
):
    asked: list[ConsoleArguments] = []

    async def open_console(_: object, arguments: ConsoleArguments, __: object) -> None:
        asked.append(arguments)

    monkeypatch.setattr("manager_tools.commands.console._until_stopped", open_console)
    assert command("console").code == 0
    argv = ("--manager=https://manager:8082/", "--service-account=tools/ann", "--bind-address=localhost:7")
    command("console", *argv, "--namespace=zoo", "--name-prefix=zoo-", "--no-browser")
    default, given = asked
    assert (default.namespace, default.name_prefix) == ("operator-manager-system", "operator-manager-")
    assert (default.port, default.bind_address) == (8082, BindAddress("127.0.0.1", 0))
    assert (default.no_browser, given.no_browser) == (False, True)
    assert (given.manager, given.service_account) == ("https://manager:8082", ("tools", "ann"))
    assert given.bind_address == BindAddress("localhost", 7)
    assert (given.namespace, given.name_prefix) == ("zoo", "zoo-")


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--manager=http://127.0.0.1:8082"], "'--manager': https://HOST:PORT is expected"),
        (["--manager=https://m:1", "--insecure-skip-tls-verify"], "--insecure-skip-tls-verify and --manager"),
        (["--manager-ca-file=c", "--insecure-skip-tls-verify"], "--insecure-skip-tls-verify and --mana"),
        (["--manager-token-file=t", "--service-account=a/b"], "--service-account and --manager-token-file "),
        (["--service-account=ann"], "'--service-account': NAMESPACE/NAME is expected"),
        (["--manager=https://m:1", "--pod=p"], "--pod and --manager cannot be given together"),
        (["--port=0"], "'--port': 0 is not in the range 1<=x<=65535."),
        (["--bind-address=0"], "'--bind-address': an address of this machine alone is expected"),
        (["--bind-address=0.0.0.0:1"], "'--bind-address': an address of this machine alone is expected"),
        (["pet/rex"], "Got unexpected extra argument (pet/rex)"),
        (["--browser"], "No such option '--browser'. Did you mean '--no-browser'?"),
    ],
)
def test_console_command_error_names_the_invalid_argument(command: Command, argv: list[str], told: str):
    said = command("console", *argv).refusal()
    assert said.removeprefix("console: ").removeprefix("Invalid value for ").startswith(told)


@pytest.mark.virtual_time
async def test_console_command_reports_the_last_output_of_kubectl_when_kubectl_ends_unexpectedly():
    def ended() -> asyncio.Task[None]:
        lines = asyncio.StreamReader()
        lines.feed_data(b"lost connection to pod\n")
        lines.feed_eof()
        return asyncio.create_task(_end_of(lines, "pod/a"))

    stopped, alone = ended(), ended()
    await asyncio.sleep(0.4)
    stopped.cancel()
    await asyncio.wait([stopped, alone])
    assert stopped.cancelled()
    with pytest.raises(click.ClickException, match=r"it says: lost connection to pod$"):
        alone.result()
