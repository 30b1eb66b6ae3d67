from __future__ import annotations

import pytest

from manager.address import parse_address
from manager.duration import parse_duration
from manager.settings import Setting, SettingValues, UndeclaredSetting

ADDRESS = Setting("store-address", parse_address, default="localhost:6742", description="where it is")
INTERVAL = Setting("store-interval", parse_duration, default="1m30s", description="how often")
LABEL = Setting("store-label", description="what it is called")


def test_a_default_is_read_as_a_given_value_would_be():
    assert ADDRESS.default_value() == "localhost:6742"
    assert INTERVAL.default_value() == 90.0
    assert LABEL.default_value() is None


def test_the_variable_is_the_name_in_capitals():
    assert ADDRESS.variable == "STORE_ADDRESS"


@pytest.mark.parametrize(
    "name", ["", "Store", "store_address", "-store", "store-", "store--address", "1st", "a b"]
)
def test_what_cannot_be_a_flag_and_a_variable_is_no_name(name: str):
    with pytest.raises(ValueError, match="cannot name a setting"):
        Setting(name, default="x", description="")


def test_a_default_that_is_none_of_its_own_values_is_found_where_it_is_declared():
    with pytest.raises(ValueError, match=r"the default '90' of the setting 'x': a duration such as"):
        Setting("x", parse_duration, default="90", description="")


def test_a_key_of_the_same_name_is_another_key():
    twin = Setting("store-address", parse_address, default="localhost:6742", description="where it is")
    with pytest.raises(UndeclaredSetting):
        SettingValues({ADDRESS: "store:1"})[twin]


def test_a_setting_that_nobody_declared_is_named_with_the_way_to_declare_it():
    with pytest.raises(UndeclaredSetting) as error:
        SettingValues()[ADDRESS]
    assert str(error.value) == (
        "the setting 'store-address' is not declared: its operator has to list it, "
        "as in `image = KEY` in its class"
    )
