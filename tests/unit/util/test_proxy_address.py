from __future__ import annotations

import pytest
from yarl import URL

from manager.util.proxy_address import NotAProxy, proxy_for, proxy_url

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
    ],
)
def test_proxy_for_uses_the_variable_of_the_scheme(environ: dict[str, str], expected: str | None):
    assert proxy_for(SERVER, environ) == (expected and URL(expected))


@pytest.mark.parametrize(
    "server",
    ["https://localhost:1", "https://127.0.0.1:1", "https://[::1]:1", "https://[::ffff:127.0.0.1]:1"],
)
def test_proxy_for_never_proxies_this_machine(server: str):
    assert proxy_for(URL(server), {"HTTPS_PROXY": PROXY}) is None


@pytest.mark.parametrize(
    ("server", "no_proxy", "exempt"),
    [
        ("https://api.example.com", "example.com", True),
        ("https://example.com", "example.com", True),
        ("https://api.example.com", "other.com, api.example.com", True),
        ("https://API.Example.com", "example.COM", True),
        ("https://anexample.com", "example.com", False),
        ("https://api.example.com", ".example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://api.example.com", "*.example.com", True),
        ("https://api.example.com", "*", True),
        ("https://api.example.com", "", False),
        ("https://api.example.com:6443", "example.com:6443", True),
        ("https://api.example.com:6443", "example.com:443", False),
        ("https://10.96.0.1", "10.96.0.1", True),
        ("https://10.96.0.1", "10.96.0.0/12", True),
        ("https://10.96.0.1", "192.168.0.0/16", False),
        ("https://10.96.0.1:443", "10.96.0.1:443", True),
        ("https://[fd00::1]", "fd00::/8", True),
        ("https://[fd00::1]:443", "[fd00::1]:443", True),
    ],
)
def test_no_proxy_variable_exempts_the_servers_it_names(server: str, no_proxy: str, exempt: bool):
    for name in ("NO_PROXY", "no_proxy"):
        assert (proxy_for(URL(server), {"HTTPS_PROXY": PROXY, name: no_proxy}) is None) == exempt


@pytest.mark.parametrize(
    "address", ["socks4://proxy:1080", "socks5h://proxy", "http://", "http://proxy:port", "socks5://"]
)
def test_proxy_url_error_names_its_source_when_address_is_no_http_proxy(address: str):
    with pytest.raises(NotAProxy, match=r"^HTTPS_PROXY: "):
        proxy_for(SERVER, {"HTTPS_PROXY": address})
    with pytest.raises(NotAProxy, match=r"^there: "):
        proxy_url(address, source="there")


@pytest.mark.parametrize(
    "address",
    [
        "socks4://me:s3cret@proxy:1080",
        "socks5://me:s3/cret@proxy:1080",
        "http://me:s3cret@proxy:port",
        "me:s3cret",
        "http://me:s3cret@",
        "http://me:s3/cret@proxy:1080",
        "http://s3cret:12/34@proxy:1080",
        "http://s3cret:12?34@proxy:1080",
        "http://s3cret:12#34@proxy:1080",
        "http://[s3cret@proxy:1080",
    ],
)
def test_proxy_for_refuses_ambiguous_password_without_showing_it(address: str):
    with pytest.raises(NotAProxy, match=r"^HTTPS_PROXY: not the URL of an http") as caught:
        proxy_for(SERVER, {"HTTPS_PROXY": address})
    assert "s3" not in str(caught.value)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize("written", ["p@ss", "p%40ss"])
def test_proxy_for_accepts_password_with_special_characters(written: str):
    found = proxy_for(SERVER, {"HTTPS_PROXY": f"http://me:{written}@proxy:1080"})
    assert found is not None
    assert (found.user, found.password, found.host, found.port) == ("me", "p@ss", "proxy", 1080)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("socks5://proxy", "socks5://proxy:1080"),
        ("socks5://proxy:80", "socks5://proxy:80"),
        ("socks5://me:s3cret@[fd00::1]:1081", "socks5://me:s3cret@[fd00::1]:1081"),
    ],
)
def test_socks_proxy_has_its_own_default_port(address: str, expected: str):
    found = proxy_url(address, source="there")
    assert (str(found), found.port) == (expected, URL(expected).port)
