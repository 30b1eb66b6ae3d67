"""Faults of pods on a real node, and their reports in conditions, `explain` and the console."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from manager_kinds.quantity import parse_quantity
from tests.e2e.cluster import (
    FAULTS,
    IMG,
    OUT,
    SYSTEM,
    CommandFailed,
    apply,
    deploy,
    explain,
    forwarded,
    get,
    in_cluster,
    kubectl,
    nodes,
    program,
    say,
    seconds_since,
    served_by,
)
from tests.e2e.conftest import chromium
from tests.support.api_objects import manifest
from tests.support.eventually import eventually
from tests.support.memcacheds import memcached

TOLD_WITHIN = 30.0
"""Maximum seconds from a fault to a condition that names it."""
SERVER_NAME = f"operator-manager-webhook-service.{SYSTEM}.svc"
ACCOUNT = "viewer"
BINDING = "operator-manager-e2e-viewer"

LIMITS = {"memory": "48Mi", "ephemeral-storage": "16Mi"}
REQUESTS = {"memory": "16Mi", "ephemeral-storage": "1Mi"}
SMALL = manifest(
    "v1", "LimitRange", "small", limits=[{"type": "Container", "default": LIMITS, "defaultRequest": REQUESTS}]
)


@pytest.fixture(scope="module", autouse=True)
def console(deployed: None) -> Iterator[None]:
    """Run the console in the manager's pod, and create an account that may see every page."""
    deploy("console")
    apply(
        SMALL, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}, namespace=FAULTS
    )
    subject = f"--serviceaccount={FAULTS}:{ACCOUNT}"
    kubectl("create", "clusterrolebinding", BINDING, "--clusterrole=cluster-admin", subject)
    yield
    kubectl("delete", "clusterrolebinding", BINDING)


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the flags with which `explain` connects to the manager in the cluster."""
    configuration = get("validatingwebhookconfiguration", "operator-manager-validating-webhook-configuration")
    authority, token = tmp_path / "ca.crt", tmp_path / "token"
    authority.write_bytes(base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"]))
    token.write_text(
        kubectl("create", "token", ACCOUNT, "--audience=operator-manager-console", namespace=FAULTS)
    )
    with forwarded("deployment/operator-manager-controller-manager", 8082, namespace=SYSTEM) as port:
        yield (
            f"--manager=https://localhost:{port}",
            f"--manager-ca-file={authority}",
            f"--manager-tls-server-name={SERVER_NAME}",
            f"--manager-token-file={token}",
        )


@contextlib.contextmanager
def applied(*objects: dict[str, Any]) -> Iterator[float]:
    """Apply objects, and delete them at the end; yield the time before the apply."""
    began = time.monotonic()
    apply(*objects, namespace=FAULTS)
    try:
        yield began
    finally:
        for each in reversed(objects):
            flags = ("--ignore-not-found", "--grace-period=1", "--timeout=60s")
            kubectl("delete", each["kind"], each["metadata"]["name"], *flags, namespace=FAULTS)


def wait_until_told(kind: str, name: str, *words: str, began: float) -> None:
    """Wait until Degraded is true and its reason or message has one of the words; print the elapsed time."""

    def read_degraded() -> str:
        it = get(kind, name, namespace=FAULTS)
        conditions = {each["type"]: each for each in it.get("status", {}).get("conditions", ())}
        texts = {type_: f"{each['reason']}: {each['message']}" for type_, each in conditions.items()}
        lines = [f"{type_}={conditions[type_]['status']} {text}" for type_, text in texts.items()]
        assert conditions.get("Degraded", {}).get("status") == "True", "; ".join(lines)
        assert any(word in texts["Degraded"] for word in words), "; ".join(lines)
        return texts["Degraded"]

    text = eventually(read_degraded, within=TOLD_WITHIN - (time.monotonic() - began), every=0.3)
    say(f"Degraded after {seconds_since(began)}: {text}")


def wait_until_well(name: str) -> None:
    """Wait until a Memcached is available and not degraded."""

    def well() -> None:
        it = get("memcached", name, namespace=FAULTS)
        found = {each["type"]: (each["status"], each["reason"]) for each in it["status"]["conditions"]}
        assert (found["Available"][0], found["Degraded"][0]) == ("True", "False"), found

    eventually(well, every=0.5)


def everyone_says(kind: str, name: str, *words: str, asked: tuple[str, ...]) -> None:
    """Assert that `explain` names the cause of an unready object, with and without the manager's data."""
    say(kubectl("get", kind, name, "--output=wide", namespace=FAULTS))
    told = json.loads(explain(kind, name, "--output=json", *asked, namespace=FAULTS))
    assert not told["ready"]
    blocking = json.dumps(told["blocking"])
    assert any(word in blocking for word in words), blocking
    (controller,) = told["controllers"]
    assert controller["runs"], "the manager in the cluster reports no reconciles"
    text = explain(kind, name, "--manager=none", namespace=FAULTS)
    assert any(word in text for word in words), text
    say(text.split("\n\n")[0])


