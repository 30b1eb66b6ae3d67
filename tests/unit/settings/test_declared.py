from __future__ import annotations

from typing import Any

import pytest

from manager.settings import Setting, SettingsError
from manager.util.address import parse_address
from manager.util.duration import parse_duration
from tests.support.settings import load_declared, load_settings
from tests.unit.settings.conftest import WriteFile

ADDRESS = Setting("store-address", parse_address, default="localhost:6742", description="where it is")
INTERVAL = Setting("store-interval", parse_duration, default="10m", description="how often")
LABEL = Setting("store-label", description="what it is called")
DECLARED: tuple[Setting[Any], ...] = (ADDRESS, INTERVAL, LABEL)


@pytest.fixture(autouse=True)
def none_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in DECLARED:
        monkeypatch.delenv(setting.variable, raising=False)


def refusal(flags: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as error:
        load_declared(DECLARED, flags)
    text = str(error.value)
    assert "\n" not in text
    return text


def test_load_declared_returns_defaults_without_sources():
    values = load_declared(DECLARED, {})
    assert (values[ADDRESS], values[INTERVAL], values[LABEL]) == ("localhost:6742", 600.0, None)


@pytest.mark.parametrize(
    ("written", "text"), [("7", "7"), ("1.5", "1.5"), ("true", "true"), ("'007'", "007"), ("a b", "a b")]
)
def test_numbers_and_truths_in_a_file_are_read_as_their_text(write_file: WriteFile, written: str, text: str):
    path = write_file(f"store-label: {written}\nstore-address:\n")
    values = load_declared(DECLARED, {"config": path})
    assert (values[LABEL], values[ADDRESS]) == (text, "localhost:6742")


def test_load_declared_names_flag_of_wrong_value():
    assert refusal({"store-address": "store"}) == (
        "invalid value 'store' for --store-address: "
        'a host and a port such as "localhost:6742" or "[::1]:6742" are expected'
    )
    assert refusal({"store-label": ""}) == "invalid value '' for --store-label: some text is expected"


def test_load_declared_reports_errors_of_builtin_types_and_faulty_parsers():
    def colour(text: str) -> int:
        return {"red": 1}[text]

    size, ratio = Setting("size", int, description=""), Setting("ratio", float, description="")
    shade = Setting("shade", colour, description="")
    for setting, told in (
        (size, "a whole number is expected"),
        (ratio, "a number is expected"),
        (shade, "KeyError: 'x' (its parser should raise ValueError)"),
    ):
        with pytest.raises(SettingsError) as error:
            load_declared([setting], {setting.name: "x"})
        assert str(error.value) == f"invalid value 'x' for --{setting.name}: {told}"


def test_load_declared_names_variable_of_wrong_value(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STORE_INTERVAL", "often")
    assert refusal({}).startswith(
        "invalid value 'often' for the environment variable STORE_INTERVAL: a duration such as"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("store-interval: 30", "invalid value '30' for 'store-interval' in {}: a duration such as"),
        ("store-interval: 0.5", "invalid value '0.5' for 'store-interval' in {}: a duration such as"),
        (
            "store-label: [a, b]",
            "invalid value '['a', 'b']' for 'store-label' in {}: a single value",
        ),
        ("store-label: 2021-04-01", "invalid value '2021-04-01' for 'store-label' in {}: a single value"),
    ],
)
def test_load_declared_names_key_and_file_of_wrong_value(write_file: WriteFile, text: str, told: str):
    path = write_file(text)
    assert refusal({"config": path}).replace('"', "'").startswith(told.format(path))


def test_load_declared_joins_multiline_refusal_into_one_line():
    def never(text: str) -> str:
        if text == "ok":
            return text
        raise ValueError("no:\n  not this\n")

    picky = Setting("picky", never, default="ok", description="")
    with pytest.raises(SettingsError) as error:
        load_declared([picky], {"picky": "x"})
    assert str(error.value) == "invalid value 'x' for --picky: no: not this"


def test_load_settings_ignores_values_of_declared_settings(write_file: WriteFile):
    flags = {"config": write_file("store-label: [x]\nlog-level: warn"), "store-address": "nonsense"}
    assert load_settings(flags, DECLARED).log_level == "warn"


def test_load_settings_suggests_declared_key_for_misspelled_one(write_file: WriteFile):
    path = write_file("store-adress: a:1")
    with pytest.raises(SettingsError, match="unknown key 'store-adress'; did you mean 'store-address'"):
        load_settings({"config": path}, DECLARED)
    with pytest.raises(SettingsError, match=r"unknown key 'store-adress'$"):
        load_settings({"config": path})
