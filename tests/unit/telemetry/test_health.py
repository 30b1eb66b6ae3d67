from __future__ import annotations

import pytest

from manager.telemetry.health import Checks, Health


def checks(**problems: str | None) -> Checks:
    made = Checks("readyz")
    for name, problem in problems.items():
        made.add(name, lambda problem=problem: problem)
    return made


def test_with_no_checks_the_process_is_healthy():
    report = checks().report()
    assert report.healthy
    assert report.text == "[+]ping ok\nreadyz check passed\n"


def test_each_check_has_a_line_and_one_that_fails_says_why():
    report = checks(cache="Pod is not synced", lease=None).report()
    assert not report.healthy
    assert report.text.splitlines() == [
        "[+]ping ok",
        "[-]cache failed: Pod is not synced",
        "[+]lease ok",
        "readyz check failed",
    ]


def test_an_excluded_check_is_not_run():
    made = Checks("healthz")
    made.add("bad", lambda: pytest.fail("it ran"))
    report = made.report(excluded=["bad"])
    assert report.healthy
    assert "[+]bad excluded: ok" in report.text.splitlines()


def test_excluding_what_does_not_exist_is_warned_about_once_each():
    report = checks(cache=None).report(excluded=["x", "cache", "y", "x"])
    assert report.healthy
    assert 'warn: some health checks cannot be excluded: no matches for "x", "y"' in report.text.splitlines()


def test_a_check_that_raises_is_a_check_that_fails():
    made = Checks("healthz")
    made.add("broken", lambda: {}["key"])
    report = made.report()
    assert not report.healthy
    assert "[-]broken failed: the check itself failed: KeyError('key')" in report.text


def test_a_problem_of_several_lines_stays_on_one():
    assert "[-]cache failed: a b\n" in checks(cache="a\n  b").report().text


def test_a_name_can_be_taken_once():
    made = checks(cache=None)
    with pytest.raises(ValueError, match="cache already"):
        made.add("cache", lambda: None)
    with pytest.raises(ValueError, match="ping already"):
        made.add("ping", lambda: None)


@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_name_has_to_fit_into_a_path(name: str):
    with pytest.raises(ValueError, match="path"):
        checks().add(name, lambda: None)


def test_asking_for_an_unknown_check_is_an_error():
    with pytest.raises(KeyError):
        checks().problem("nope")


def test_being_alive_and_being_ready_are_checked_apart():
    health = Health()
    health.liveness.add("loop", lambda: None)
    health.readiness.add("cache", lambda: "not yet")
    assert health.liveness.report().healthy
    assert not health.readiness.report().healthy
    assert health.liveness.names == ("ping", "loop")
    assert health.readiness.names == ("ping", "cache")
