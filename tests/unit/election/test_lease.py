from __future__ import annotations

import math
import random
import socket
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest

from manager.election.lease import Lease, Leases, LeaseTiming, host_clock, new_identity
from manager.kube.errors import Conflict, ProtocolError
from tests.unit.election.conftest import NAME, NAMESPACE, Election

NOW = datetime(2026, 5, 4, 3, 2, 1, 123456, UTC)


def lease(**spec: Any) -> Lease:
    metadata = {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "7", "managedFields": [{}]}
    return Lease.decode(orjson.dumps({"metadata": metadata, "spec": spec}))


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'"x"', b"{}", b'{"metadata": 1}', b'{"metadata": {}, "spec": 3}']
)
def test_lease_decode_refuses_malformed_bodies(body: bytes):
    with pytest.raises(ProtocolError):
        Lease.decode(body)


@pytest.mark.parametrize("levels", [197, 198, 250, 300, 1_000])
def test_readable_lease_can_be_written_back(levels: int):
    body = orjson.dumps({"metadata": {"name": "x"}, "spec": {"x": 0}}).replace(
        b"0", b"[" * levels + b"]" * levels
    )
    try:
        read = Lease.decode(body)
    except ProtocolError:
        assert levels > 197
        return
    for written in (
        read.claimed(identity="me", seconds=15, now=NOW),
        read.released(now=NOW),
        read.recreated(),
    ):
        assert Lease.decode(written.encode()).spec["x"] == read.spec["x"]


def test_lease_decoding_skips_deeply_nested_managed_fields():
    body = b'{"metadata": {"name": "x", "managedFields": %b%b}}' % (b"[" * 1_000, b"]" * 1_000)
    assert Lease.decode(body).metadata == {"name": "x"}


def test_lease_without_a_spec_has_no_holder():
    for spec in ({}, {"holderIdentity": None}, {"holderIdentity": ""}):
        assert lease(**spec).holder == ""
    assert Lease.decode(b'{"metadata": {}}').holder == ""


@pytest.mark.parametrize("seconds", [None, 0, -5, "15", [], 1e400])
def test_invalid_lease_duration_counts_as_missing(seconds: Any):
    assert Lease({}, {"leaseDurationSeconds": seconds}).duration is None


@pytest.mark.parametrize("count", [None, -1, "3", 1.5])
def test_invalid_lease_transitions_count_as_zero(count: Any):
    assert lease(leaseTransitions=count).transitions == 0


def test_lease_holder_of_another_type_counts_as_an_unknown_holder():
    assert lease(holderIdentity=17).holder == "17"


def test_versions_are_ordered_only_where_they_are_numbers():
    assert lease().version == 7
    assert Lease({"resourceVersion": "abc"}, {}).version is None
    assert Lease({}, {}).version is None


def test_claim_names_the_holder_and_counts_the_transition():
    claimed = lease(holderIdentity="other", leaseTransitions=4, acquireTime="x").claimed(
        identity="me", seconds=15, now=NOW
    )
    assert claimed.spec == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 5,
        "acquireTime": "2026-05-04T03:02:01.123456Z",
        "renewTime": "2026-05-04T03:02:01.123456Z",
    }


def test_claim_of_a_released_lease_counts_as_a_transition():
    released = lease(holderIdentity="other", leaseTransitions=4, acquireTime="x").released(now=NOW)
    assert released.spec["holderIdentity"] == ""
    assert released.spec["leaseDurationSeconds"] == 1
    assert released.claimed(identity="me", seconds=15, now=NOW).transitions == 5


def test_first_claim_of_a_new_lease_counts_no_transition():
    claimed = Lease.new(namespace="ns", name="x").claimed(identity="me", seconds=15, now=NOW)
    assert claimed.transitions == 0
    assert orjson.loads(claimed.encode())["metadata"] == {"namespace": "ns", "name": "x"}


def test_renewal_keeps_the_acquire_time_of_the_lease():
    mine = lease(holderIdentity="me", leaseTransitions=4, acquireTime="then", renewTime="then")
    renewed = mine.claimed(identity="me", seconds=15, now=NOW)
    assert renewed.spec["acquireTime"] == "then"
    assert renewed.spec["renewTime"] == "2026-05-04T03:02:01.123456Z"
    assert renewed.transitions == 4


def test_renewal_differs_from_the_previous_one_while_the_clock_is_frozen():
    once = lease(holderIdentity="me").claimed(identity="me", seconds=15, now=NOW)
    again = once.claimed(identity="me", seconds=15, now=NOW)
    assert again.spec["renewTime"] == "2026-05-04T03:02:01.123457Z"


def test_times_are_written_in_utc_whatever_the_clocks_zone():
    there = NOW.astimezone(timezone(timedelta(hours=5)))
    claimed = lease().claimed(identity="me", seconds=15, now=there)
    assert claimed.spec["renewTime"] == "2026-05-04T03:02:01.123456Z"


def test_lease_write_keeps_version_uid_and_foreign_fields():
    metadata = {"name": "x", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}}
    spec = {"holderIdentity": "other", "strategy": "OldestEmulationVersion"}
    stored = {"metadata": {**metadata, "managedFields": [{}]}, "spec": spec}
    theirs = Lease.decode(orjson.dumps(stored))
    for written in (theirs.claimed(identity="me", seconds=15, now=NOW), theirs.released(now=NOW)):
        document = orjson.loads(written.encode())
        assert document["kind"] == "Lease"
        assert document["apiVersion"] == "coordination.k8s.io/v1"
        assert document["metadata"] == metadata
        assert document["spec"]["strategy"] == "OldestEmulationVersion"


def test_recreated_lease_keeps_its_history_but_not_its_identity():
    again = lease(holderIdentity="me", leaseTransitions=4).recreated()
    assert again.metadata == {"name": "x", "namespace": "ns"}
    assert again.transitions == 4


@pytest.mark.virtual_time
async def test_lease_client_write_does_not_recreate_a_deleted_lease(election: Election):
    first = await election.leader()
    leases = Leases(first.transport, namespace=NAMESPACE, name=NAME)
    lease = await leases.read(timeout=1.0)
    assert lease is not None
    await first.kill()
    election.server.delete(NAMESPACE, NAME)
    with pytest.raises(Conflict):
        await leases.write(lease, timeout=1.0)
    assert not election.server.leases


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
    code = "from manager.election.lease import host_clock; print(host_clock())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout == f"{host_clock()}\n"
    host, _, boot = host_clock().partition("/")
    assert host == socket.gethostname()
    assert uuid.UUID(boot)
