from __future__ import annotations

from typing import Any

import pytest

from devcluster.api.yaml_text import parse_yaml


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12:30", "12:30"),
        ("1:30.5", "1:30.5"),
        ("2026-01-31", "2026-01-31"),
        ("!!timestamp 2026-01-31", "2026-01-31"),
        ("=", "="),
        ("yes", True),
        ("n", False),
        ("18446744073709551615", 18446744073709551615),
        ("18446744073709551616", 18446744073709551616.0),
        ("{2: a, true: b, 1.5: c}", {"2": "a", "true": "b", "1.5": "c"}),
        ("{<<: {a: b}, c: d}", {"a": "b", "c": "d"}),
        ("[&a [1], *a]", [[1], [1]]),
    ],
)
def test_values_are_what_the_server_takes_them_for(text: str, expected: Any) -> None:
    assert parse_yaml(text.encode()) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (".inf", r"json: unsupported value: \+Inf"),
        ("0x" + "f" * 5000, r"json: unsupported value: \+Inf"),
        (".nan", "json: unsupported value: NaN"),
        ("{null: a}", "unsupported map key of type: "),
        ("&a [*a]", "yaml: anchor value contains itself"),
        ("!!int x", "invalid literal"),
        ("[" * 20_000, "yaml: "),
        ("\x00", "yaml: "),
    ],
)
def test_what_json_cannot_say_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_yaml(text.encode())


def test_aliases_cannot_make_a_large_document_of_a_small_one() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(ValueError, match="document contains excessive aliasing"):
        parse_yaml("\n".join(lines).encode())
