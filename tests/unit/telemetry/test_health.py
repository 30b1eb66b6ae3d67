from __future__ import annotations

import pytest

from manager.telemetry.health import Check, Checks


@pytest.mark.parametrize(
    ("check", "excluded", "line"),
    [
        (lambda: None, "", "[+]cache ok"),
        (lambda: "Pod is not\n  synced", "", "[-]cache failed: Pod is not synced"),
        (lambda: {}["key"], "", "[-]cache failed: the check itself failed: KeyError('key')"),
        (lambda: pytest.fail("it ran"), "cache", "[+]cache excluded: ok"),
        (lambda: None, "x cache y x", 'warn: some health checks cannot be excluded: no matches for "x", "y"'),
    ],
    ids=["passes", "fails", "raises", "excluded", "unknown"],
)
def test_health_report_shows_each_check_as_ok_failed_or_excluded(check: Check, excluded: str, line: str):
    checks, fails = Checks("readyz"), line.startswith("[-]")
    checks.add("cache", check)
    report = checks.report(excluded=excluded.split())
    assert report.healthy is not fails
    first, *lines, last = report.text.splitlines()
    assert (first, last) == ("[+]ping ok", f"readyz check {'failed' if fails else 'passed'}")
    assert lines[-1] == line


@pytest.mark.parametrize(
    ("name", "told"),
    [("cache", "name cache"), ("ping", "name ping"), ("", "path"), ("a/b", "path")],
)
def test_health_check_name_is_refused_when_duplicate_or_invalid_in_a_url_path(name: str, told: str):
    made = Checks("readyz")
    made.add("cache", lambda: None)
    with pytest.raises(ValueError, match=told):
        made.add(name, lambda: None)
