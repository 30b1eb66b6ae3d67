"""The commands of `petstore`, and their flags."""

from __future__ import annotations

import asyncio
import datetime
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any, Final, NoReturn

import click
from click.core import ParameterSource
from click.shell_completion import shell_complete

from manager.util.duration import parse_wait
from manager_kinds.quantity import parse_quantity
from petstore.address import BindAddress, parse_address
from petstore.pet import PetType

_INTERRUPTED: Final = 130
_MOST: Final = 2**31 - 1
"""The largest message size that gRPC accepts."""
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit: 0 when done, 1 on failure, 2 for a bad flag, 130 for an interrupted call."""
    commands.main(arguments, prog_name="petstore")


@click.group(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 110,
        "show_default": True,
    }
)
@click.version_option(package_name="operator-manager-operators", message="%(prog)s %(version)s")
def commands() -> None:
    """Run a pet store behind gRPC, or call one."""
    # Without this setting, gRPC logs every failed connection to stderr in its own terms.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


@commands.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands and flags in a shell."""
    shell_complete(commands, {}, "petstore", "_PETSTORE_COMPLETE", f"{shell}_source")


def _address_or_none(text: str) -> BindAddress | None:
    return None if text == "0" else parse_address(text)


def _number(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        with suppress(ValueError):
            number = parse_quantity(text)
            if number.denominator == 1 and least <= number <= _MOST:
                return int(number)
        raise ValueError(f"a number of at least {least} is expected, such as 20000, 64Ki or 1Gi")

    return parse


def _path(text: str) -> Path:
    if not text:
        raise ValueError("the name of a file is expected")
    return Path(text)


def _day(text: str) -> datetime.date:
    # The library accepts other forms too, such as 2021W137.
    if not _DAY.match(text):
        raise ValueError("a day such as 2021-04-01 is expected")
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ValueError("there is no such day") from None


def _file(*flags: str, default: str | None = None, text: str) -> Callable[[Any], Any]:
    return click.option(
        *flags,
        type=_path,
        default=default,
        metavar="FILE",
        shell_complete=click.Path().shell_complete,
        help=text,
    )


@commands.command()
@click.option(
    "--bind-address",
    type=parse_address,
    default="127.0.0.1:6742",
    metavar="HOST:PORT",
    help="listen on this address; without HOST, on all interfaces; port 0 selects a free port",
)
@click.option(
    "--metrics-bind-address",
    type=_address_or_none,
    default="127.0.0.1:6743",
    metavar="HOST:PORT",
    help="address of /metrics; 0 disables it",
)
@_file("--tls-cert-file", text="server certificate (PEM); without it, connections are not encrypted")
@_file("--tls-key-file", text="key of the server certificate (PEM)")
@_file("--tls-client-ca-file", text="accept only clients with a certificate of these CAs (PEM)")
@_file("--data", default="petstore.db", text="SQLite file with the pets; created if it is missing")
@click.option("--memory", is_flag=True, help="keep the pets in memory only")
@click.option(
    "--ignore-idempotency-keys",
    is_flag=True,
    help="support only the published contract, without idempotency keys, to test clients",
)
@click.option(
    "--allow-change-sampler",
    is_flag=True,
    help="let every client change the share of logged calls (ChangeSampler)",
)
@click.option(
    "--max-calls", type=_number(1), default="2048", metavar="N", help="maximum number of concurrent calls"
)
@click.option(
    "--max-message-size",
    type=_number(4096),
    default="262144",
    metavar="N",
    help="maximum size of a request in bytes",
)
@click.option(
    "--graceful-shutdown-timeout",
    type=parse_wait,
    default="10s",
    metavar="DURATION",
    help="time for running calls to end after SIGTERM or Ctrl-C",
)
@click.pass_context
def serve(context: click.Context, /, **options: Any) -> None:
    """Run a store until interrupted."""
    if options["memory"] and context.get_parameter_source("data") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--memory cannot be given with --data", context)
    from petstore.cli.serve import serve as run  # noqa: PLC0415 - gRPC: 0.1 s, 27 MB

    context.exit(run(options))


_CLIENT_FLAGS: Final = (
    click.option(
        "--address",
        default="localhost:6742",
        metavar="HOST:PORT",
        envvar="PETSTORE_ADDRESS",
        show_envvar=True,
        help="address of the store",
    ),
    _file("--tls-ca-file", text="connect to the store by TLS, and trust these CAs (PEM)"),
    _file("--tls-cert-file", text="client certificate (PEM)"),
    _file("--tls-key-file", text="key of the client certificate (PEM)"),
    click.option(
        "--tls-server-name",
        metavar="NAME",
        show_default="the host of --address",
        help="host name in the store's certificate",
    ),
    click.option(
        "--timeout",
        type=parse_wait,
        default="30s",
        metavar="DURATION",
        help="time limit of the call, such as 500ms or 1m30s",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        help="text for people, json for programs",
    ),
)


def _client(command: Callable[..., None]) -> Callable[..., None]:
    return reduce(lambda decorated, flag: flag(decorated), reversed(_CLIENT_FLAGS), command)


_TYPE: Final = click.Choice([kind.value for kind in PetType])


def _call(context: click.Context, options: dict[str, Any]) -> NoReturn:
    from petstore.cli.calls import call  # noqa: PLC0415 - gRPC: 0.1 s, 27 MB

    try:
        context.exit(asyncio.run(call(str(context.info_name), options)))
    except KeyboardInterrupt:
        context.exit(_INTERRUPTED)


@commands.command()
@click.argument("name")
@click.option("--type", "kind", type=_TYPE, required=True, help="kind of animal")
@click.option("--birthday", type=_day, required=True, metavar="YYYY-MM-DD", help="day of birth, in UTC")
@click.option(
    "--idempotency-key",
    default="",
    show_default="none",
    metavar="KEY",
    help="if a pet with this key exists, print its id instead of adding a pet",
)
@_client
@click.pass_context
def add(context: click.Context, /, **options: Any) -> None:
    """Add a pet, and print its id."""
    _call(context, options)


@commands.command()
@click.option("--name", "names", multiple=True, help="name of the pet; repeatable: any name may match")
@click.option("--type", "kinds", type=_TYPE, multiple=True, help="kind of animal; repeatable: any may match")
@click.option("--born-from", type=_day, metavar="YYYY-MM-DD", help="born on that day or later")
@click.option("--born-before", type=_day, metavar="YYYY-MM-DD", help="born before that day")
@click.option(
    "--idempotency-key", "keys", multiple=True, metavar="KEY", help="key; repeatable: any may match"
)
@_client
@click.pass_context
def search(context: click.Context, /, **options: Any) -> None:
    """List the pets that match the filters, or all pets if there is no filter."""
    _call(context, options)


@commands.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@_client
@click.pass_context
def delete(context: click.Context, /, **options: Any) -> None:
    """Delete pets by their ids; unknown ids are ignored."""
    _call(context, options)
