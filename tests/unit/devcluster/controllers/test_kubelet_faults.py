"""Pods that fail as on a real node: their status, their Events, and the reaction of their controllers."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from devcluster.controllers.images import Exited, HttpResponse, Image, Running, Start
from tests.unit.devcluster.controllers.conftest import Cluster, deployment, pod, started

pytestmark = pytest.mark.virtual_time

RIGHT, WRONG = ["memcached", "-m", "64"], ["memcached", "-m=64"]
NO_ROOM = "Cannot set item size limit higher than 1/2 of memory max."
WEB = "deployments.apps"
BROKEN = "http://[::1/wp-admin/install.php"
UNPARSED = f"""parse "{BROKEN}": missing ']' in host"""


def one(image: str = "memcached:1.6", *, name: str = "p", restart: str = "Always", **container: Any) -> dict:
    made = pod(name, image=image, restartPolicy=restart)
    made["spec"]["containers"][0] |= container
    return made


def waiting_of(cluster: Cluster) -> tuple[str, str]:
    """Return the reason and the message of the waiting container."""
    waiting = cluster.container()["state"]["waiting"]
    return waiting["reason"], waiting["message"]


def http(path: str, port: int | str = 80, **headers: str) -> dict:
    shown = [{"name": name.replace("_", "-"), "value": value} for name, value in headers.items()]
    return {"httpGet": {"path": path, "port": port, "httpHeaders": shown}}


def events_of(cluster: Cluster, *reasons: str) -> list[tuple[str, str, str]]:
    return [
        (each["type"], each["reason"], each["message"])
        for each in cluster.list("events")
        if each["reason"] in reasons
    ]


async def test_crash_looping_container_reports_its_last_log_line_and_its_backoff(cluster: Cluster):
    await cluster.settled(
        "pods", one(command=WRONG, terminationMessagePolicy="FallbackToLogsOnError"), seconds=0.5
    )
    first = cluster.container()
    assert (first["state"]["terminated"]["reason"], first["restartCount"]) == ("Error", 0)
    await cluster.settle(5)
    again = cluster.container()
    uid = cluster.get("pods", "p")["metadata"]["uid"]
    assert waiting_of(cluster) == (
        "CrashLoopBackOff",
        f"back-off 10s restarting failed container=c pod=p_x({uid})",
    )
    ended = again["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (64, "Error", NO_ROOM + "\n")
    assert (again["restartCount"], again["ready"], again["started"]) == (1, False, False)
    text = f"Back-off restarting failed container c in pod p_x({uid})"
    assert events_of(cluster, "BackOff") == [("Warning", "BackOff", text)]
    for previous in (True, False):
        assert await cluster.logs(previous=previous) == [f"{NO_ROOM}\n".encode()]


async def test_crash_loop_backoff_is_at_most_five_minutes(cluster: Cluster):
    await cluster.settled("pods", one(command=WRONG), seconds=3600)
    container = cluster.container()
    # Attempts at 0, 1 and 12 s, then after 20, 40, 80 and 160 s, then every 301 s.
    assert container["restartCount"] == 6 + (3600 - 318) // 301
    assert "back-off 5m0s restarting" in container["state"]["waiting"]["message"]
    assert "message" not in container["lastState"]["terminated"]  # the policy File ignores the log


@pytest.mark.parametrize(
    "made",
    [
        one(
            command=RIGHT,
            readinessProbe={"tcpSocket": {"port": "cache"}},
            ports=[{"name": "cache", "containerPort": 11211}],
        ),
        one("nginx:1", readinessProbe=http("/", 1), livenessProbe=http("/", 2)),
    ],
    ids=["known image", "unknown image"],
)
async def test_container_becomes_ready_when_its_command_and_probes_are_valid(cluster: Cluster, made: dict):
    await cluster.settled("pods", copy.deepcopy(made))
    assert (cluster.container()["ready"], cluster.container()["restartCount"]) == (True, 0)
    assert [reason for reason, _ in cluster.events()] == ["Scheduled"]


@pytest.mark.parametrize(
    ("restart", "others", "phase", "reason"),
    [
        ("Never", [], "Failed", "PodFailed"),
        ("Never", [{"name": "other", "image": "nginx:1"}], "Running", "ContainersNotReady"),
        ("OnFailure", [], "Running", "ContainersNotReady"),
    ],
)
async def test_container_failure_fails_its_pod_only_when_no_container_is_restarted_or_still_running(
    cluster: Cluster, restart: str, others: list[dict], phase: str, reason: str
):
    made = one(command=WRONG, restart=restart)
    made["spec"]["containers"] += others
    await cluster.settled("pods", made)
    status = cluster.status()
    assert (status["phase"], cluster.condition("Ready")[:2]) == (phase, ("False", reason))
    assert [each["ready"] for each in status["containerStatuses"][1:]] == [True] * len(others)


async def test_container_command_expands_variables_from_a_config_map_and_a_secret(cluster: Cluster):
    await cluster.apply("configmaps", {"metadata": {"name": "sizes"}, "data": {"size": "1"}})
    secret = {"metadata": {"name": "more"}, "data": {"SIZE": base64.b64encode(b"64").decode()}}
    await cluster.apply("secrets", secret)
    source = {"configMapKeyRef": {"name": "sizes", "key": "size"}}
    made = one(command=["memcached", "-m", "$(SIZE)"], envFrom=[{"secretRef": {"name": "more"}}])
    await cluster.settled("pods", made)
    assert cluster.container()["ready"] is True
    env = [{"name": "SIZE", "valueFrom": source}]
    await cluster.settled("pods", one(name="small", command=["memcached", "-m", "$(SIZE)"], env=env))
    assert cluster.container("small")["lastState"]["terminated"]["exitCode"] == 64


async def test_container_waits_for_the_secret_that_its_environment_refers_to(cluster: Cluster):
    source = {"secretKeyRef": {"name": "db", "key": "root"}}
    env = [{"name": "MYSQL_ROOT_PASSWORD", "valueFrom": source}]
    await cluster.settled("pods", one("mysql:8.4", env=env))
    assert waiting_of(cluster) == ("CreateContainerConfigError", 'secret "db" not found')
    assert cluster.status()["phase"] == "Pending"
    await cluster.apply("secrets", {"metadata": {"name": "db"}, "data": {}})
    await cluster.settle(11)
    assert waiting_of(cluster)[1] == "couldn't find key root in Secret x/db"
    await cluster.patch("secrets", "db", {"data": {"root": "eA=="}}, seconds=11)
    assert (cluster.container()["ready"], cluster.container()["restartCount"]) == (True, 0)
    assert ("Warning", "Failed", 'Error: secret "db" not found') in events_of(cluster, "Failed")


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("memcached", "image has non-numeric user (memcache), cannot verify user is non-root"),
        ("wordpress", "image will run as root"),
    ],
)
async def test_run_as_non_root_container_waits_when_its_image_might_run_as_root(
    cluster: Cluster, image: str, message: str
):
    await cluster.settled("pods", one(image, securityContext={"runAsNonRoot": True}))
    reason, found = waiting_of(cluster)
    assert reason == "CreateContainerConfigError"
    assert f"container has runAsNonRoot and {message} (pod: " in found


async def test_container_is_oom_killed_when_its_limit_is_below_its_memory_use(cluster: Cluster):
    await cluster.settled("pods", one(command=RIGHT, resources={"limits": {"memory": "10Mi"}}))
    ended = cluster.container()["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    assert waiting_of(cluster)[0] == "CrashLoopBackOff"


async def test_failed_image_pull_is_repeated_with_growing_pauses(cluster: Cluster):
    await cluster.settled("pods", one("registry.example/no-such-image:1"), seconds=0.5)
    error = (
        "rpc error: code = NotFound desc = failed to pull and unpack image "
        '"registry.example/no-such-image:1": failed to resolve reference '
        '"registry.example/no-such-image:1": registry.example/no-such-image:1: not found'
    )
    assert waiting_of(cluster) == ("ErrImagePull", error)
    await cluster.settle(5)
    text = 'Back-off pulling image "registry.example/no-such-image:1"'
    assert waiting_of(cluster) == ("ImagePullBackOff", f"{text}: ErrImagePull: {error}")
    assert cluster.status()["phase"] == "Pending"
    assert cluster.events("Pod")[1:] == [
        ("Pulling", 'Pulling image "registry.example/no-such-image:1"'),
        ("Failed", f'Failed to pull image "registry.example/no-such-image:1": {error}'),
        ("Failed", "Error: ErrImagePull"),
        ("BackOff", text),
        ("Failed", "Error: ImagePullBackOff"),
    ]
    await cluster.settle(60)
    pulls = next(each["count"] for each in cluster.list("events") if each["reason"] == "Pulling")
    assert pulls == 3  # at 0, 11 and 32 s
    (container,) = cluster.get("pods", "p")["spec"]["containers"]
    await cluster.patch("pods", "p", {"spec": {"containers": [{**container, "image": "nginx:1"}]}})
    assert (cluster.container()["ready"], cluster.container()["restartCount"]) == (True, 0)


async def test_container_status_and_events_report_an_invalid_image_name(cluster: Cluster):
    await cluster.settled("pods", one("web::1"))
    why = 'couldn\'t parse image name "web::1": invalid reference format'
    message = f'Failed to apply default image tag "web::1": {why}'
    assert waiting_of(cluster) == ("InvalidImageName", message)
    assert cluster.events("Pod")[1:] == [("InspectFailed", message), ("Failed", "Error: InvalidImageName")]


@pytest.mark.parametrize(
    ("probe", "output"),
    [
        (
            http("/wp-login.php", X_Forwarded_Proto="https"),
            'Get "https://{ip}:80/wp-admin/install.php": http: server gave HTTP response to HTTPS client',
        ),
        (
            {"httpGet": {"path": "/", "port": 80, "scheme": "HTTPS"}},
            'Get "https://{ip}:80/": http: server gave HTTP response to HTTPS client',
        ),
        (http("/", 8080), 'Get "http://{ip}:8080/": dial tcp {ip}:8080: connect: connection refused'),
        ({"tcpSocket": {"port": 8080}}, "dial tcp {ip}:8080: connect: connection refused"),
        (http("/", "http"), "couldn't find port: http"),
        (
            http("/", Host="[::1"),
            f'Get "http://{{ip}}:80/": failed to parse Location header "{BROKEN}": {UNPARSED}',
        ),
    ],
)
async def test_readiness_probe_failure_event_has_the_message_of_the_real_kubelet(
    cluster: Cluster, probe: dict, output: str
):
    await cluster.settled("pods", one("wordpress:6.8-apache", readinessProbe=probe), seconds=25)
    status, container = cluster.status(), cluster.container()
    assert (status["phase"], container["ready"], container["started"]) == ("Running", False, True)
    (event,) = [each for each in cluster.list("events") if each["reason"] == "Unhealthy"]
    message = f"Readiness probe failed: {output.format(ip=status['podIP'])}"
    assert (event["type"], event["message"]) == ("Warning", message)
    assert event["count"] == 3  # at 0, 10 and 20 s


@pytest.mark.parametrize(
    ("probe", "warnings"),
    [
        (http("/wp-admin/install.php?step=1", Host="blog.x.svc", X_Forwarded_Proto="https"), 0),
        (http("/"), 0),
        (http("/", Host="blog.x.svc", X_Forwarded_Proto="https"), 1),
        ({"exec": {"command": ["true"]}}, 0),
        ({"tcpSocket": {"port": 80}}, 0),
    ],
)
async def test_readiness_probe_follows_redirects_only_to_the_pod(
    cluster: Cluster, probe: dict, warnings: int
):
    await cluster.settled("pods", one("wordpress:6.8-apache", readinessProbe=probe), seconds=60)
    assert cluster.container()["ready"] is True
    text = "Readiness probe warning: Probe terminated redirects, Response body: "
    assert events_of(cluster, "ProbeWarning") == [("Warning", "ProbeWarning", text)] * warnings


@pytest.mark.parametrize("kind", ["liveness", "startup"])
async def test_container_is_restarted_when_its_liveness_or_startup_probe_fails(cluster: Cluster, kind: str):
    probe = {"tcpSocket": {"port": 1}, "periodSeconds": 5, "failureThreshold": 2, "initialDelaySeconds": 3}
    await cluster.settled("pods", one(**{f"{kind}Probe": probe}), seconds=12)
    assert cluster.container()["ready"] is (kind == "liveness")
    await cluster.settle(5)
    container = cluster.container()
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 137
    assert "running" in container["state"]
    text = f"Container c failed {kind} probe, will be restarted"
    assert events_of(cluster, "Killing") == [("Normal", "Killing", text)]


async def test_running_pod_fails_at_its_active_deadline(cluster: Cluster):
    made = one("nginx:1")
    made["spec"]["activeDeadlineSeconds"] = 30
    await cluster.settled("pods", made, seconds=29)
    assert cluster.status()["phase"] == "Running"
    await cluster.settle(2)
    status = cluster.status()
    text = "Pod was active on the node longer than the specified deadline"
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "DeadlineExceeded", text)
    assert cluster.container()["state"]["terminated"]["exitCode"] == 137
    assert events_of(cluster, "DeadlineExceeded") == [("Normal", "DeadlineExceeded", text)]


async def test_evicted_pod_stays_failed_and_its_replica_set_creates_another_pod(cluster: Cluster):
    await cluster.settled(WEB, deployment(replicas=2))
    first, second = (each["metadata"]["name"] for each in cluster.list("pods"))
    evict = {"metadata": {"annotations": {"devcluster.local/evict": "memory"}}}
    await cluster.patch("pods", first, evict)
    status = cluster.status(first)
    text = (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 94208Ki. "
        "Container c was using 98304Ki, request is 0, has larger consumption of memory. "
    )
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Evicted", text)
    kinds = {each["type"]: (each["status"], each.get("reason")) for each in status["conditions"]}
    assert kinds["DisruptionTarget"] == ("True", "TerminationByKubelet")
    assert kinds["Ready"] == ("False", "PodFailed")
    assert ("Warning", "Evicted", text) in events_of(cluster, "Evicted")
    names = {each["metadata"]["name"] for each in cluster.list("pods")}
    assert {first, second} < names
    assert len(names) == 3
    status = cluster.get(WEB, "web")["status"]
    assert (status["replicas"], status["availableReplicas"]) == (2, 2)
    # The controller does not adopt the pod again, and keeps it when it scales down.
    await cluster.patch(WEB, "web", {"spec": {"replicas": 0}})
    assert [each["metadata"]["name"] for each in cluster.list("pods")] == [first]
    assert cluster.get(WEB, "web")["status"].get("replicas", 0) == 0
    await cluster.delete(WEB, "web")
    assert cluster.list("pods") == []


async def test_pods_wait_while_nodes_are_full_and_start_when_a_running_pod_fails(cluster: Cluster):
    for name in ("node-0", "node-1", "node-2"):
        allocatable = {"cpu": "2", "memory": "1Gi", "pods": "110"}
        await cluster.client.patch(
            "nodes", "", name, {"status": {"allocatable": allocatable}}, subresource="status"
        )
    wanted = {"requests": {"cpu": "1500m", "memory": "128Mi"}}
    for number in range(4):
        await cluster.settled("pods", one("nginx:1", name=f"p{number}", resources=wanted))
    message = (
        "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are "
        "available: 3 No preemption victims found for incoming pod."
    )
    assert cluster.condition("PodScheduled", name="p3") == ("False", "Unschedulable", message)
    evict = {"metadata": {"annotations": {"devcluster.local/evict": "ephemeral-storage"}}}
    await cluster.patch("pods", "p1", evict)
    assert cluster.status("p3")["phase"] == "Running"


async def test_container_runs_the_simulated_program_registered_for_its_image():
    def shop(start: Start) -> Running | Exited:
        if start.args == ["--open"]:
            return Running(ports={8080: lambda request: HttpResponse(503 if request.path == "/" else 200)})
        return Exited(3, ("closed",))

    async with started(0.0, images={"shop": Image(shop)}) as cluster:
        await cluster.settled(
            "pods", one("registry.example/shop:1", terminationMessagePolicy="FallbackToLogsOnError")
        )
        ended = cluster.container()["lastState"]["terminated"]
        assert (ended["exitCode"], ended["message"]) == (3, "closed\n")
        for name, path in (("down", "/"), ("up", "/healthz")):
            probe = http(path, 8080)
            await cluster.settled("pods", one("shop", name=name, args=["--open"], readinessProbe=probe))
        assert not cluster.container("down")["ready"]
        assert cluster.container("up")["ready"]
        assert events_of(cluster, "Unhealthy") == [
            ("Warning", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
        ]


async def test_scheduler_uses_the_new_requests_of_a_resized_pod(cluster: Cluster):
    for name in ("node-0", "node-1", "node-2"):
        allocatable = {"cpu": "2" if name == "node-0" else "0", "memory": "1Gi", "pods": "110"}
        await cluster.client.patch(
            "nodes", "", name, {"status": {"allocatable": allocatable}}, subresource="status"
        )
    for name in ("p", "q"):
        made = one("nginx:1", resources={"requests": {"cpu": "1500m"}})
        made["metadata"]["name"] = name
        await cluster.settled("pods", made)
    assert cluster.condition("PodScheduled", name="q")[0] == "False"
    spec = cluster.get("pods", "p")["spec"]
    spec["containers"][0]["resources"]["requests"]["cpu"] = "200m"
    await cluster.client.patch("pods", "x", "p", {"spec": spec}, subresource="resize")
    await cluster.settle()
    assert cluster.status("q")["phase"] == "Running"
