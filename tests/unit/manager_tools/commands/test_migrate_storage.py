from __future__ import annotations

import click
import pytest

from apis.cache.v1.memcached import Memcached
from apis.petstore.v1alpha1.pet import Pet
from manager_tools.commands.migrate_storage import MigrateArguments, named_definitions
from manager_tools.migration.report import MigrationOptions
from tests.support.widget import Widget
from tests.unit.cli.conftest import Command

KINDS = [Memcached, Pet, Widget]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[MigrateArguments]:
    """Have `migrate-storage` end at once; the list gets what it would do."""
    seen: list[MigrateArguments] = []

    async def migrate(_: object, arguments: MigrateArguments, *__: object) -> int:
        seen.append(arguments)
        return 0

    monkeypatch.setattr("manager_tools.commands.migrate_storage._migrate", migrate)
    return seen


def test_migrate_storage_uses_defaults_when_no_flag_is_given(command: Command, asked: list[MigrateArguments]):
    assert command("migrate-storage").code == 0
    assert asked == [MigrateArguments((), None, None, MigrationOptions())]


def test_migrate_storage_reads_every_flag_at_any_place(command: Command, asked: list[MigrateArguments]):
    argv = "memcached --kubeconfig k --page-size=7 a.b --dry-run c.d --rate=0.5 --concurrency 2"
    assert command("migrate-storage", *argv.split(), "--settle", "1m", "--context=c").code == 0
    options = MigrationOptions(page_size=7, concurrency=2, rate=0.5, settle=60, dry_run=True)
    assert asked == [MigrateArguments(("memcached", "a.b", "c.d"), "k", "c", options)]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--page-size=0"], "'--page-size': 0 is not in the range 1<=x<=10000."),
        (["--page-size=many"], "'--page-size': 'many' is not a valid integer range."),
        (["--concurrency=-1"], "'--concurrency': -1 is not in the range 1<=x<=1000."),
        (["--rate=0"], "'--rate': a number above 0 is expected"),
        (["--rate=nan"], "'--rate': a number above 0"),
        (["--rate=inf"], "'--rate': a number above 0"),
        (["--settle=5"], "'--settle': a duration such as \"15s\""),
        (["--settle=-5s"], "'--settle': a duration of 0 or more"),
        (["--kubeconfig="], "'--kubeconfig': some text"),
        (["--kubeconfig"], "Option '--kubeconfig' requires an argument."),
        (["--dryrun"], "No such option '--dryrun'. Did you mean '--dry-run'?"),
        ([""], "unknown kind ''; ours are Memcached; any other goes by the full"),
    ],
)
def test_migrate_storage_names_the_wrong_argument(command: Command, argv: list[str], told: str):
    said = command("migrate-storage", *argv).refusal()
    assert said.removeprefix("migrate-storage: ").removeprefix("Invalid value for ").startswith(told)


def test_named_definitions_returns_all_kinds_when_no_name_is_given():
    assert named_definitions([], KINDS) == [
        "memcacheds.cache.example.com",
        "pets.petstore.example.com",
        "widgets.test.example.com",
    ]


@pytest.mark.parametrize("name", ["Widget", "widget", "WIDGETS", "wd", "widgets.test.example.com"])
def test_named_definitions_accepts_any_name_of_a_kind(name: str):
    assert named_definitions([name], KINDS) == ["widgets.test.example.com"]


def test_named_definitions_returns_a_kind_once_when_it_is_named_twice():
    assert named_definitions(["pets", "Pet", "wd"], KINDS) == [
        "pets.petstore.example.com",
        "widgets.test.example.com",
    ]


def test_named_definitions_accepts_the_full_name_of_an_unknown_definition():
    assert named_definitions(["certificates.cert-manager.io"], KINDS) == ["certificates.cert-manager.io"]


def test_named_definitions_lists_known_kinds_when_a_name_is_unknown():
    with pytest.raises(
        click.UsageError,
        match=r"unknown kind 'cat'; ours are Memcached, Pet, Widget; any other goes by the full",
    ):
        named_definitions(["cat"], KINDS)


def test_named_definitions_refuses_an_ambiguous_name():
    class Other(Widget, group="other.example.com", version="v1", plural="others", kind="Widget"):
        """Another widget."""

    with pytest.raises(
        click.UsageError, match=r"each of widgets\.test\.example\.com, others\.other\.example\.com"
    ):
        named_definitions(["Widget"], [*KINDS, Other])
