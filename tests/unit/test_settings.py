from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from manager.settings import Setting, SettingsError, SettingValues, parse_bool
from manager.util.address import parse_address
from manager.util.duration import parse_duration, parse_wait
from tests.support.settings import load_declared, load_settings
from tests.unit.cli.conftest import WriteFile, no_settings_in_the_environment, write_file

ADDRESS = Setting("store-address", parse_address, default="localhost:6742", description="where it is")
INTERVAL = Setting("store-interval", parse_duration, default="1m30s", description="how often")
LABEL = Setting("store-label", description="what it is called")


@pytest.mark.parametrize(
    "name", ["", "Store", "store_address", "-store", "store-", "store--address", "1st", "a b"]
)
def test_setting_refuses_a_name_that_is_invalid_as_flag_or_variable(name: str):
    with pytest.raises(ValueError, match="cannot name a setting"):
        Setting(name, default="x", description="")


def test_setting_refuses_a_declaration_without_description():
    with pytest.raises(TypeError, match=r"^the setting 'x' needs a description"):
        Setting("x")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("parse", "default", "shown"),
    [
        (int, 0, "0"),
        (float, 2, "2"),
        (float, 0.5, "0.5"),
        (parse_bool, False, "false"),
        (parse_bool, True, "true"),
        (bool, False, "false"),
        (parse_duration, 90, "1m30s"),
        (parse_wait, 0.25, "250ms"),
        (Path, Path("/tmp"), "/tmp"),
    ],
)
def test_setting_default_can_be_a_parsed_value_or_a_text_to_parse(parse: Any, default: Any, shown: str):
    setting = Setting("x", parse, default=default, description="")
    assert (setting.default, setting.default_value()) == (shown, default)
    assert setting.parse(shown) == default
    assert Setting("x", parse, default=shown, description="").default_value() == default


@pytest.mark.parametrize(
    ("parse", "default", "expected"),
    [
        (int, 1.5, "a whole number is expected"),
        (int, True, "a whole number is expected"),
        (float, [], "a number is expected"),
        (parse_address, 80, "a host and a port such as"),
        (bool, "perhaps", "true or false is expected"),
        (bool, 3, "true or false is expected"),
        (parse_duration, True, "a duration such as"),
        (parse_duration, "90", "a duration such as"),
        (parse_wait, -1, "a duration"),
    ],
)
def test_setting_refuses_an_invalid_default_and_describes_a_valid_value(
    parse: Any, default: Any, expected: str
):
    with pytest.raises(
        ValueError, match=f"^the default {re.escape(repr(default))} of the setting 'x': {expected}"
    ):
        Setting("x", parse, default=default, description="")


def test_setting_refuses_an_invalid_default_for_pods():
    with pytest.raises(ValueError, match=r"^the in_pod 'x' of the setting 'x': a whole number is expected"):
        Setting("x", int, default=1, in_pod="x", description="")


def test_setting_values_lookup_fails_for_another_setting_object_with_the_name_of_a_declared_setting():
    twin = Setting("store-address", parse_address, default="localhost:6742", description="where it is")
    with pytest.raises(LookupError) as error:
        SettingValues({ADDRESS: "store:1"})[twin]
    assert str(error.value) == (
        "the setting 'store-address' is not declared: its operator has to list it, "
        "as in `image = KEY` in its class"
    )


def test_setting_attribute_looks_up_its_value_once_per_operator_instance():
    class Values(SettingValues):
        looked_up = 0

        def __getitem__(self, key: Setting[Any]) -> Any:
            self.looked_up += 1
            return super().__getitem__(key)

    class Operator:
        label = LABEL

        def __init__(self, text: str) -> None:
            self.settings = Values({LABEL: text})

    first, second = Operator("a"), Operator("b")
    assert [first.label, first.label, second.label] == ["a", "a", "b"]
    assert (first.settings.looked_up, second.settings.looked_up) == (1, 1)
    assert Operator.label is LABEL


def test_setting_overrides_the_setting_of_the_same_attribute_in_a_base_class():
    class Base:
        label = LABEL

    class Operator(Base):
        label = INTERVAL

        def __init__(self) -> None:
            self.settings = SettingValues({LABEL: "a", INTERVAL: 2.0})

        def inherited(self) -> Any:
            return super().label

    operator = Operator()
    assert (operator.inherited(), operator.label) == ("a", 2.0)


__all__ = ["no_settings_in_the_environment", "write_file"]

DECLARED: tuple[Setting[Any], ...] = (ADDRESS, INTERVAL, LABEL)


@pytest.fixture(autouse=True)
def none_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in DECLARED:
        monkeypatch.delenv(setting.variable, raising=False)


@pytest.mark.parametrize(
    ("written", "text"), [("7", "7"), ("1.5", "1.5"), ("true", "true"), ("'007'", "007"), ("a b", "a b")]
)
def test_declared_settings_get_numbers_and_booleans_of_the_config_file_as_text(
    write_file: WriteFile, written: str, text: str
):
    path = write_file(f"store-label: {written}\nstore-address:\n")
    values = load_declared(DECLARED, {"config": path})
    assert (values[LABEL], values[ADDRESS]) == (text, "localhost:6742")


def test_declared_setting_error_describes_the_expected_value_of_the_setting():
    def colour(text: str) -> int:
        return {"red": 1}[text]

    def never(text: str) -> str:
        raise ValueError("no:\n  not this\n")

    size, ratio = Setting("size", int, description=""), Setting("ratio", float, description="")
    shade = Setting("shade", colour, description="")
    picky = Setting("picky", never, description="")
    for setting, told in (
        (size, "a whole number is expected"),
        (ratio, "a number is expected"),
        (shade, "KeyError: 'x' (its parser should raise ValueError)"),
        (picky, "no: not this"),
    ):
        with pytest.raises(SettingsError) as error:
            load_declared([setting], {setting.name: "x"})
        assert str(error.value) == f"invalid value 'x' for --{setting.name}: {told}"


def test_load_settings_accepts_and_ignores_settings_that_operators_declare(write_file: WriteFile):
    flags = {"config": write_file("store-label: [x]\nlog-level: warn"), "store-address": "nonsense"}
    assert load_settings(flags, DECLARED).log_level == "warn"


def test_load_settings_suggests_the_declared_key_for_a_misspelled_key(write_file: WriteFile):
    path = write_file("store-adress: a:1")
    with pytest.raises(SettingsError, match="unknown key 'store-adress'; did you mean 'store-address'"):
        load_settings({"config": path}, DECLARED)
    with pytest.raises(SettingsError, match=r"unknown key 'store-adress'$"):
        load_settings({"config": path})
