from __future__ import annotations

import pytest

from apis.cache.v1.memcached import Memcached
from apis.petstore.v1alpha1.pet import Pet
from controllers.main import PROGRAM
from manager.cli.arguments import UsageError
from manager_tools.commands.migrate_storage import named_definitions, parse_migrate_arguments
from manager_tools.migration.report import MigrationOptions
from tests.support.widget import Widget

KINDS = [Memcached, Pet, Widget]


def test_parse_migrate_arguments_uses_defaults_when_none_is_given():
    arguments = parse_migrate_arguments([], PROGRAM)
    assert (arguments.kinds, arguments.kubeconfig, arguments.context) == ((), None, None)
    assert arguments.options == MigrationOptions()


def test_parse_migrate_arguments_reads_every_flag_at_any_place():
    argv = "Pet --kubeconfig k --page-size=7 memcacheds --dry-run foos --rate=0.5 --concurrency 2 --settle 1m"
    arguments = parse_migrate_arguments([*argv.split(), "--context=c"], PROGRAM)
    assert arguments.kinds == ("Pet", "memcacheds", "foos")
    assert (arguments.kubeconfig, arguments.context) == ("k", "c")
    assert arguments.options == MigrationOptions(
        page_size=7, concurrency=2, rate=0.5, settle=60, dry_run=True
    )


@pytest.mark.parametrize(("text", "value"), [("--dry-run=false", False), ("--dry-run=true", True)])
def test_parse_migrate_arguments_reads_each_form_of_dry_run(text: str, value: bool):
    assert parse_migrate_arguments([text], PROGRAM).options.dry_run is value


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--page-size=0"], "--page-size: a whole number from 1 to 10000 is expected, not '0'"),
        (["--page-size=many"], "--page-size: a whole number"),
        (["--concurrency=-1"], "--concurrency: a whole number from 1 to 1000"),
        (["--rate=0"], "--rate: a number above 0 is expected, not '0'"),
        (["--rate=nan"], "--rate: a number above 0"),
        (["--rate=inf"], "--rate: a number above 0"),
        (["--settle=5"], '--settle: a duration such as "15s"'),
        (["--settle=-5s"], "--settle: a duration of 0 or more"),
        (["--dry-run=maybe"], "--dry-run: true or false"),
        (["--kubeconfig="], "--kubeconfig: some text"),
        (["--kubeconfig"], "--kubeconfig needs a value"),
        (["--dryrun"], "unknown flag '--dryrun'; did you mean --dry-run?"),
        ([""], "unexpected argument ''"),
    ],
)
def test_parse_migrate_arguments_names_the_wrong_argument(argv: list[str], told: str):
    with pytest.raises(UsageError) as error:
        parse_migrate_arguments(argv, PROGRAM)
    assert str(error.value).startswith(f"migrate-storage: {told}")


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
        UsageError, match=r"unknown kind 'cat'; ours are Memcached, Pet, Widget; any other goes by the full"
    ):
        named_definitions(["cat"], KINDS)


def test_named_definitions_refuses_an_ambiguous_name():
    class Other(Widget, group="other.example.com", version="v1", plural="others", kind="Widget"):
        """Another widget."""

    with pytest.raises(UsageError, match=r"each of widgets\.test\.example\.com, others\.other\.example\.com"):
        named_definitions(["Widget"], [*KINDS, Other])
