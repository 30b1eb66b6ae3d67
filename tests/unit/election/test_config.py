"""The configuration of an election: durations that fit together, the identity of a process."""

from __future__ import annotations

import math
import random
import socket
import subprocess
import sys
import uuid

import pytest

from manager.election.config import LeaseTiming, host_clock, new_identity


def test_default_durations_are_consistent():
    timing = LeaseTiming()
    assert (timing.lease_duration, timing.renew_deadline, timing.retry_period) == (15.0, 10.0, 2.0)


def test_lease_duration_must_exceed_the_renew_deadline():
    with pytest.raises(ValueError, match="--leader-elect-lease-duration") as caught:
        LeaseTiming(lease_duration=60, renew_deadline=90)
    assert str(caught.value) == (
        "--leader-elect-lease-duration (1m) must be longer than --leader-elect-renew-deadline (1m30s): "
        "the leader has to stop before the others take over"
    )
    with pytest.raises(ValueError, match="must be longer"):
        LeaseTiming(lease_duration=10, renew_deadline=10)


def test_renew_deadline_must_leave_time_for_a_second_attempt():
    with pytest.raises(ValueError, match="--leader-elect-renew-deadline") as caught:
        LeaseTiming(lease_duration=15, renew_deadline=12, retry_period=10)
    assert str(caught.value) == (
        "--leader-elect-renew-deadline (12s) must be longer than 1.2 times "
        "--leader-elect-retry-period (10s): the leader needs time for more than one try"
    )


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize(
    ("field", "flag"),
    [
        ("lease_duration", "--leader-elect-lease-duration"),
        ("renew_deadline", "--leader-elect-renew-deadline"),
        ("retry_period", "--leader-elect-retry-period"),
    ],
)
def test_durations_must_be_positive_and_finite(field: str, flag: str, value: float):
    with pytest.raises(ValueError, match=f"{flag} must be longer than zero"):
        LeaseTiming(**{field: value})


def test_lease_duration_is_limited_by_its_record():
    assert LeaseTiming(lease_duration=2**31 - 1).lease_seconds == 2**31 - 1
    with pytest.raises(ValueError, match="--leader-elect-lease-duration must be at most 2147483647s, not "):
        LeaseTiming(lease_duration=2**31 - 0.5)


def test_lease_record_rounds_its_duration_up_to_whole_seconds():
    assert LeaseTiming(lease_duration=15.2).lease_seconds == 16
    assert LeaseTiming().lease_seconds == 15
    assert LeaseTiming(lease_duration=0.3, renew_deadline=0.2, retry_period=0.1).lease_seconds == 1


def test_attempt_leaves_time_for_another_within_the_deadline():
    assert LeaseTiming().attempt_timeout == 5.0
    assert LeaseTiming(lease_duration=15, renew_deadline=10, retry_period=7).attempt_timeout == 7.0


def test_identity_names_the_host_and_is_new_each_time():
    rng = random.Random(1)
    first, second = new_identity(rng), new_identity(rng)
    assert first != second
    host, _, unique = first.rpartition("_")
    assert host == socket.gethostname()
    assert str(uuid.UUID(unique)) == unique


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux names the boot of its kernel")
def test_host_clock_is_the_same_in_every_process_of_the_host():
    code = "from manager.election.config import host_clock; print(host_clock())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout == f"{host_clock()}\n"
    host, _, boot = host_clock().partition("/")
    assert host == socket.gethostname()
    assert uuid.UUID(boot)
