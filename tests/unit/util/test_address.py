from __future__ import annotations

import pytest

from manager.util.address import client_at, is_loopback, parse_address


@pytest.mark.parametrize(
    "text", ["localhost:6742", "petstore.default.svc:80", "10.0.0.1:1", "[::1]:65535", "a-1:6742"]
)
def test_parse_address_returns_valid_address_unchanged(text: str):
    assert parse_address(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        "localhost:",
        "localhost:0",
        "localhost:65536",
        "localhost:-1",
        "localhost:" + "9" * 5000,
        "localhost:http",
        ":6742",
        "[::1]",
        "[]:1",
        "::1:6742",
        "10.0.0:1",
        "two words:1",
        "http://localhost:6742",
        "a_b:1",
    ],
)
def test_parse_address_refuses_invalid_address_and_shows_expected_form(text: str):
    with pytest.raises(ValueError, match='a host and a port such as "localhost:6742" or'):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "client"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::9", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        (None, ""),
    ],
)
def test_client_at_maps_addresses_of_one_machine_to_one_client(host: str | None, client: str):
    assert client_at(host) == client


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True)]
    + [
        (host, False)
        for host in ("", "0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "localhost.example.test")
    ],
)
def test_is_loopback_recognises_hosts_that_only_this_machine_reaches(host: str, expected: bool):
    assert is_loopback(host) is expected
