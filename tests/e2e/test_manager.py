"""Replacement of manager pods: rolling update, drain, kill, failover and sharding."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from tests.e2e.cluster import (
    FAULTS,
    IMG,
    KUBECTL,
    MANAGER,
    NAMESPACE,
    SYSTEM,
    apply,
    deploy,
    get,
    kubectl,
    manager_pods,
    nodes,
    say,
    seconds_since,
    served_by,
    wait_for,
    wait_for_rollout,
)
from tests.support.api_objects import manifest
from tests.support.eventually import eventually
from tests.support.load import Load
from tests.support.pets import alpha, beta

pytestmark = pytest.mark.usefixtures("samples")


def review(server: str, pet: Mapping[str, Any]) -> None:
    """Dry-run the creation of a Pet, for which the API server calls the webhooks."""
    url = f"{server}/apis/{pet['apiVersion']}/namespaces/{NAMESPACE}/pets?dryRun=All"
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(pet).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["spec"]["name"] == "Rex"
    except urllib.error.HTTPError as error:
        raise AssertionError(error.read().decode()[:500]) from error


def test_admission_reviews_succeed_during_a_rolling_update():
    before = {pod["metadata"]["uid"] for pod in manager_pods()}
    with served_by(r"Starting to serve on (\S+)", KUBECTL, "proxy", "--port=0") as server:
        pets = [each("review", name=" Rex ") for each in (alpha, beta)]
        reviews = [partial(review, f"http://{server}", pet) for pet in pets]
        with Load(*reviews, callers=2, every=0.05) as load:
            kubectl("rollout", "restart", MANAGER, namespace=SYSTEM)
            wait_for_rollout()
    assert not before & {pod["metadata"]["uid"] for pod in manager_pods()}
    assert load.failures == {}
    assert load.calls > 50
    say(f"{load.calls} reviews during the rolling update, none failed")


def test_manager_and_memcached_pods_are_ready_again_after_a_node_drain():
    (pod,) = manager_pods()
    node = pod["spec"]["nodeName"]
    selector = "--pod-selector=control-plane=controller-manager"
    flags = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
    try:
        say(f"$ kubectl drain {node} {selector}")
        kubectl("drain", node, selector, *flags, within=150)
        kubectl("drain", node, "--pod-selector=memcached_cr=memcached-sample", *flags, within=150)
        if not [each for each in nodes() if each["metadata"]["name"] != node]:
            eventually(lambda: [each["status"]["phase"] for each in manager_pods()] == ["Pending"], every=0.5)
            say("there is no other node: the manager's pod is Pending")
    finally:
        kubectl("uncordon", node)
    began = time.monotonic()
    wait_for_rollout()
    wait_for("memcached", "memcached-sample")
    eventually(_nodes_are_pods, every=0.5)
    say(f"after uncordon, the manager and its Memcached are ready again within {seconds_since(began)}")


def _nodes_are_pods() -> bool:
    listed = get("memcached", "memcached-sample")["status"]["nodes"]
    pods = get("pods", "--selector=memcached_cr=memcached-sample")
    return sorted(listed) == sorted(
        pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]
    )


KILLER = """
import os, pathlib, sys
for process in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        group, line = (process / "cgroup").read_text(), (process / "cmdline").read_bytes()
    except OSError:
        continue
    if sys.argv[1] in group.replace("_", "-") and b"operator-manager" in line:
        os.kill(int(process.name), 9)
        print("killed", line)
