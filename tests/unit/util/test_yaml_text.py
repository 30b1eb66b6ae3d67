"""YAML of users: parsed within limits, or refused in one line that quotes no value."""

from __future__ import annotations

import re

import pytest

from manager.util.yaml_text import NotYaml, load, yaml_documents


@pytest.mark.parametrize(
    "value",
    [
        *("{token: hunter2: x}", "*hunter2", "!hunter2", "!<hunter2>", "!!hunter2", "!x!hunter2"),
        *("!hunter2!x", "!hun%ter2", "!hun%ffter2", "!<hunter2 x", "&hunter2 &hunter2 x"),
        *("[&hunter2 x, &hunter2 y, *hunter3]", "[hunter2", "{hunter2: [", "@hunter2", "`hunter2"),
        *("|hunter2", "'hunter2", '"hunter2\\q"', '"hunter2\\xz"', "!!int hunter2", "!!float hunter2"),
        *("!!bool hunter2", "!!timestamp hunter2", "!!binary h\u00fcnter2", "!!binary hunter2!"),
        *("!!map hunter2", "!!seq hunter2", "!!set [hunter2]", "!!omap [hunter2]", "!!pairs [hunter2]"),
        *("{[hunter2]: x}", "{<<: hunter2}", "x\n%TAG !hunter2! x"),
        *("x\n...\n%TAG !hunter2! x\n%TAG !hunter2! x\n--- y", "x\n...\n%YAML 9.hunter2\n---"),
    ],
)
def test_load_error_quotes_no_value_of_invalid_yaml(value: str):
    with pytest.raises(NotYaml, match=r"^not valid YAML in line \d+, column \d+: [^\"]+$") as caught:
        load(f"users:\n- name: a\n  user: {value}".encode())
    told = str(caught.value)
    for quoted in re.findall("'([^']*)'", told):
        assert quoted in {",", "]", "}", ":", "-", "?", ">", "<document start>"}
    assert not re.search("hun|ter2|nter", told)


BOMB = "a: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
DEEP = "[" * 120 + "1" + "]" * 120
MERGED = "b: &b0 {x: y}\n" + "".join(f"b{n}: &b{n} {{<<: [*b{n - 1}, *b{n - 1}]}}\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"users: [{name: admin, user: {token: hunter2 ]", " in line 1, column 45: did not find expected"),
        (b"apiVersion: v1\nusers:\n- token: hunter2\n  'token\n", " in line 5, column 1: "),
        (b"token: hunter2\xff\xfe", ": it has an impossible character or value"),
        (b"\x00", ": it has an impossible character or value"),
        (b"token: hunter2\nport: " + b"9" * 5000, " in line 2, column 7: it is a number of"),
        (b"token: hunter2\nport: 0x" + b"f" * 5000, " in line 2, column 7: it is a number of"),
        (b"token: hunter2\nissued: 2001-99-99", " in line 2, column 9: there is no such value"),
        (b"token: hunter2\nlasts: 1" + b":1" * 400 + b".5", " in line 2, column 8: there is no such value"),
        (b"token: hunter2\nusers: " + b"[" * 250, " in line 2, column 207: it is nested too"),
        (b"a: !!int x", " in line 1, column 4: there is no such value"),
        (BOMB.encode(), " in line 18, column 12: its aliases expand to too much"),
        (MERGED.encode(), " in line 17, column 23: its aliases expand to too much"),
        (f"a: &a {'x' * 10_000}\nb: [{', '.join(['*a'] * 200)}]".encode(), " in line 2, column 405: "),
        (f"a: &a {DEEP}\nb: {DEEP.replace('1', '*a')}".encode(), " in line 2, column 124: it is nested too"),
        (b"a: &a [[*a]]", " in line 1, column 9: it is part of itself, by an alias"),
    ],
)
def test_load_error_names_line_and_column_and_quotes_no_value(content: bytes, expected: str):
    for read in (load, yaml_documents):
        with pytest.raises(NotYaml) as error:
            read(content)
        if read is load:
            assert str(error.value).startswith(f"not valid YAML{expected}")
        assert "hunter2" not in str(error.value)
        assert "\n" not in str(error.value)


def test_load_accepts_yaml_aliases_that_expand_to_few_values():
    users = load(b"[{user: &a {token: x}}, {user: {<<: *a}}, {user: *a}]")
    assert users == [{"user": {"token": "x"}}] * 3


def test_load_accepts_aliases_beside_deep_values_up_to_the_nesting_limit():
    text = "a: &a " + "[" * 99 + "]" * 99 + "\nb: " + "[" * 100 + "*a, x, *a, " + "[" * 99 + "]" * 199
    assert load(text.encode())["b"]
    with pytest.raises(NotYaml, match="nested too deeply"):
        load(text.replace("b: ", "b: [").encode() + b"]")
