from __future__ import annotations

import pytest

from manager.util.address import BindAddress, client_at, is_loopback, parse_address, parse_bind_address


@pytest.mark.parametrize(
    "text", ["localhost:6742", "petstore.default.svc:80", "10.0.0.1:1", "[::1]:65535", "a-1:6742"]
)
def test_parse_address_returns_valid_address_unchanged(text: str):
    assert parse_address(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "localhost", "localhost:", "localhost:0", "localhost:65536", "localhost:-1", "localhost:http"),
        *("localhost:" + "9" * 5000, ":6742", "[::1]", "[]:1", "::1:6742", "10.0.0:1", "two words:1"),
        *("http://localhost:6742", "a_b:1"),
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
    [
        *((host, True) for host in ("localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1")),
        *((host, False) for host in ("", "0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "localhost.a.test")),
    ],
)
def test_is_loopback_recognises_hosts_that_only_this_machine_reaches(host: str, expected: bool):
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":8080", "", 8080),
        (":0", "", 0),
        ("127.0.0.1:80", "127.0.0.1", 80),
        ("[::]:8080", "::", 8080),
        ("[fe80::1]:1", "fe80::1", 1),
        ("localhost:65535", "localhost", 65535),
        ("my-host.example.com:1", "my-host.example.com", 1),
    ],
)
def test_bind_address_is_a_host_and_a_port(text: str, host: str, port: int):
    address = parse_bind_address(text)
    assert address == BindAddress(host, port)
    assert str(address) == text
    assert parse_bind_address("0") is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "8080", ":", ":x", ":-1", ":65536", ":٨٠", "::1:80", "[::1]", "[1.2.3.4]:80", "[]:80"),
        *("256.1.1.1:80", "1.2.3:80", "a b:80", "-a:80", "http://x:80"),
    ],
)
def test_parse_bind_address_refuses_malformed_text_with_examples(text: str):
    with pytest.raises(ValueError, match='":8080"'):
        parse_bind_address(text)
