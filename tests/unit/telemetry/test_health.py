from __future__ import annotations

import pytest

from manager.telemetry.health import Checks


def checks(**problems: str | None) -> Checks:
    made = Checks("readyz")
    for name, problem in problems.items():
        made.add(name, lambda problem=problem: problem)
    return made


def test_with_no_checks_the_process_is_healthy():
    report = checks().report()
    assert report.healthy
    assert report.text == "[+]ping ok\nreadyz check passed\n"


def test_health_report_has_a_line_for_each_check_with_the_reason_of_failures():
    report = checks(cache="Pod is not synced", lease=None).report()
    assert not report.healthy
    assert report.text.splitlines() == [
        "[+]ping ok",
        "[-]cache failed: Pod is not synced",
        "[+]lease ok",
        "readyz check failed",
    ]


def test_excluded_check_is_not_run():
    made = Checks("healthz")
    made.add("bad", lambda: pytest.fail("it ran"))
    report = made.report(excluded=["bad"])
    assert report.healthy
    assert "[+]bad excluded: ok" in report.text.splitlines()


def test_excluding_what_does_not_exist_is_warned_about_once_each():
    report = checks(cache=None).report(excluded=["x", "cache", "y", "x"])
    assert report.healthy
    assert 'warn: some health checks cannot be excluded: no matches for "x", "y"' in report.text.splitlines()


def test_health_check_fails_when_it_raises():
    made = Checks("healthz")
    made.add("broken", lambda: {}["key"])
    report = made.report()
    assert not report.healthy
    assert "[-]broken failed: the check itself failed: KeyError('key')" in report.text


def test_multiline_problem_stays_on_one_line():
    assert "[-]cache failed: a b\n" in checks(cache="a\n  b").report().text


@pytest.mark.parametrize(
    ("name", "told"), [("cache", "cache already"), ("ping", "ping already"), ("", "path"), ("a/b", "path")]
)
def test_check_name_is_refused_when_it_is_taken_or_fits_no_path(name: str, told: str):
    with pytest.raises(ValueError, match=told):
        checks(cache=None).add(name, lambda: None)
