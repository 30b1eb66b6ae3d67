from __future__ import annotations

import pytest

from apis.cache.v1.memcached import Memcached
from controllers.main import OPERATORS as SHIPPED
from manager.api.apps_v1 import Deployment
from manager.cli.operators import check_names, enabled_operators, owned_by
from manager.settings import SettingsError
from tests.unit.cli.conftest import OPERATORS


def enabled(*entries: str) -> list[str]:
    return [operator.name for operator in enabled_operators(OPERATORS, entries, where="--controllers")]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (("*",), ["memcached", "foo", "pet"]),
        (("*", "-foo"), ["memcached", "pet"]),
        (("-foo", "*"), ["memcached", "pet"]),
        (("pet", "memcached"), ["memcached", "pet"]),
        (("foo", "-foo"), ["foo"]),
        (("-foo", "foo", "*"), ["memcached", "pet"]),
    ],
)
def test_controllers_setting_obeys_the_first_entry_that_names_a_controller(
    entries: tuple[str, ...], expected: list[str]
):
    assert enabled(*entries) == expected


@pytest.mark.parametrize("entry", ["memcache", "-memcache"])
def test_controllers_setting_lists_known_names_when_a_name_is_unknown(entry: str):
    with pytest.raises(SettingsError) as error:
        enabled("*", entry)
    assert str(error.value) == (
        "--controllers: unknown controller 'memcache'; did you mean 'memcached'? "
        "the controllers are memcached, foo, pet"
    )


def test_controllers_setting_is_refused_when_it_leaves_no_controller():
    with pytest.raises(SettingsError, match="'-foo' leaves no controller to run; to run all but some"):
        enabled("-foo")
    with pytest.raises(SettingsError, match=r"leaves no controller to run$"):
        enabled("*", "-memcached", "-foo", "-pet")


def test_check_names_refuses_an_unknown_controller_in_other_settings():
    check_names(OPERATORS, {"foo": 1}, where="--concurrency")
    with pytest.raises(SettingsError, match="--concurrency: unknown controller 'bar'; the controllers are"):
        check_names(OPERATORS, {"bar": 1}, where="--concurrency")


def test_owned_by_returns_the_owned_kinds_that_operators_declare():
    assert owned_by(SHIPPED)[Memcached.gvk] == [Deployment.gvk]