"""


def _killed(pod: Mapping[str, Any]) -> float:
    """Kill the manager in `pod` from another pod on the same node; return the time of the kill."""
    container = {
        "name": "killer",
        "image": IMG,
        "command": ["python", "-c", KILLER, pod["metadata"]["uid"]],
        "securityContext": {"runAsUser": 0},
    }
    spec = {"hostPID": True, "nodeName": pod["spec"]["nodeName"], "restartPolicy": "Never"}
    apply(manifest("v1", "Pod", "killer", **spec, containers=[container]), namespace=FAULTS)
    eventually(lambda: "killed" in kubectl("logs", "killer", namespace=FAULTS), every=0.2)
    moment = time.monotonic()
    kubectl("delete", "pod", "killer", "--grace-period=1", namespace=FAULTS)
    return moment


def _restarted(pod: Mapping[str, Any]) -> None:
    """Wait until the kubelet has restarted the manager's container and the container is ready."""

    def ready() -> None:
        now = {each["metadata"]["uid"]: each for each in manager_pods()}
        (status,) = now[pod["metadata"]["uid"]]["status"]["containerStatuses"]
        assert status["ready"], status
        assert status["restartCount"] >= 1, status

    eventually(ready, every=0.5)


def _follows(replicas: int) -> None:
    """Scale the Memcached, and wait until the manager has changed the Deployment."""
    kubectl("scale", "memcached/memcached-sample", f"--replicas={replicas}")

    def followed() -> None:
        assert get("deployment", "memcached-sample")["spec"]["replicas"] == replicas

    eventually(followed, every=0.2)


def test_manager_recovers_when_its_only_process_is_killed():
    (pod,) = manager_pods()
    began = _killed(pod)
    _follows(2)
    say(f"a change is followed {seconds_since(began)} after the only manager was killed")
    _restarted(pod)


def test_standby_takes_over_when_the_leader_is_killed():
    deploy("high-availability")
    leader = _holder()
    (pod,) = (each for each in manager_pods() if leader.startswith(each["metadata"]["name"]))
    began = _killed(pod)
    _follows(3)
    assert _holder() != leader
    say(f"a change is followed {seconds_since(began)} after the leader was killed")
    _restarted(pod)


def _holder() -> str:
    """Return the Lease's holderIdentity; it begins with the name of the leader's pod."""
    held: str = get("lease", "operator-manager", namespace=SYSTEM)["spec"].get("holderIdentity") or ""
    return held


def _shards() -> dict[str, list[str]]:
    """Return the names of the shard Leases that each pod holds, by pod."""
    held: dict[str, list[str]] = {}
    for lease in get("leases", namespace=SYSTEM):
        name, holder = lease["metadata"]["name"], lease["spec"].get("holderIdentity") or ""
        if re.fullmatch(r"operator-manager(-\d+)?", name):
            held.setdefault(holder.rpartition("_")[0], []).append(name)
    return held


def test_three_replicas_own_all_shards_again_after_one_was_killed_and_restarted():
    deploy("shards")

    def shared() -> dict[str, list[str]]:
        held = _shards()
        pods = {pod["metadata"]["name"] for pod in manager_pods()}
        assert set(held) == pods, f"{held} {pods}"
        assert len(pods) == 3
        assert sum(map(len, held.values())) == 16
        return held

    held = eventually(shared, every=1)
    say(f"shards by pod: { ({pod: len(names) for pod, names in held.items()}) }")
    _every_shard_works()
    pod = manager_pods()[0]
    began = _killed(pod)
    _restarted(pod)
    eventually(shared, every=1)
    say(f"three replicas hold all shards again {seconds_since(began)} after one was killed")
    _every_shard_works()


def _every_shard_works() -> None:
    """Create Foos in many shards, and wait until all of them are reconciled."""
    foos = [manifest("tutorial.my.domain/v1", "Foo", f"many-{number}", name="nobody") for number in range(40)]
    stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": foos})
    kubectl("create", "--filename=-", stdin=stdin)
    names = [each["metadata"]["name"] for each in foos]

    def reconciled() -> None:
        without = [
            foo["metadata"]["name"] for foo in get("foos", *names) if not foo.get("status", {}).get("colour")
        ]
        assert not without, f"{without} have no status"

    eventually(reconciled, every=0.5)
    kubectl("delete", "foos", *names)
