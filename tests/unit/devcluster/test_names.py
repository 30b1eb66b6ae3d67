"""Names, keys and values, with what the real server said of each."""

from __future__ import annotations

import pytest

from devcluster import names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("rule", "value", "wrong"),
    [
        (names.dns_subdomain, "a.b-c", []),
        (names.dns_subdomain, "a" * 254, ["must be no more than 253 characters"]),
        (names.dns_label, "a-b", []),
        (names.dns_label, "a.b", ["must not contain dots"]),
        (names.dns_label, "A", [LABEL]),
        (names.dns_label, "a\n", [LABEL]),
        (names.dns_label, "a" * 64, ["must be no more than 63 characters"]),
        (names.path_segment, "system:a b", []),
        (names.path_segment, "..", ["may not be '..'"]),
        (names.path_segment, "a/b%c", ["may not contain '/'", "may not contain '%'"]),
        (names.label_key, "a.b/c_D", []),
        (names.label_key, "a b", [KEY]),
        (names.label_key, "/a", ["prefix part must be non-empty"]),
        (names.label_key, f"{'a' * 260}/x", ["prefix part must be no more than 253 bytes"]),
        (names.label_key, "", ["name part must be non-empty", KEY]),
        (names.label_value, "", []),
        (names.label_value, "a" * 64, ["must be no more than 63 bytes"]),
        (names.config_key, "..a", ["must not start with '..'"]),
        (
            names.port_name,
            "a--b-",
            ["must not contain consecutive hyphens", "must not begin or end with a hyphen"],
        ),
        (names.port_name, "1", ["must contain at least one letter (a-z)"]),
        (names.port_number, 65535, []),
        (names.port_number, 0, ["must be between 1 and 65535, inclusive"]),
        (names.environment_name, "a b", []),
        (names.wildcard_subdomain, "*.a.b", []),
    ],
)
def test_name_rule_gives_the_error_of_the_real_server(rule: object, value: object, wrong: list[str]):
    assert callable(rule)
    assert rule(value) == wrong


def test_name_prefix_may_end_in_a_dash():
    assert names.dns_subdomain("a-", prefix=True) == []
    assert names.dns_label("abc-", prefix=True) == []
    assert names.dns_label("abc-") == [LABEL]
