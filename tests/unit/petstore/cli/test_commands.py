"""The petstore program: flags, exit codes and messages."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from petstore.cli import main
from petstore.cli.commands import commands
from tests.support.petstore_process import petstore
from tests.support.ports import PortBlock
from tests.support.settings import params_of

PET = ["add", "Thor", "--type", "dog", "--birthday", "2021-04-01"]

WRONG = {
    "no address": (["serve", "--bind-address", "here"], "'--bind-address': an address such as"),
    "a metrics address": (["serve", "--metrics-bind-address=1.2.3:80"], "'--metrics-bind-address': an add"),
    "both places": (["serve", "--data", "x", "--memory"], "--memory cannot be given with --data"),
    "no file": (["serve", "--data", ""], "'--data': the name of a file"),
    "no duration": (["serve", "--graceful-shutdown-timeout=10"], "'--graceful-shutdown-timeout': a duration"),
    "a form of date": ([*PET, "--birthday", "1.4.2021"], "'--birthday': a day such as"),
    "no such day": ([*PET, "--birthday", "2021-02-30"], "'--birthday': there is no such day"),
    "no ids": (["delete"], "Missing argument 'ID...'"),
    "a timeout": (["search", "--timeout", "soon"], "'--timeout': a duration such as"),
    "a limit": (["serve", "--max-calls", "0"], "'--max-calls': a number of at least 1 is expected"),
}


@pytest.mark.parametrize(("arguments", "named"), WRONG.values(), ids=WRONG)
def test_petstore_usage_error_names_the_invalid_flag_or_missing_argument(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert named in capsys.readouterr().err


def test_serve_command_listens_on_loopback_by_default():
    for flag in ("bind_address", "metrics_bind_address"):
        assert ipaddress.ip_address(params_of(commands, "serve", ())[flag].host).is_loopback


@pytest.mark.parametrize("arguments", [PET, ["search"], ["delete", "x"]])
def test_petstore_reports_an_unreachable_store_in_one_line(arguments: list[str]):
    with PortBlock(1) as ports:
        address = f"127.0.0.1:{ports[0]}"
        done = petstore(*arguments, "--timeout", "5s", environ={"PETSTORE_ADDRESS": address})
    assert done.returncode == 1
    assert done.stderr.startswith(f"petstore: --address: no answer from the store at {address}: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"something else entirely\n" * 50, "is not a pet store's file, or is damaged"), (None, "is a folder")],
)
def test_petstore_reports_an_unusable_file_in_one_line(tmp_path: Path, content: bytes | None, reason: str):
    path = tmp_path / "pets\n.db"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    done = petstore("serve", "--data", path, "--bind-address=127.0.0.1:0", "--metrics-bind-address=0")
    assert done.returncode == 1
    assert done.stderr.startswith("petstore: --data: ")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
