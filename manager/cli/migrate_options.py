"""The arguments of `migrate-storage`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from manager.cli.arguments import ArgumentParser, unknown_argument
from manager.cli.errors import UsageError
from manager.duration import format_duration, parse_duration
from manager.migration.options import MigrationOptions

__all__ = ["MIGRATE_HELP", "MigrateArguments", "parse_migrate_arguments"]

T = TypeVar("T")

_COMMAND = "migrate-storage"
_VALUES = "--kubeconfig", "--context", "--page-size", "--concurrency", "--rate", "--settle"
_DRY_RUN = "--dry-run"
_DEFAULT = MigrationOptions()

MIGRATE_HELP = f"""\
Have every object stored in the storage version of its definition, and trim status.storedVersions.

Usage: {{}} migrate-storage [KIND...] [FLAGS]

A KIND is one of this program's (Pet, pets, pets.petstore.example.com), or the full name of any other
definition on the cluster; without any, all of this program's that are installed. Run it after a version
of a kind has become the storage version: until then the old one has to stay in the definition.

The API server rewrites each object that is stored in another version, as it is: no content changes, and what
others write meanwhile is kept. Objects that it refuses to write are told with the reason; the stored
versions are then left as they are, and the exit code is 1. Interrupt it when you like, and run it again:
it goes on where it was, which it keeps in an annotation of the definition.

  --kubeconfig FILE
        The cluster's kubeconfig (default: as for kubectl, or the pod's own)
  --context NAME
        Context of the kubeconfig (default: its current one)
  --dry-run
        Try everything, tell what would be refused, and store nothing
  --page-size N
        Objects to list at once (default {_DEFAULT.page_size})
  --concurrency N
        Objects to rewrite at the same time (default {_DEFAULT.concurrency})
  --rate N
        Objects to rewrite a second, at most (default {_DEFAULT.rate:g})
  --settle DURATION
        How long to wait before the first, until every API server of the cluster has taken up the
        definition (default {format_duration(_DEFAULT.settle)})"""


@dataclass(frozen=True, slots=True)
class MigrateArguments:
    """What was asked for; `kinds` as they were written, none for all."""

    kinds: tuple[str, ...]
    kubeconfig: str | None
    context: str | None
    options: MigrationOptions


def parse_migrate_arguments(argv: Sequence[str]) -> MigrateArguments:
    """Read the arguments. Raises `UsageError` for any that is wrong."""
    parser = ArgumentParser(_COMMAND)
    for flag in _VALUES:
        parser.add_argument(flag, dest=flag)
    parser.add_argument(_DRY_RUN, dest=_DRY_RUN, nargs="?", const="true")
    kinds: list[str] = []
    # A flag that may stand alone would take a kind for its value.
    given, rest = parser.parse_known_args([f"{each}=true" if each == _DRY_RUN else each for each in argv])
    for argument in rest:
        if argument.startswith("-") or not argument:
            raise UsageError(f"{_COMMAND}: {unknown_argument(argument, (*_VALUES, _DRY_RUN))}")
        kinds.append(argument)
    values: dict[str, str] = vars(given)
    options = MigrationOptions(
        page_size=_read(values, "--page-size", _whole(1, 10_000), _DEFAULT.page_size),
        concurrency=_read(values, "--concurrency", _whole(1, 1_000), _DEFAULT.concurrency),
        rate=_read(values, "--rate", _rate, _DEFAULT.rate),
        settle=_read(values, "--settle", _pause, _DEFAULT.settle),
        dry_run=_read(values, _DRY_RUN, _truth, default=False),
    )
    kubeconfig = _read(values, "--kubeconfig", _text, None)
    return MigrateArguments(tuple(kinds), kubeconfig, _read(values, "--context", _text, None), options)


def _read(values: dict[str, str], flag: str, parse: Callable[[str], T], default: T) -> T:
    if flag not in values:
        return default
    try:
        return parse(values[flag])
    except ValueError as error:
        raise UsageError(f"{_COMMAND}: {flag}: {error}, not {values[flag]!r}") from error


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
            raise ValueError(f"a whole number from {least} to {most} is expected")
        return int(text)

    return parse


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        raise ValueError("a number above 0 is expected")
    return rate


def _pause(text: str) -> float:
    seconds = parse_duration(text)
    if seconds < 0:
        raise ValueError("a duration of 0 or more is expected")
    return seconds


def _text(text: str) -> str:
    if not text:
        raise ValueError("some text is expected")
    return text


def _truth(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError("true or false is expected")
    return text == "true"
