"""The flags, with their checks and error messages."""

from __future__ import annotations

import argparse
import datetime
import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from petstore.address import BindAddress, parse_address
from petstore.capacity import MAX_CALLS, MAX_MESSAGE_BYTES, Capacity
from petstore.cli.arguments import Command, CommandLine
from petstore.pet import PetType

__all__ = ["ADDRESS_VARIABLE", "command_line"]

T = TypeVar("T")

ADDRESS_VARIABLE: Final = "PETSTORE_ADDRESS"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?(?:ms|s|m|h))+\Z", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
_NUMBER: Final = re.compile(r"([0-9]{1,15})(|Ki|Mi|Gi)")
_FACTORS: Final = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_MOST: Final = 2**31 - 1
"""The maximum of a gRPC integer."""
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_TYPES: Final = ", ".join(kind.value for kind in PetType)


_CAPACITY: Final = Capacity()
_LIMITS: Final = {
    "max-calls": (MAX_CALLS, 1, "calls at once; more are refused"),
    "max-message-size": (MAX_MESSAGE_BYTES, 4096, "bytes of a request; longer ones are refused"),
    "max-waiting-pets": (
        _CAPACITY.waiting_pets,
        1,
        "pets in calls that wait for the disk; more are refused",
    ),
    "max-pets": (_CAPACITY.pets, 1, "pets in the store; more are refused"),
    "max-data-size": (
        _CAPACITY.data_bytes,
        1,
        "bytes of pets and indexes in the file; what needs more is refused",
    ),
}


def command_line() -> CommandLine:
    """Return all commands. A wrong flag ends the program with code 2 and a line that names it."""
    commands = CommandLine("petstore", "A pet store behind gRPC.", distribution="operator-manager-operators")
    _serve(commands.add("serve", "run a store until interrupted"))
    _add(commands.add("add", "add a pet, and print its id", "NAME"))
    _search(commands.add("search", "list the pets that match; without a filter, all"))
    _delete(commands.add("delete", "remove pets by their ids", "ID..."))
    return commands


def _serve(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--bind-address",
        type=_checked(parse_address),
        default="127.0.0.1:6742",
        metavar="HOST:PORT",
        help="where to listen (default %(default)s); without HOST: every interface; port 0: a free one",
    )
    command.add_argument(
        "--metrics-bind-address",
        type=_checked(_address_or_none),
        default="127.0.0.1:6743",
        metavar="HOST:PORT",
        help="where /metrics is (default %(default)s); 0 is off",
    )
    for name, text in (
        ("cert", "the certificate to serve with (PEM); without it, nothing is encrypted"),
        ("key", "its key (PEM)"),
        ("client-ca", "serve only clients with a certificate of these authorities (PEM)"),
    ):
        _tls_file(command, name, text)
    data = command.add_mutually_exclusive_group()
    data.add_argument(
        "--data",
        type=_checked(_file),
        default="petstore.db",
        metavar="FILE",
        help="the SQLite file that keeps the pets; made if it is missing (default %(default)s)",
    )
    data.add_argument("--memory", action="store_true", help="keep the pets in memory only")
    command.add_argument(
        "--ignore-idempotency-keys",
        action="store_true",
        help="act like a store that knows the published contract only, to try out clients",
    )
    command.add_argument(
        "--allow-change-sampler",
        action="store_true",
        help="let whoever can call change, by ChangeSampler, what is logged of calls",
    )
    for name, (default, least, text) in _LIMITS.items():
        command.add_argument(
            f"--{name}",
            type=_checked(functools.partial(_number, least=least)),
            default=default,
            metavar="N",
            help=f"{text} (default %(default)s)",
        )
    command.add_argument(
        "--graceful-shutdown-timeout",
        type=_checked(_duration),
        default="10s",
        metavar="DURATION",
        help="how long running calls may go on after SIGTERM or Ctrl-C (default %(default)s)",
    )


