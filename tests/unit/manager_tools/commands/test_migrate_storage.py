from __future__ import annotations

import click
import pytest

from apis.cache.v1.memcached import Memcached
from apis.petstore.v1alpha1.pet import Pet
from manager_tools.commands.migrate_storage import MigrateArguments, named_definitions
from manager_tools.migration.report import MigrationOptions
from tests.support.kinds import Widget
from tests.unit.cli.conftest import Command

KINDS = [Memcached, Pet, Widget]


def test_migrate_storage_parses_every_flag_when_flags_and_positional_arguments_alternate(
    command: Command, monkeypatch: pytest.MonkeyPatch
):
    asked: list[MigrateArguments] = []

    async def migrate(_: object, arguments: MigrateArguments, *__: object) -> int:
        asked.append(arguments)
        return 0

    monkeypatch.setattr("manager_tools.commands.migrate_storage._migrate", migrate)
    assert command("migrate-storage").code == 0
    argv = "memcached --kubeconfig k --page-size=7 a.b --dry-run c.d --rate=0.5 --concurrency 2"
    assert command("migrate-storage", *argv.split(), "--settle", "1m", "--context=c").code == 0
    options = MigrationOptions(page_size=7, concurrency=2, rate=0.5, settle=60, dry_run=True)
    assert asked == [
        MigrateArguments((), None, None, MigrationOptions()),
        MigrateArguments(("memcached", "a.b", "c.d"), "k", "c", options),
    ]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--page-size=0"], "'--page-size': 0 is not in the range 1<=x<=10000."),
        (["--concurrency=-1"], "'--concurrency': -1 is not in the range 1<=x<=1000."),
        (["--rate=nan"], "'--rate': a number above 0"),
        (["--settle=-5s"], "'--settle': a duration of 0 or more"),
        (["--kubeconfig="], "'--kubeconfig': a text that is not empty"),
        ([""], "unknown kind ''; known kinds are Memcached; for any other, give the full"),
    ],
)
def test_migrate_storage_error_names_the_invalid_argument(command: Command, argv: list[str], told: str):
    said = command("migrate-storage", *argv).refusal()
    assert said.removeprefix("migrate-storage: ").removeprefix("Invalid value for ").startswith(told)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([], ["memcacheds.cache.example.com", "pets.petstore.example.com", "widgets.test.example.com"]),
        *(
            ([name], ["widgets.test.example.com"])
            for name in ("Widget", "widget", "WIDGETS", "wd", "widgets.test.example.com")
        ),
        (["pets", "Pet", "wd"], ["pets.petstore.example.com", "widgets.test.example.com"]),
        (["certificates.cert-manager.io"], ["certificates.cert-manager.io"]),
    ],
)
def test_definition_lookup_accepts_names_of_known_kinds_and_full_names_of_other_crds(
    names: list[str], found: list[str]
):
    assert named_definitions(names, KINDS) == found


def test_definition_lookup_refuses_an_unknown_or_ambiguous_name():
    class Other(Widget, group="other.example.com", version="v1", plural="others", kind="Widget"):
        """Kind of the same name in another group."""

    known = "unknown kind 'cat'; known kinds are Memcached, Pet, Widget; for any other, give the full"
    with pytest.raises(click.UsageError, match=known):
        named_definitions(["cat"], KINDS)
    with pytest.raises(click.UsageError, match=r"ambiguous: widgets\.test\.example\.com, others\.other\."):
        named_definitions(["Widget"], [*KINDS, Other])
