"""Parsing of JSON and YAML that no recording of a real server contains."""

from __future__ import annotations

import pytest

from devcluster.api.syntax import is_too_deep, parse_yaml
from tests.unit.devcluster.api.conftest import CONFIG_MAPS, MERGE, Api


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (".inf", r"json: unsupported value: \+Inf"),
        ("&a [*a]", "yaml: anchor value contains itself"),
        ("!!int x", "invalid literal"),
        ("[" * 20_000, "yaml: "),
        ("\x00", "yaml: "),
    ],
)
def test_parse_yaml_refuses_malformed_text_and_values_that_json_cannot_express(text: str, problem: str):
    with pytest.raises(ValueError, match=problem):
        parse_yaml(text.encode())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("-0o17", -15),
        ("08", 8.0),
        ("1.e3", 1000.0),
        ("1.5e300", 1.5e300),
        (".5", 0.5),
        ("1e400", "1e400"),
        ("0x" + "f" * 5000, "0x" + "f" * 5000),
        ("1.2.3", "1.2.3"),
        (".", "."),
    ],
)
def test_parse_yaml_returns_each_number_that_go_can_parse_and_any_other_as_text(
    text: str, value: float | str
):
    read = parse_yaml(text.encode())
    assert (read, type(read)) == (value, type(value))


def test_parse_yaml_refuses_aliases_that_expand_to_a_large_document():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(ValueError, match="document contains excessive aliasing"):
        parse_yaml("\n".join(lines).encode())


def nested(levels: int) -> bytes:
    return b'{"metadata":{"name":"a"},"x":' + b"[" * levels + b"]" * levels + b"}"


@pytest.mark.parametrize("levels", [250, 2000])
async def test_deeply_nested_body_or_patch_is_refused_with_status_400(api: Api, levels: int):
    refused = await api.expect(400, "POST", CONFIG_MAPS, nested(levels))
    assert "exceeded max depth" in refused["message"]
    await api.expect(201, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    refused = await api.expect(400, "PATCH", f"{CONFIG_MAPS}/a", nested(levels), media=MERGE)
    assert refused["message"] == "error decoding patch: exceeded max depth"


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{"yes":"no","<<":"on","=":null},"b":[true,1,18446744073709551615,"\\\\\\"\\n\\u0007"]}',
        '{"a":"1e3","b":"2001-01-01","c":"~","":[],"d":{}}',
        '{"a":1.0,"b":1e16,"c":1e400,"d":-0.0}',
        '{"a":99999999999999999999}',
        '{"a":"é\x85\ufeff"}',
    ],
)
def test_parse_yaml_fast_path_for_json_returns_the_same_result_as_the_yaml_parser(text: str):
    quickly, slowly = [], []
    for body, read in ((text, quickly), (f"{text}\n", slowly)):
        try:
            read.append(parse_yaml(body.encode()))
        except ValueError as error:
            read.append(str(error))
    assert quickly == slowly
    assert repr(quickly) == repr(slowly)


def test_is_too_deep_finds_nested_sequences_on_one_line():
    body = b"- " * 220 + b"a"
    assert is_too_deep(parse_yaml(body), body)