def _add(command: Command) -> None:
    command.add_argument("name", metavar="NAME", help="its name")
    command.add_argument("--type", type=_checked(_type), required=True, help=f"one of {_TYPES}")
    command.offer("--type", [kind.value for kind in PetType])
    command.add_argument(
        "--birthday", type=_checked(_day), required=True, metavar="YYYY-MM-DD", help="in UTC"
    )
    command.add_argument(
        "--idempotency-key",
        default="",
        metavar="KEY",
        help="if the store has a pet with this key, add none and print that one's id",
    )
    _client(command)


def _search(command: Command) -> None:
    command.add_argument("--name", action="append", default=[], help="may be repeated: any of them")
    command.add_argument(
        "--type", type=_checked(_type), action="append", default=[], help=f"one of {_TYPES}; may be repeated"
    )
    command.offer("--type", [kind.value for kind in PetType])
    command.add_argument("--born-from", type=_checked(_day), metavar="YYYY-MM-DD", help="that day or later")
    command.add_argument("--born-before", type=_checked(_day), metavar="YYYY-MM-DD", help="before that day")
    command.add_argument(
        "--idempotency-key", action="append", default=[], metavar="KEY", help="may be repeated: any of them"
    )
    _client(command)


def _delete(command: argparse.ArgumentParser) -> None:
    command.add_argument("ids", nargs="+", metavar="ID", help="unknown ones are ignored")
    _client(command)


def _client(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--address",
        default=os.environ.get(ADDRESS_VARIABLE) or "localhost:6742",
        metavar="HOST:PORT",
        help=f"where the store is (default ${ADDRESS_VARIABLE}, else localhost:6742)",
    )
    for name, text in (
        ("ca", "talk to the store over TLS, and trust these authorities (PEM)"),
        ("cert", "the certificate to show it (PEM)"),
        ("key", "its key (PEM)"),
    ):
        _tls_file(command, name, text)
    command.add_argument(
        "--tls-server-name",
        metavar="NAME",
        help="whom the store's certificate is for (default: the host of --address)",
    )
    command.add_argument(
        "--timeout",
        type=_checked(_duration),
        default="30s",
        metavar="DURATION",
        help="how long to wait for the store, such as 500ms or 1m30s (default %(default)s)",
    )
    command.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="for people, or for programs"
    )


def _tls_file(command: argparse.ArgumentParser, name: str, text: str) -> None:
    command.add_argument(f"--tls-{name}-file", type=_checked(_file), metavar="FILE", help=text)


def _checked(convert: Callable[[str], T]) -> Callable[[str], T]:
    """Return `convert` with its ValueErrors shown as they are, after the flag's name."""

    def checked(text: str) -> T:
        try:
            return convert(text)
        except ValueError as error:
            _refuse(f"{text!r}: {error}")

    return checked


def _refuse(message: str) -> NoReturn:
    raise argparse.ArgumentTypeError(message)


def _address_or_none(text: str) -> BindAddress | None:
    return None if text == "0" else parse_address(text)


def _number(text: str, *, least: int) -> int:
    matched = _NUMBER.fullmatch(text)
    number = int(matched[1]) * _FACTORS[matched[2]] if matched else 0
    if not least <= number <= _MOST:
        raise ValueError(f"a number of at least {least} is expected, such as 20000, 64Ki or 1Gi")
    return number


def _file(text: str) -> Path:
    if not text:
        raise ValueError("the name of a file is expected")
    return Path(text)


def _type(text: str) -> PetType:
    try:
        return PetType(text)
    except ValueError:
        raise ValueError(f"one of {_TYPES} is expected") from None


def _day(text: str) -> datetime.date:
    # The library would take other forms too, such as 2021W137.
    if not _DAY.match(text):
        raise ValueError("a day such as 2021-04-01 is expected")
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ValueError("there is no such day") from None


def _duration(text: str) -> float:
    """Parse a duration in Go's notation into seconds."""
    if not _DURATION.match(text):
        raise ValueError("a duration such as 500ms, 10s or 1m30s is expected")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
