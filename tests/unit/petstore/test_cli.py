"""The command line: flags, exit codes, and what is said."""

from __future__ import annotations

import ipaddress
import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest

from petstore.address import BindAddress, parse_address
from petstore.cli import main
from petstore.cli.flags import command_line
from tests.support import ROOT
from tests.support.petstore_process import petstore
from tests.support.ports import PortBlock

PET = ["add", "Thor", "--type", "dog", "--birthday", "2021-04-01"]

WRONG = {
    "no command": ([], "Usage: petstore COMMAND [FLAGS]"),
    "an unknown flag": (["search", "--nmae", "x"], "--nmae"),
    "no address": (["serve", "--bind-address", "here"], "--bind-address: 'here': an address such as"),
    "no such port": (["serve", "--bind-address", ":70000"], "--bind-address: ':70000'"),
    "a metrics address": (
        ["serve", "--metrics-bind-address", "1.2.3:80"],
        "--metrics-bind-address: '1.2.3:80'",
    ),
    "both places": (["serve", "--data", "x", "--memory"], "--memory: not allowed with argument --data"),
    "no file": (["serve", "--data", ""], "--data: '': the name of a file"),
    "no duration": (["serve", "--graceful-shutdown-timeout", "10"], "--graceful-shutdown-timeout: '10'"),
    "a type": ([*PET, "--type", "cow"], "--type: 'cow': one of dog, cat, bird, reptile is expected"),
    "a form of date": ([*PET, "--birthday", "1.4.2021"], "--birthday: '1.4.2021': a day such as"),
    "a week": ([*PET, "--birthday", "2021W137"], "--birthday: '2021W137': a day such as"),
    "no such day": ([*PET, "--birthday", "2021-02-30"], "--birthday: '2021-02-30': there is no such day"),
    "no type": (["add", "Thor", "--birthday", "2021-04-01"], "--type"),
    "no ids": (["delete"], "ID"),
    "an output": (["search", "-o", "yaml"], "--output: invalid choice: 'yaml'"),
    "a timeout": (["search", "--timeout", "soon"], "--timeout: 'soon': a duration such as"),
    "a limit": (["serve", "--max-calls", "0"], "--max-calls: '0': a number of at least 1 is expected"),
    "no number": (["serve", "--max-data-size", "1GB"], "--max-data-size: '1GB'"),
    "too many": (["serve", "--max-pets", "2Gi"], "--max-pets: '2Gi'"),
    "an abbreviation": (
        ["serve", "--mem"],
        "petstore: serve: unknown flag '--mem'; did you mean --memory?\n",
    ),
    "a typing error": (["sreve"], "petstore: unknown command 'sreve'; did you mean serve?\n"),
}


@pytest.mark.parametrize(("arguments", "named"), WRONG.values(), ids=WRONG)
def test_a_wrong_flag_is_named(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve", "add", "search", "delete"])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    _, *flags = re.split(r"\n  (?:-o|--)", capsys.readouterr().out)
    assert [flag for flag in flags if not re.search("default|needed", flag)] == []


def test_version_flag_shows_the_version(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"petstore {version('operator-manager-operators')}\n"


def test_arguments_module_is_identical_to_that_of_devcluster():
    """Each stands alone, so both have what is the same."""
    petstore, devcluster = (ROOT / path for path in ("petstore/cli/arguments.py", "devcluster/arguments.py"))
    assert petstore.read_text() == devcluster.read_text()


def test_a_store_listens_where_only_its_own_machine_reaches_it():
    options = command_line().read(["serve"])
    for address in (options.bind_address, options.metrics_bind_address):
        assert ipaddress.ip_address(address.host).is_loopback


def test_limits_are_numbers_with_or_without_a_unit():
    options = command_line().read(
        ["serve", "--max-message-size=64Ki", "--max-data-size", "1Gi", "--max-calls=7"]
    )
    assert (options.max_message_size, options.max_data_size, options.max_calls) == (65_536, 2**30, 7)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":6742", "", 6742),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("[::1]:80", "::1", 80),
        ("store.example:80", "store.example", 80),
    ],
)
def test_parse_address_reads_host_and_port(text: str, host: str, port: int):
    assert parse_address(text) == BindAddress(host, port)
    assert str(parse_address(text)) == text


@pytest.mark.parametrize(
    "text", ["", "6742", ":", ":x", "::1:80", "[1.2.3.4]:80", "a_b:80", "[::1]", "host:-1"]
)
def test_parse_address_refuses_malformed_addresses(text: str):
    with pytest.raises(ValueError, match="is expected"):
        parse_address(text)


@pytest.mark.parametrize("arguments", [PET, ["search"], ["search", "-o", "json"], ["delete", "x"]])
def test_a_store_that_is_not_there_is_told_in_one_line(arguments: list[str]):
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
def test_a_file_that_cannot_be_used_is_told_in_one_line(tmp_path: Path, content: bytes | None, reason: str):
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
    assert json.dumps(done.stdout) == '""'
