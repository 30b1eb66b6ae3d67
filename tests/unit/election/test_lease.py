from __future__ import annotations

import math
import random
import re
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
def test_decoded_lease_keeps_a_deeply_nested_spec_field_when_it_is_encoded_again(levels: int):
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


def test_lease_decode_drops_managed_fields_even_if_they_are_deeply_nested():
    body = b'{"metadata": {"name": "x", "managedFields": %b%b}}' % (b"[" * 1_000, b"]" * 1_000)
    assert Lease.decode(body).metadata == {"name": "x"}


STAMP = "2026-05-04T03:02:01.123456Z"
HELD = lease(holderIdentity="other", leaseTransitions=4, acquireTime="then", renewTime="then")
MINE = lease(holderIdentity="me", leaseTransitions=4, acquireTime="then", renewTime="then")


@pytest.mark.parametrize(
    ("before", "transitions", "acquired", "renewed"),
    [
        (HELD, 5, STAMP, STAMP),
        (HELD.released(now=NOW - timedelta(seconds=1)), 5, STAMP, STAMP),
        (Lease.new(namespace="ns", name="x"), 0, STAMP, STAMP),
        (MINE, 4, "then", STAMP),
        # If the clock stands still, add 1 µs; without a new time, the server would see no change.
        (MINE.claimed(identity="me", seconds=15, now=NOW), 4, "then", "2026-05-04T03:02:01.123457Z"),
    ],
    ids=["of another", "released", "new", "renewal", "frozen clock"],
)
@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5))])
def test_lease_claim_sets_utc_times_and_counts_a_transition_only_for_a_new_holder(
    before: Lease, transitions: int, acquired: str, renewed: str, zone: timezone
):
    claimed = before.claimed(identity="me", seconds=15, now=NOW.astimezone(zone))
    assert claimed.spec == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "leaseTransitions": transitions,
        "acquireTime": acquired,
        "renewTime": renewed,
    }
    assert claimed.metadata == before.metadata


def test_lease_write_keeps_resource_version_uid_and_unknown_fields():
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


def test_recreated_lease_keeps_its_transition_count_but_not_its_uid_and_version():
    again = lease(holderIdentity="me", leaseTransitions=4).recreated()
    assert again.metadata == {"name": "x", "namespace": "ns"}
    assert (again.transitions, again.version) == (4, None)


@pytest.mark.virtual_time
async def test_lease_client_write_does_not_recreate_a_deleted_lease(election: Election):
    first = await election.leader()
    leases = Leases(first.transport, namespace=NAMESPACE, name=NAME)
    lease = await leases.read(timeout=1.0)
    assert lease is not None
    await first.kill()
    election.server.delete(NAME)
    with pytest.raises(Conflict):
        await leases.write(lease, timeout=1.0)
    assert not election.server.leases


def test_election_identity_contains_the_host_name_and_is_unique():
    rng = random.Random(1)
    first, second = new_identity(rng), new_identity(rng)
    assert first != second
    host, _, unique = first.rpartition("_")
    assert host == socket.gethostname()
    assert str(uuid.UUID(unique)) == unique


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a kernel boot ID")
def test_host_clock_name_is_the_host_name_and_boot_id_in_every_process_of_the_host():
    code = "from manager.election.lease import host_clock; print(host_clock())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout == f"{host_clock()}\n"
    host, _, boot = host_clock().partition("/")
    assert host == socket.gethostname()
    assert uuid.UUID(boot)


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        *(
            ({"leaseDurationSeconds": seconds}, "duration", None)
            for seconds in (None, 0, -5, "15", [], 1e400)
        ),
        *(({"leaseTransitions": count}, "transitions", 0) for count in (None, -1, "3", 1.5)),
        *(({"holderIdentity": holder}, "holder", "") for holder in (None, "")),
        ({"holderIdentity": 17}, "holder", "17"),
        ({}, "holder", ""),
        ({}, "version", 7),
    ],
    ids=str,
)
def test_lease_decode_replaces_invalid_values_by_defaults(spec: dict[str, Any], field: str, value: object):
    assert getattr(lease(**spec), field) == value


@pytest.mark.parametrize(
    ("durations", "told"),
    [
        ((60, 90, 2), "DURATION (1m) must be longer than DEADLINE (1m30s)"),
        ((10, 10, 2), "DURATION (10s) must be longer than DEADLINE (10s)"),
        ((15, 12, 10), "DEADLINE (12s) must be longer than 1.2 times PERIOD (10s)"),
        ((2**31 - 0.5, 10, 2), "DURATION must be at most 2147483647s, not 2147483648s"),
        *(((value, 10, 2), "DURATION must be longer than zero") for value in (0.0, math.nan, math.inf)),
        *(((15, value, 2), "DEADLINE must be longer than zero") for value in (-1.0, math.nan)),
        *(((15, 10, value), "PERIOD must be longer than zero") for value in (0.0, math.inf)),
    ],
    ids=str,
)
def test_lease_timing_error_names_flags_of_invalid_values(durations: tuple[float, float, float], told: str):
    for word, flag in (
        ("DURATION", "lease-duration"),
        ("DEADLINE", "renew-deadline"),
        ("PERIOD", "retry-period"),
    ):
        told = told.replace(word, f"--leader-elect-{flag}")
    with pytest.raises(ValueError, match=f"^{re.escape(told)}"):
        LeaseTiming(*durations)


def test_lease_timing_rounds_lease_seconds_up_and_leaves_time_for_a_second_renewal():
    timing = LeaseTiming()
    assert (timing.lease_duration, timing.renew_deadline, timing.retry_period) == (15.0, 10.0, 2.0)
    assert (timing.lease_seconds, timing.attempt_timeout) == (15, 5.0)
    assert LeaseTiming(lease_duration=15.2).lease_seconds == 16
    assert LeaseTiming(lease_duration=2**31 - 1).lease_seconds == 2**31 - 1
    assert LeaseTiming(lease_duration=0.3, renew_deadline=0.2, retry_period=0.1).lease_seconds == 1
    assert LeaseTiming(lease_duration=15, renew_deadline=10, retry_period=7).attempt_timeout == 7.0
