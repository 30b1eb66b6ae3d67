"""Collection of an object's state, and the limits of its cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from manager.api import GroupVersionKind, ObjectKey
from manager.kube.rest_mapping import RestMapper
from manager.telemetry.runs import ReconcileRecord
from manager_console.diagnosis.collect import (
    MOST_LEVELS,
    MOST_LOGS,
    MOST_SHOWN,
    PATIENCE,
    Collected,
    Collector,
    Counts,
)
from manager_console.diagnosis.explanation import ControllerReport, Explanation, explain
from manager_tools.commands.explain import COLOURED, decode_report, to_text
from tests.support.scripted_wire import Reply, ScriptedWire, Sent, Stall
from tests.unit.connected import connected

pytestmark = pytest.mark.virtual_time

FOO, SECRET = GroupVersionKind("example.com", "v1", "Foo"), GroupVersionKind("", "v1", "Secret")
DEPLOYMENT, POD = GroupVersionKind("apps", "v1", "Deployment"), GroupVersionKind("", "v1", "Pod")
EVENT = GroupVersionKind("", "v1", "Event")
KEY = ObjectKey("ns", "foo")
BASE, CORE = "/apis/example.com/v1/namespaces/ns", "/api/v1/namespaces/ns"
HOSTILE = "\x1b[2J\x9b31m\u202e<b>\n"


def resources(*named: tuple[str, str]) -> Reply:
    found = [{"name": plural, "kind": kind, "namespaced": True, "verbs": ["get"]} for plural, kind in named]
    return Reply.json({"kind": "APIResourceList", "resources": found})


def owned(name: str, uid: str, owner: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": uid, "ownerReferences": [{"uid": owner}]}
    return {"metadata": metadata, **more}


def pod(number: int, *, ready: bool = True, reason: str = "CrashLoopBackOff") -> dict[str, Any]:
    waiting = {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": reason}}}]}
    fine = {"conditions": [{"type": "Ready", "status": "True"}]}
    return owned(f"web-{number}", f"p{number}", "f", status=fine if ready else waiting)


class Cluster:
    """An API server with one Foo."""

    def __init__(self) -> None:
        self.wire = ScriptedWire()
        self.wire.on("GET", "/apis/example.com/v1", resources(("foos", "Foo")))
        self.wire.on("GET", "/apis/apps/v1", resources(("deployments", "Deployment")))
        self.wire.on("GET", "/api/v1", resources(("pods", "Pod"), ("secrets", "Secret")))
        self.serve("events")
        self.foo: dict[str, Any] = {"metadata": {"name": "foo", "namespace": "ns", "uid": "f"}}
        self.wire.on("GET", f"{BASE}/foos/foo", lambda _: Reply.json(self.foo))

    def serve(self, plural: str, *items: Any) -> None:
        """Serve these objects as the list of the core resource `plural`."""
        self.wire.on("GET", f"{CORE}/{plural}*", pages_of(list(items)))

    async def collect(self, *kinds: GroupVersionKind) -> Collected:
        transport = connected(self.wire).transport
        return await Collector(transport, RestMapper(transport), {FOO: kinds}).collect(FOO, KEY)


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


def explanation_of(found: Collected) -> Explanation:
    return explain(found, [], has_conditions=False)


def pages_of(items: list[Any]) -> Callable[[Sent], Reply]:
    def page(sent: Sent) -> Reply:
        start = int(sent.query.get("continue", "0"))
        end = start + int(sent.query["limit"])
        resume = {"continue": str(end)} if end < len(items) else {}
        return Reply.json({"metadata": resume, "items": items[start:end]})

    return page


@pytest.mark.parametrize("kind", [POD, EVENT], ids=lambda kind: kind.kind)
async def test_collector_of_huge_objects_requests_smaller_list_pages_and_stops_early(
    cluster: Cluster, kind: GroupVersionKind
):
    filled = pod(1, ready=False)
    filled["metadata"]["annotations"] = {"a": "x" * 400_000}
    plural = f"{kind.kind.lower()}s"
    cluster.serve(plural, *[filled] * 1000)
    found = await cluster.collect(*({POD} & {kind}))
    asked = [int(sent.query["limit"]) for sent in cluster.wire.sent("GET", f"{CORE}/{plural}*")]
    assert asked[0] == 10
    assert set(asked[1:]) == {2}
    assert 150 < sum(asked) < 200
    assert found.missing == [f"{kind.kind}: only the first {sum(asked)} were read"]
    assert sum(len(str(each)) for each in found.events) < 10_000


async def test_collector_stores_only_fields_that_the_page_shows_and_truncates_texts(cluster: Cluster):
    long = "y" * 100_000
    fat = dict.fromkeys(("reason", "message", "action", "reportingComponent"), long)
    series = {"count": 3, "state": long}
    event = {**fat, "metadata": {"name": "e"}, "related": {"name": long}, "series": series}
    condition = {"type": "Ready", "status": "False", "reason": "No", "message": long, "more": long}
    cluster.serve("events", *[event] * 20)
    cluster.foo |= {"spec": {"text": long}, "status": {"conditions": [condition] * 200, "text": long}}
    status = {"conditions": [condition]}
    cluster.serve("pods", *(owned(f"web-{each}", f"p{each}", "f", status=status) for each in range(3)))
    found = await cluster.collect(POD)
    explained = explanation_of(found)
    assert [each["message"][:3] for each in explained.events] == ["yyy"] * 20
    assert explained.events[0]["count"] == 3
    assert [each.message[:3] for each in explained.blocking[:3]] == ["yyy"] * 3
    assert len(explained.conditions) == 100
    assert len(str(found)) < 400_000


async def test_explanation_lists_a_limited_number_of_failing_pods_and_counts_the_others(cluster: Cluster):
    cluster.serve("pods", *(pod(each, ready=each % 100 > 0) for each in range(10_000)))
    found = await cluster.collect(POD)
    explained = explanation_of(found)
    assert len(cluster.wire.sent("GET", f"{CORE}/pods*")) == 22
    assert len(found.root.children) == MOST_SHOWN
    assert explained.tree.more == Counts({"Pod": 9_900}, {"Pod": 100 - MOST_SHOWN})
    assert explained.blocking[0].reason == "CrashLoopBackOff"
    assert len(to_text(explained)) < 3_000


async def test_collector_stops_waiting_for_a_stalled_server(cluster: Cluster):
    cluster.wire.on("GET", f"{CORE}/pods*", Stall())
    found = await cluster.collect(POD)
    assert asyncio.get_running_loop().time() == pytest.approx(PATIENCE, abs=1)
    assert found.missing == [f"objects that were not read within {PATIENCE:g} s"]


async def test_collector_skips_a_deeply_nested_object_and_keeps_other_objects(cluster: Cluster):
    nested = b'{"metadata":{"name":"x","managedFields":[%b]}}' % (b'{"f:a":' * 1100 + b"{}" + b"}" * 1100)
    bad = orjson.dumps(pod(1, ready=False))
    cluster.wire.on("GET", f"{CORE}/pods*", Reply(200, b'{"metadata":{},"items":[%b,%b]}' % (nested, bad)))
    found = await cluster.collect(POD)
    assert [each.name for each in found.root.children] == ["web-1"]


@pytest.mark.parametrize(
    "odd",
    [7, {}, {"metadata": 7}, {"metadata": {"name": "x", "ownerReferences": {}}}, {"metadata": {"name": 7}}],
    ids=repr,
)
async def test_explanation_reports_malformed_objects_and_shows_the_rest(cluster: Cluster, odd: Any):
    cluster.serve("pods", odd, pod(1, ready=False))
    event = {"message": "a meteorite", "count": "\x1b[2J", "lastTimestamp": 7, "series": [], "metadata": 1}
    cluster.serve("events", odd, event)
    cluster.foo |= {"spec": {"selector": odd}, "status": odd}
    explained = explanation_of(await cluster.collect(POD))
    assert [each.name for each in explained.tree.children] == ["web-1"]
    assert "Pod: invalid items are left out" in explained.missing
    text = to_text(explained)
    assert "a meteorite" in text
    assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.parametrize("answer", [b"7", b"{", b'{"items":{}}', b'{"metadata":{"continue":7}}'], ids=str)
async def test_collector_reports_a_malformed_list_and_shows_other_kinds(cluster: Cluster, answer: bytes):
    cluster.wire.on("GET", f"{CORE}/pods*", Reply(200, answer))
    cluster.serve("secrets", owned("password", "s", "f"))
    found = await cluster.collect(POD, SECRET)
    assert [child.name for child in found.root.children] == ["password"]
    [missing] = found.missing
    assert missing.startswith(f"Pod: GET {CORE}/pods: not a list")


async def test_collector_skips_a_child_that_is_deleted_during_the_collection(cluster: Cluster):
    base = "/apis/apps/v1/namespaces/ns/deployments"
    cluster.wire.on("GET", f"{base}*", pages_of([owned("gone", "a", "f"), owned("web", "b", "f")]))
    cluster.wire.on("GET", f"{base}/gone", Reply.status(404, "NotFound", "no such Deployment"))
    cluster.wire.on("GET", f"{base}/web", Reply.json(owned("web", "b", "f", spec={"replicas": 1})))
    found = await cluster.collect(DEPLOYMENT)
    assert [child.name for child in found.root.children] == ["web"]


async def test_collector_stops_at_a_depth_limit_when_objects_own_each_other(cluster: Cluster):
    chain = [owned(f"foo-{each}", f"f{each}", f"f{each - 1}" if each else "f") for each in range(30)]
    chain += [owned("foo", "f", "f"), owned("foo", "f", "f0")]
    cluster.wire.on("GET", f"{BASE}/foos", Reply.json({"metadata": {}, "items": chain}))
    found = await cluster.collect(FOO)
    assert found.missing == [f"objects below {MOST_LEVELS} levels"]
    assert [child.name for child in found.root.children] == ["foo-0", "foo"]
    assert len(cluster.wire.sent("GET", f"{BASE}/foos")) == MOST_LEVELS


async def test_collector_reads_a_limited_number_of_persistent_volume_claims_per_pod(cluster: Cluster):
    waits = pod(1, ready=False)
    waits["spec"] = {"volumes": [{"persistentVolumeClaim": {"claimName": f"c{each}"}} for each in range(500)]}
    cluster.serve("pods", waits)
    cluster.wire.on("GET", "/api/v1", resources(("pods", "Pod"), ("claims", "PersistentVolumeClaim")))
    cluster.wire.on("GET", f"{CORE}/claims/*", Reply.json({"metadata": {"name": "c"}}))
    found = await cluster.collect(POD)
    assert len([sent for sent in cluster.wire.sent("GET") if "/claims/" in sent.path]) == MOST_SHOWN
    assert f"PersistentVolumeClaim: only the first {MOST_SHOWN} of a pod were read" in found.missing


async def test_collector_reports_a_kind_that_the_user_must_not_list(cluster: Cluster):
    refused = Reply.status(403, "Forbidden", "deployments is forbidden")
    cluster.wire.on("GET", "/apis/apps/v1/namespaces/ns/deployments", refused)
    found = await cluster.collect(DEPLOYMENT)
    assert found.missing == ["Deployment: you may not list them"]
    assert "not known: Deployment: you may not list them" in to_text(explanation_of(found))


async def test_collector_requests_only_metadata_of_secrets(cluster: Cluster):
    cluster.serve("secrets", owned("password", "s", "f"))
    found = await cluster.collect(SECRET)
    assert [child.name for child in found.root.children] == ["password"]
    [asked] = [sent for sent in cluster.wire.sent("GET") if "/secrets" in sent.path]
    assert asked.headers["Accept"].startswith("application/json;as=PartialObjectMetadataList")


@pytest.mark.parametrize("metadata", [{}, {"generation": 2}], ids=["new", "changed"])
@pytest.mark.parametrize(("outcome", "reasons"), [("success", ["NotObserved"]), ("error", ["ValueError"])])
async def test_explanation_of_an_outdated_or_empty_status_gives_the_last_reconcile_error_or_not_observed(
    cluster: Cluster, outcome: str, reasons: list[str], metadata: dict[str, Any]
):
    cluster.foo["metadata"] |= metadata
    cluster.foo["status"] = {"observedGeneration": 1} if metadata else {}
    run = ReconcileRecord("foo", "ns", "foo", "1", 0.0, 0.0, 0, 0, (), 0, outcome)
    run.failure, run.error_type, run.error = "unexpected", "ValueError", "odd"
    report = ControllerReport("foo", "running", False, "f", None, None, [run])
    explained = explain(await cluster.collect(), [report], has_conditions=True)
    assert [each.reason for each in explained.blocking] == reasons


async def test_explanation_of_an_object_in_deletion_has_the_single_reason_terminating(cluster: Cluster):
    cluster.foo["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b", "c/d"]}
    bad = {"status": "False", "message": "waits for the store"}
    conditions = [{"type": "Ready", "reason": "A", **bad}, {"type": "Reachable", "reason": "B", **bad}]
    cluster.foo["status"] = {"conditions": conditions}
    [blocking] = explanation_of(await cluster.collect()).blocking
    assert blocking.reason == "Terminating"
    assert "the finalizer a/b, c/d: waits for the store" in blocking.message


def test_decode_report_skips_unknown_fields_that_are_nested_deeply():
    nested = b'{"a":' * 900 + b"1" + b"}" * 900
    said = b'{"controller":"a","state":"b","paused":false,"uid":null,"running":null,"next":null,"runs":[]'
    said += b',"odd":%b}'
    [controller] = decode_report(b'{"controllers":[%b]}' % (said % nested)).controllers
    assert controller == ControllerReport("a", "b", False, None, None, None, [])


async def test_explanation_text_strips_control_characters_of_objects(cluster: Cluster):
    bad = {"type": f"Ready{HOSTILE}", "status": "False", "reason": HOSTILE, "message": HOSTILE * 1000}
    cluster.foo["status"] = {"conditions": [bad]}
    cluster.foo["metadata"]["name"] = HOSTILE
    text = to_text(explanation_of(await cluster.collect()))
    assert all(line.isprintable() for line in text.splitlines())
    assert len(text) < 5_000
    coloured = to_text(explanation_of(await cluster.collect()), COLOURED)
    for code in ("\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[1m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == text


GOOD = {"conditions": [{"type": "Available", "status": "True"}, {"type": "Degraded", "status": "False"}]}


class Rollout(Cluster):
    """API server with a Foo and its Deployment in a rollout: old pods are only counted, one pod is new."""

    def __init__(self, new: dict[str, Any], *, updated: int = 1) -> None:
        super().__init__()
        self.foo["status"] = GOOD
        counts = {"replicas": 4, "readyReplicas": 3, "updatedReplicas": updated}
        deployment = owned("web", "d", "f", spec={"replicas": 3}, status=counts)
        new_set = owned("web-new", "r2", "d", spec={"replicas": updated}, status={"readyReplicas": 0})
        self.wire.on(
            "GET", "/apis/apps/v1", resources(("deployments", "Deployment"), ("replicasets", "ReplicaSet"))
        )
        self.wire.on("GET", "/apis/apps/v1/namespaces/ns/deployments", pages_of([deployment]))
        self.wire.on("GET", "/apis/apps/v1/namespaces/ns/deployments/web", Reply.json(deployment))
        self.wire.on("GET", "/apis/apps/v1/namespaces/ns/replicasets", pages_of([new_set]))
        self.wire.on("GET", "/apis/apps/v1/namespaces/ns/replicasets/web-new", Reply.json(new_set))
        self.serve("pods", owned("web-new-1", "p", "r2", status=new))


def waiting_pod(reason: str, **more: Any) -> dict[str, Any]:
    waiting = {"name": "main", "state": {"waiting": {"reason": reason, "message": "not found"}}}
    return {"phase": "Pending", "containerStatuses": [waiting], **more}


NOT_READY = {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
EVICTED = {"phase": "Failed", "reason": "Evicted", "message": "The node had condition: [DiskPressure]."}


@pytest.mark.parametrize(
    ("new_pod", "updated", "blocking", "line"),
    [
        (
            waiting_pod("ErrImagePull"),
            1,
            [("Pod", "ImagePullBackOff")],
            "Deployment web not ready: RollingOut: 1 of 3 pods are up to date",
        ),
        (waiting_pod("ContainerCreating", conditions=[NOT_READY]), 1, [], ""),
        (EVICTED, 3, [], "Evicted: The node had condition: [DiskPressure]."),
    ],
    ids=["stuck", "progress", "evicted and replaced"],
)
async def test_explanation_reports_a_deployment_as_ready_during_a_rollout_unless_the_new_pod_fails(
    new_pod: dict[str, Any], updated: int, blocking: list[tuple[str, str]], line: str
):
    explained = explanation_of(await Rollout(new_pod, updated=updated).collect(DEPLOYMENT))
    assert explained.ready is not bool(blocking)
    assert [(each.kind, each.reason) for each in explained.blocking] == blocking
    assert line in to_text(explained)


async def test_explanation_of_an_unready_pod_quotes_its_warning_event_with_the_reason_once(cluster: Cluster):
    conditions = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "[main]"}]
    cluster.serve("pods", owned("web", "p", "f", status={"conditions": conditions}))
    event = {"type": "Warning", "reason": "Unhealthy", "message": "Readiness probe failed: refused"}
    stale = {**event, "reason": "FailedScheduling", "message": "0/1 nodes", "lastTimestamp": "9"}
    cluster.serve("events", stale, event)
    text = to_text(explanation_of(await cluster.collect(POD)))
    assert "Pod web: Unhealthy: Readiness probe failed: refused" in text
    assert "Unhealthy: Unhealthy" not in text


def crashed(name: str = "web", **ended: Any) -> dict[str, Any]:
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    last = {"terminated": {"exitCode": 71, "reason": "Error", **ended}}
    container = {"name": "main", "state": state, "lastState": last}
    return owned(name, f"uid-{name}", "f", status={"phase": "Running", "containerStatuses": [container]})


async def test_explanation_of_a_crash_loop_without_a_message_quotes_the_last_log_line(cluster: Cluster):
    cluster.serve("pods", crashed())
    cluster.wire.on("GET", f"{CORE}/pods/web/log*", Reply(body=b"\x1b[31mout of\x1b[0m luck\n"))
    (blocking,) = explanation_of(await cluster.collect(POD)).blocking
    assert blocking.message == "container main ended with exit code 71: out of luck"
    (sent,) = cluster.wire.sent("GET", f"{CORE}/pods/web/log*")
    assert (sent.query["previous"], sent.query["tailLines"], sent.query["container"]) == ("true", "1", "main")


async def test_explanation_of_a_crash_loop_has_no_log_line_when_the_log_is_unreadable(cluster: Cluster):
    names = [f"web-{number}" for number in range(9)]
    cluster.serve("pods", crashed("said", message="so"), *map(crashed, names))
    cluster.wire.on("GET", f"{CORE}/pods/web-*", Reply.status(403, "Forbidden", "no"))
    first, *others = explanation_of(await cluster.collect(POD)).blocking
    assert first.message == "container main ended with exit code 71: so"
    assert {each.message for each in others} == {"container main ended with exit code 71"}
    assert len(cluster.wire.sent("GET", f"{CORE}/pods/web-*")) == MOST_LOGS
