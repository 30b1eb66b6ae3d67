"""Checks of names, labels and keys. Each returns the real server's error messages for a value.

An empty list means that the value is valid. `prefix` means that the value is a generateName, which may end in
a dash because the server appends characters.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

LABEL_MAXIMUM = 63
SUBDOMAIN_MAXIMUM = 253
PORT_NAME_MAXIMUM = 15
PORT_MAXIMUM = 65535

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_WILDCARD = rf"\*\.{_SUBDOMAIN}"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_HEADER = "[-A-Za-z0-9]+"

_is_label = re.compile(_LABEL).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_wildcard = re.compile(_WILDCARD).fullmatch
_is_key = re.compile(_KEY).fullmatch
_is_value = re.compile(_VALUE).fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch
_is_header = re.compile(_HEADER).fullmatch
_is_printable_but_equals = re.compile("[ -<>-~]*").fullmatch
_is_port_charset = re.compile("[-a-z0-9]+").fullmatch


def _rule(text: str, pattern: str, *examples: str) -> str:
    """Return the message of a rule, with its examples and its pattern."""
    shown = ",  or ".join(f"'{each}'" for each in examples)
    return f"{text} (e.g. {shown}, regex used for validation is '{pattern}')"


_LABEL_TEXT = _rule(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_LABEL_1035_TEXT = _rule(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_SUBDOMAIN_TEXT = _rule(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_WILDCARD_TEXT = _rule(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must "
    "consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    _WILDCARD,
    "*.example.com",
)
_KEY_TEXT = _rule(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character",
    _KEY,
    "MyName",
    "my.name",
    "123-abc",
)
_VALUE_TEXT = _rule(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character",
    _VALUE,
    "MyValue",
    "my_value",
    "12345",
)
_CONFIG_KEY_TEXT = _rule(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_KEY,
    "key.name",
    "KEY_NAME",
    "key-name",
)
_HEADER_TEXT = _rule(
    "a valid HTTP header must consist of alphanumeric characters or '-'", _HEADER, "X-Header-Name"
)


_MOST_REMEMBERED = 4096


def _remembering(check: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Return the check with a cache of valid values, because the same values are checked again and again."""
    right: set[str] = set()

    @functools.wraps(check)
    def remembering(value: str, *, prefix: bool = False) -> list[str]:
        if value in right and not prefix:
            return []
        wrong = check(value, prefix=True) if prefix else check(value)
        if not wrong and not prefix:
            if len(right) >= _MOST_REMEMBERED:
                right.clear()
            right.add(value)
        return wrong

    return remembering


@_remembering
def dns_subdomain(name: str, *, prefix: bool = False) -> list[str]:
    """Check a DNS subdomain, the name of most objects: labels joined by dots."""
    return _wrong(name, SUBDOMAIN_MAXIMUM, _is_subdomain, _SUBDOMAIN_TEXT, prefix=prefix)


@_remembering
def dns_label(name: str, *, prefix: bool = False) -> list[str]:
    """Check a DNS label, a name without dots, such as a namespace's or a container's."""
    has_dots = _is_subdomain(_masked(name) if prefix else name)
    text = "must not contain dots" if has_dots else _LABEL_TEXT
    return _wrong(name, LABEL_MAXIMUM, _is_label, text, prefix=prefix)


def dns_label_1035(name: str, *, prefix: bool = False) -> list[str]:
    """Check a DNS label that starts with a letter, such as the name of a webhook's service."""
    return _wrong(name, LABEL_MAXIMUM, _is_label_1035, _LABEL_1035_TEXT, prefix=prefix)


def wildcard_subdomain(name: str) -> list[str]:
    """Check a wildcard DNS name such as `*.example.com`."""
    return _wrong(name, SUBDOMAIN_MAXIMUM, _is_wildcard, _WILDCARD_TEXT)


def path_segment(name: str, *, prefix: bool = False) -> list[str]:
    """Check a path segment, such as the name of an RBAC object: any text that is valid in a URL path."""
    if not prefix and name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{each}'" for each in "/%" if each in name]


@_remembering
def label_key(key: str) -> list[str]:
    """Check a key of a label, annotation or resource: `name`, or `subdomain/name`."""
    parts = key.split("/")
    if len(parts) > 2:  # noqa: PLR2004 -- prefix and name
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_KEY_TEXT} {optional}"]
    name = parts[-1]
    wrong = []
    if len(parts) == 2:  # noqa: PLR2004
        if not parts[0]:
            wrong.append("prefix part must be non-empty")
        else:
            if len(parts[0].encode()) > SUBDOMAIN_MAXIMUM:
                wrong.append(f"prefix part must be no more than {SUBDOMAIN_MAXIMUM} bytes")
            if not _is_subdomain(parts[0]):
                wrong.append(f"prefix part {_SUBDOMAIN_TEXT}")
    if not name:
        wrong.append("name part must be non-empty")
    elif len(name.encode()) > LABEL_MAXIMUM:
        wrong.append(f"name part must be no more than {LABEL_MAXIMUM} bytes")
    if not _is_key(name):
        wrong.append(f"name part {_KEY_TEXT}")
    return wrong


@_remembering
def label_value(value: str) -> list[str]:
    """Check a label's value: empty, or at most 63 letters, digits, `-`, `_` and `.`."""
    too_long = [f"must be no more than {LABEL_MAXIMUM} bytes"] if len(value.encode()) > LABEL_MAXIMUM else []
    return too_long if _is_value(value) else [*too_long, _VALUE_TEXT]


def config_key(key: str) -> list[str]:
    """Check a key in the data of a ConfigMap or Secret, which must be a valid file name."""
    wrong = _wrong(key, SUBDOMAIN_MAXIMUM, _is_config_key, _CONFIG_KEY_TEXT)
    if key in {".", ".."}:
        wrong.append(f"must not be '{key}'")
    elif key.startswith(".."):
        wrong.append("must not start with '..'")
    return wrong


def environment_name(name: str) -> list[str]:
    """Check the name of an environment variable: printable characters except `=`."""
    if not name:
        return ["environment variable name must be non-empty"]
    if not _is_printable_but_equals(name):
        return [
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        ]
    return []


def header_name(name: str) -> list[str]:
    """Check the name of an HTTP header: letters, digits and dashes."""
    return [] if _is_header(name) else [_HEADER_TEXT]


def port_name(name: str) -> list[str]:
    """Check the name of a container port, which is an IANA service name."""
    charset = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    wrong = _wrong(name, PORT_NAME_MAXIMUM, _is_port_charset, charset)
    if not any("a" <= each <= "z" for each in name):
        wrong.append("must contain at least one letter (a-z)")
    if "--" in name:
        wrong.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        wrong.append("must not begin or end with a hyphen")
    return wrong


def port_number(port: int) -> list[str]:
    """Check that a port number is between 1 and 65535."""
    return [] if 1 <= port <= PORT_MAXIMUM else [f"must be between 1 and {PORT_MAXIMUM}, inclusive"]


def _masked(name: str) -> str:
    # Like the server, this replaces the last two characters by one that is valid everywhere.
    return f"{name[:-2]}a" if len(name) > 1 and name.endswith("-") else name


def _wrong(
    value: str, maximum: int, matches: Callable[[str], Any], text: str, *, prefix: bool = False
) -> list[str]:
    """Return the errors in a value: one if it is too long, and `text` if it does not match."""
    value = _masked(value) if prefix else value
    wrong = [f"must be no more than {maximum} characters"] if len(value.encode()) > maximum else []
    return wrong if matches(value) else [*wrong, text]
