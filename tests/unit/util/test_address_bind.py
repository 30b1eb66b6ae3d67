from __future__ import annotations

import pytest

from manager.util.address import BindAddress, parse_bind_address


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


def test_zero_is_no_address():
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
