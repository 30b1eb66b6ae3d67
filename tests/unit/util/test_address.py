from __future__ import annotations

import pytest
from yarl import URL

from manager.util.address import (
    BindAddress,
    NotAProxy,
    client_at,
    is_loopback,
    parse_address,
    parse_bind_address,
    proxy_for,
    proxy_url,
)


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
        ("2001:db8:1:3::9", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        (None, ""),
    ],
)
def test_client_at_returns_the_same_identity_for_ipv6_addresses_of_a_subnet(host: str | None, client: str):
    assert client_at(host) == client


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1")),
        *((host, False) for host in ("", "0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "localhost.a.test")),
    ],
)
def test_is_loopback_returns_true_only_for_loopback_hosts(host: str, expected: bool):
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":8080", "", 8080),
        ("127.0.0.1:80", "127.0.0.1", 80),
        ("[::]:8080", "::", 8080),
        ("[fe80::1]:1", "fe80::1", 1),
        ("my-host.example.com:1", "my-host.example.com", 1),
    ],
)
def test_parse_bind_address_returns_host_and_port(text: str, host: str, port: int):
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
def test_parse_bind_address_refuses_malformed_text_and_shows_examples(text: str):
    with pytest.raises(ValueError, match='":8080"'):
        parse_bind_address(text)


SERVER = URL("https://api.example.com:6443")
PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"HTTPS_PROXY": PROXY}, PROXY),
        ({"https_proxy": PROXY}, PROXY),
        ({"HTTP_PROXY": PROXY}, None),
        ({"https_proxy": "http://other", "HTTPS_PROXY": PROXY}, PROXY),
        ({"HTTPS_PROXY": "proxy:3128"}, PROXY),
        *(
            ({"HTTPS_PROXY": f"http://me:{password}@proxy:1080"}, "http://me:p%40ss@proxy:1080")
            for password in ("p@ss", "p%40ss")
        ),
    ],
)
def test_proxy_comes_from_the_variable_of_the_url_scheme(environ: dict[str, str], expected: str | None):
    assert proxy_for(SERVER, environ) == (expected and URL(expected))


def test_proxy_error_names_the_variable_that_is_set():
    with pytest.raises(NotAProxy, match=r"^https_proxy: not the URL"):
        proxy_for(SERVER, {"HTTPS_PROXY": "", "https_proxy": "socks4://proxy"})


@pytest.mark.parametrize(
    ("server", "no_proxy", "exempt"),
    [
        ("https://api.example.com", "example.com", True),
        ("https://api.example.com", "other.com, api.example.com", True),
        ("https://API.Example.com", "example.COM", True),
        ("https://anexample.com", "example.com", False),
        ("https://api.example.com", ".example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://api.example.com", "*.example.com", True),
        ("https://api.example.com", "*", True),
        ("https://localhost:1", "", True),
        ("https://[::1]:1", "", True),
        ("https://api.example.com:6443", "example.com:6443", True),
        ("https://api.example.com:6443", "example.com:443", False),
        ("https://10.96.0.1", "10.96.0.1", True),
        ("https://10.96.0.1", "10.96.0.0/12", True),
        ("https://[fd00::1]", "fd00::/8", True),
        ("https://[fd00::1]:443", "[fd00::1]:443", True),
    ],
)
def test_proxy_is_none_for_a_server_in_the_no_proxy_variable(server: str, no_proxy: str, exempt: bool):
    for name in ("NO_PROXY", "no_proxy"):
        assert (proxy_for(URL(server), {"HTTPS_PROXY": PROXY, name: no_proxy}) is None) == exempt


@pytest.mark.parametrize(
    "address",
    [
        *("socks5h://proxy", "http://", "socks5://"),
        *("socks4://me:s3cret@proxy:1080", "socks5://me:s3/cret@proxy:1080", "http://me:s3cret@proxy:port"),
        *("me:s3cret", "http://me:s3cret@", "http://me:s3/cret@proxy:1080", "http://s3cret:12/34@proxy:1080"),
        *("http://s3cret:12?34@proxy:1080", "http://s3cret:12#34@proxy:1080", "http://[s3cret@proxy:1080"),
    ],
)
def test_proxy_url_refuses_an_invalid_or_ambiguous_text_without_quoting_it(address: str):
    with pytest.raises(NotAProxy, match=r"^HTTPS_PROXY: not the URL of an http") as caught:
        proxy_for(SERVER, {"HTTPS_PROXY": address})
    assert "s3" not in str(caught.value)
    assert "cret" not in str(caught.value)
    with pytest.raises(NotAProxy, match=r"^there: "):
        proxy_url(address, source="there")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("socks5://proxy", "socks5://proxy:1080"),
        ("socks5://proxy:80", "socks5://proxy:80"),
        ("socks5://me:s3cret@[fd00::1]:1081", "socks5://me:s3cret@[fd00::1]:1081"),
    ],
)
def test_proxy_url_has_port_1080_for_a_socks_proxy_without_a_port(address: str, expected: str):
    found = proxy_url(address, source="there")
    assert (str(found), found.port) == (expected, URL(expected).port)
