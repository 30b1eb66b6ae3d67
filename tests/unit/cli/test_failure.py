from __future__ import annotations

import pytest

from manager.cli.failure import cause_of, in_one_line, is_expected
from manager.http.server import CannotListen
from manager.kube.errors import ConfigError, Unreachable
from manager.leader import LeadershipLost
from manager.manager import CannotStart


def test_the_cause_in_a_group_is_its_first_error():
    cause = ValueError("deep")
    group = ExceptionGroup("outer", [ExceptionGroup("inner", [cause, KeyError("other")])])
    assert cause_of(group) is cause
    assert cause_of(cause) is cause


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("x"),
        Unreachable("x"),
        LeadershipLost("x"),
        CannotListen("x"),
        CannotStart("x"),
        OSError("x"),
    ],
)
def test_what_comes_from_outside_needs_no_traceback(error: Exception):
    assert is_expected(error)


@pytest.mark.parametrize("error", [ValueError("x"), AttributeError("x"), AssertionError()])
def test_a_fault_in_the_program_needs_one(error: Exception):
    assert not is_expected(error)


def test_one_line_is_enough():
    assert in_one_line(ConfigError("kubeconfig k:\n  not YAML")) == "kubeconfig k: not YAML"
    assert in_one_line(LeadershipLost("the lease is gone")) == "no longer the leader: the lease is gone"