def pods_of(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get("pods", f"--selector=memcached_cr={name}", namespace=FAULTS)
    return found


def test_memcached_status_reports_a_wrong_image_until_it_is_corrected(asked: tuple[str, ...]):
    words = ("ImagePullBackOff", "ErrImagePull")
    with applied(memcached("image", 2, image="registry.invalid/memcached:nope")) as began:
        wait_until_told("memcached", "image", *words, began=began)
        everyone_says("memcached", "image", *words, asked=asked)
        _console_shows("memcacheds.cache.example.com", "image", *words)
        mended = '[{"op": "remove", "path": "/spec/image"}]'
        kubectl("patch", "memcached", "image", "--type=json", f"--patch={mended}", namespace=FAULTS)
        wait_until_well("image")


def _console_shows(resource: str, name: str, *words: str) -> None:
    """Assert that the object's console page, opened by `operator-manager console`, shows one of the words."""
    command = (
        program("operator-manager"),
        "console",
        "--no-browser",
        f"--service-account={FAULTS}/{ACCOUNT}",
    )
    with served_by(r"until interrupted: (\S+)", *command) as address, chromium() as page:
        page.goto(address)
        base = "/".join(page.url.split("/")[:3])
        page.goto(f"{base}/objects/{resource}/{FAULTS}/{name}")
        page.wait_for_selector("main")
        page.screenshot(path=OUT / "console.png", full_page=True)
        text = page.inner_text("main")
    assert any(word in text for word in words), text
    say("the console's page says it, too: build/e2e/console.png")


def test_memcached_status_reports_a_container_that_exits_immediately(asked: tuple[str, ...]):
    # The manager's own image is on the node, and has no memcached.
    with applied(memcached("crash", 1, image=IMG)) as began:
        wait_until_told("memcached", "crash", "CrashLoopBackOff", "RunContainerError", began=began)
        everyone_says("memcached", "crash", "CrashLoopBackOff", "RunContainerError", asked=asked)


def test_memcached_status_reports_out_of_memory(asked: tuple[str, ...]):
    with applied(memcached("memory", 1)):
        wait_until_well("memory")

        def waits_for_a_restart() -> float:
            # The kubelet delays the second restart.
            (pod,) = pods_of("memory")
            (status,) = pod["status"]["containerStatuses"]
            killed = time.monotonic()
            if status["ready"]:
                _run_out_of_memory(pod)
            assert "waiting" in status["state"], status["state"]
            return killed

        killed = eventually(waits_for_a_restart, every=0.5)
        wait_until_told("memcached", "memory", "OOMKilled", began=killed)
        everyone_says("memcached", "memory", "OOMKilled", asked=asked)


def _run_out_of_memory(pod: dict[str, Any]) -> None:
    """Fill memcached and the shared memory of its pod, until the kernel kills the largest process."""
    name = pod["metadata"]["name"]
    with contextlib.suppress(CommandFailed):  # the container may end during the command
        in_cluster("fill", pod["status"]["podIP"])
        for flags in (("of=/dev/shm/full", "bs=1M", "count=60"), ("of=/dev/null", "bs=40M", "count=20")):
            kubectl("exec", name, "--", "dd", "if=/dev/zero", *flags, namespace=FAULTS, within=30)


def test_memcached_status_reports_insufficient_node_memory_until_the_pod_fits(asked: tuple[str, ...]):
    fillers = [_filler(node) for node in nodes()]
    with applied(*fillers):
        for each in fillers:
            name = f"pod/{each['metadata']['name']}"
            kubectl("wait", "--for=condition=Ready", name, "--timeout=60s", namespace=FAULTS)
        with applied(memcached("room", 2 + len(fillers))) as began:
            wait_until_told("memcached", "room", "Unschedulable", began=began)
            eventually(lambda: get("memcached", "room", namespace=FAULTS)["status"]["readyReplicas"] >= 1)
            everyone_says("memcached", "room", "Unschedulable", asked=asked)
            kubectl("delete", "pods", "--selector=filler", "--grace-period=1", namespace=FAULTS)
            wait_until_well("room")


def _filler(node: dict[str, Any]) -> dict[str, Any]:
    """Return a pod that leaves memory for only one and a half Memcached pods on a node."""
    name = node["metadata"]["name"]
    taken = Fraction()
    for pod in get("pods", "--all-namespaces", f"--field-selector=spec.nodeName={name}"):
        if pod["status"]["phase"] in ("Pending", "Running"):
            for container in pod["spec"]["containers"]:
                taken += parse_quantity(container.get("resources", {}).get("requests", {}).get("memory", "0"))
    free = parse_quantity(node["status"]["allocatable"]["memory"]) - taken
    memory = str(int(free) - 144 * 1024**2)
    container = {
        "name": "filler",
        "image": IMG,
        "command": ["sleep", "infinity"],
        "resources": {"requests": {"memory": memory}, "limits": {"memory": memory}},
    }
    place = {"nodeSelector": {"kubernetes.io/hostname": name}, "terminationGracePeriodSeconds": 1}
    pod = manifest("v1", "Pod", f"filler-{name}"[:63], containers=[container], **place)
    pod["metadata"]["labels"] = {"filler": ""}
    return pod


def test_memcached_status_reports_an_exceeded_quota(asked: tuple[str, ...]):
    with applied(manifest("v1", "ResourceQuota", "none", hard={"pods": "0"}), memcached("quota", 1)) as began:
        wait_until_told("memcached", "quota", "exceeded quota", began=began)
        everyone_says("memcached", "quota", "exceeded quota", asked=asked)


def test_memcached_status_ignores_evicted_pods():
    with applied(memcached("evicted", 2)):
        wait_until_well("evicted")
        by_kubelet, by_person = (pod["metadata"]["name"] for pod in pods_of("evicted"))
        fill = ("dd", "if=/dev/zero", "of=/tmp/full", "bs=1M", "count=40")
        kubectl("exec", by_kubelet, "--", *fill, namespace=FAULTS)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": by_person}}
        path = f"/api/v1/namespaces/{FAULTS}/pods/{by_person}/eviction"
        kubectl("create", f"--raw={path}", "--filename=-", namespace=FAULTS, stdin=json.dumps(eviction))

        def ended() -> None:
            phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in pods_of("evicted")}
            assert by_person not in phases
            # A pod gets the phase Succeeded when its program exits with 0 after SIGTERM.
            assert phases[by_kubelet] in ("Failed", "Succeeded"), phases

        eventually(ended, every=1)
        say("the pod that the kubelet evicted stays as an object; the one that the API evicted is gone")

        def listed() -> None:
            living = [
                pod["metadata"]["name"] for pod in pods_of("evicted") if pod["status"]["phase"] == "Running"
            ]
            status = get("memcached", "evicted", namespace=FAULTS)["status"]
            assert (sorted(status["nodes"]), status["nodeCount"]) == (sorted(living), 2), status

        eventually(listed, within=TOLD_WITHIN, every=0.5)
        wait_until_well("evicted")
