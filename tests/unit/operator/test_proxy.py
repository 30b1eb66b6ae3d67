from __future__ import annotations

import pytest

from manager.operator.proxy import PROXY_ENVIRONMENT, VARIABLES, proxy_environment
from manager.settings import SettingValues
from tests.unit.conftest import LogLines

SECRET = "s3cret"
URL = f"http://user:{SECRET}@proxy:3128"


def values(environ: dict[str, str], *, credentials: bool = False) -> dict[str, str]:
    return {each["name"]: each["value"] for each in proxy_environment(environ, credentials=credentials)}


def test_proxy_environment_contains_each_variable_in_upper_and_lower_case(log_lines: LogLines):
    assert values({"https_proxy": "http://proxy:3128", "NO_PROXY": "a,b", "no_proxy": "other"}) == {
        "HTTPS_PROXY": "http://proxy:3128",
        "https_proxy": "http://proxy:3128",
        "NO_PROXY": "a,b",
        "no_proxy": "a,b",
    }
    assert not log_lines, "there is no password to omit"


@pytest.mark.parametrize("name", ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"])
@pytest.mark.parametrize(
    ("url", "bare"),
    [
        (f"http://user:{SECRET}@proxy.local:3128", "http://proxy.local:3128"),
        (f"HTTP://user:{SECRET}@proxy.local:3128/", "HTTP://proxy.local:3128/"),
        (f" socks5://{SECRET}@[fd00::1]:1080 ", "socks5://[fd00::1]:1080"),
        (f"user:{SECRET}@proxy:3128", "proxy:3128"),
        (f"http://user:p@{SECRET}/#?x@proxy:3128", "http://proxy:3128"),
        (f"http://user:{SECRET}\n@proxy", "http://proxy"),
        (f"http://a@{SECRET}://b@proxy", "http://proxy"),
    ],
)
def test_proxy_environment_and_log_omit_the_password_of_the_url(
    name: str, url: str, bare: str, log_lines: LogLines
):
    assert values({name: url}) == {name.upper(): bare, name.lower(): bare}
    [line] = log_lines
    assert line["variable"] == name.upper()
    assert SECRET not in str(line)


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}",
        f"http://user:{SECRET}%40proxy:3128",
        f"http://proxy/{SECRET}",
        f"http://proxy?{SECRET}",
        f"http://user:{SECRET}@",
        f"http:/user {SECRET} proxy",
        f"http://[{SECRET}@",
    ],
)
def test_proxy_environment_omits_a_malformed_url_that_may_contain_a_password(url: str, log_lines: LogLines):
    assert values({"HTTPS_PROXY": url, "NO_PROXY": "a"}) == {"NO_PROXY": "a", "no_proxy": "a"}
    [line] = log_lines
    assert SECRET not in str(line)


def test_proxy_environment_includes_the_password_when_the_credentials_setting_is_keep():
    assert values({"HTTP_PROXY": URL}, credentials=PROXY_ENVIRONMENT.parse("keep"))["HTTP_PROXY"] == URL
    assert PROXY_ENVIRONMENT.default_value() is False
    with pytest.raises(ValueError, match="drop or keep"):
        PROXY_ENVIRONMENT.parse("maybe")


@pytest.mark.parametrize(("credentials", "seen"), [(False, "http://proxy:3128"), (True, URL)])
def test_operator_proxy_attribute_logs_one_warning_about_a_dropped_password_for_repeated_reads(
    credentials: bool, seen: str, monkeypatch: pytest.MonkeyPatch, log_lines: LogLines
):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", URL)

    class Owner:
        settings = SettingValues({PROXY_ENVIRONMENT: credentials})
        proxy = PROXY_ENVIRONMENT

    assert Owner.proxy is PROXY_ENVIRONMENT
    owner = Owner()
    variables = [{"name": "HTTPS_PROXY", "value": seen}, {"name": "https_proxy", "value": seen}]
    assert [owner.proxy, owner.proxy] == [variables] * 2
    assert len(log_lines) == (not credentials)
