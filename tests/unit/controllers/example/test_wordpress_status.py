from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apis.example.v1.wordpress import Wordpress
from controllers.example.parts import Trouble
from controllers.example.wordpress import (
    Sight,
    WordpressOperator,
    conditions_of,
    next_look,
    node_port_of,
    url_of,
)
from manager import Blocked, Result
from manager.api import ObjectMeta
from manager_kinds.core_v1 import Service
from manager_kinds.pod_health import PodHealth
from manager_tools.testing import without_manager
from tests.support.admission import request
from tests.unit.controllers.example.world import NOW, deployment, site
from tests.unit.controllers.seen import seen as watched
from tests.unit.manager_kinds.pods import container, pod, terminated

RETRY = WordpressOperator.database_retry


def service(*, ingress: list[dict[str, str]] | None = None) -> Service:
    spec = {"ports": [{"port": 80, "nodePort": 30080}]}
    status = {"loadBalancer": {"ingress": ingress} if ingress else {}}
    return Service(metadata=ObjectMeta(name="blog", namespace="default"), spec=spec, status=status)


def seen(sight: Sight) -> dict[str, tuple[bool, str]]:
    return {kind: (holds, reason) for kind, holds, reason, _ in conditions_of(sight)}


def up() -> Sight:
    return Sight(
        database=deployment("blog-mysql", ready=True),
        frontend=deployment("blog", ready=True),
        service=service(),
    )


def test_wordpress_has_available_true_and_degraded_false_when_its_deployments_are_ready():
    assert seen(up()) == {
        "DatabaseReady": (True, "Ready"),
        "Available": (True, "Ready"),
        "Progressing": (False, "RolledOut"),
        "Degraded": (False, "AsExpected"),
    }


def test_wordpress_is_unavailable_while_its_database_is_not_ready():
    sight = up()
    sight.database = deployment("blog-mysql", ready=False)
    assert seen(sight)["DatabaseReady"] == (False, "NotReady")
    assert seen(sight)["Available"] == (False, "DatabaseNotReady")
    assert seen(sight)["Progressing"] == (True, "RollingOut")
    sight.database = None
    assert seen(sight)["DatabaseReady"] == (False, "NotCreated")


@pytest.mark.parametrize(
    ("passing", "awaited", "progressing", "degraded"),
    [(False, False, False, True), (False, True, True, True), (True, False, True, False)],
    ids=["permanent", "awaited", "temporary"],
)
def test_wordpress_degraded_condition_is_true_for_a_blocked_site_unless_the_block_ends_by_itself(
    *, passing: bool, awaited: bool, progressing: bool, degraded: bool
):
    sight = up()
    sight.blocked = Blocked("Reason", "because", passing=passing, awaited=awaited)
    assert seen(sight)["Progressing"] == (progressing, "Reason")
    assert seen(sight)["Degraded"][0] is degraded
    # Ready parts stay ready.
    assert seen(sight)["Available"] == (True, "Ready")
    assert next_look(sight, RETRY) is None
    # A missing part is unavailable for the reason of the block.
    sight.frontend = None
    assert seen(sight)["Available"] == (False, "Reason")


def test_wordpress_degraded_condition_has_the_messages_of_all_problems_and_the_reason_of_the_first():
    sight = up()
    sight.troubles = [Trouble("First", "one", 300), Trouble("Second", "two", 60)]
    assert ("Degraded", True, "First", "one; two") in conditions_of(sight)
    assert next_look(sight, RETRY) == Result(requeue_after=60)


@pytest.mark.parametrize(
    ("ingress", "url"),
    [
        (None, None),
        ([{"ip": "192.0.2.1"}], "http://192.0.2.1"),
        ([{"hostname": "lb.example.com", "ip": "192.0.2.1"}], "http://lb.example.com"),
        ([{}, {"ip": "2001:db8::1"}], "http://[2001:db8::1]"),
    ],
    ids=["pending", "address", "name", "IPv6"],
)
def test_wordpress_status_contains_the_address_of_the_load_balancer(
    ingress: list[dict[str, str]] | None, url: str | None
):
    wanted = site(serviceType="LoadBalancer")
    assert url_of(wanted, service(ingress=ingress)) == url
    assert node_port_of(wanted, service(ingress=ingress)) is None


def crash(name: str) -> PodHealth:
    ended = terminated(1, "Error", "[ERROR] [MY-010187] Could not open file\n[ERROR] Aborting")
    return PodHealth.of(pod(container(ended, name="mysql"), name=name), NOW)


def test_wordpress_condition_names_the_problem_of_the_database_or_frontend_pod():
    sight = Sight(database=deployment("blog-mysql", ready=False), waits_for_database=True)
    sight.pods["blog-mysql"] = [crash("blog-mysql-1")]
    message = (
        "Deployment blog-mysql: CrashLoopBackOff: 1 of 1 pod: blog-mysql-1: "
        "container mysql ended with exit code 1: [ERROR] Aborting"
    )
    told = {kind: rest for kind, *rest in conditions_of(sight)}
    assert told["DatabaseReady"] == [False, "CrashLoopBackOff", message]
    assert told["Progressing"] == [True, "CrashLoopBackOff", message]
    assert told["Degraded"] == [True, "CrashLoopBackOff", message]
    assert seen(sight)["Available"] == (False, "NotCreated")
    sight = up()
    sight.frontend = deployment("blog", ready=False)
    sight.pods["blog"] = [crash("blog-1")]
    assert seen(sight) == {
        "DatabaseReady": (True, "Ready"),
        "Available": (False, "CrashLoopBackOff"),
        "Progressing": (True, "CrashLoopBackOff"),
        "Degraded": (True, "CrashLoopBackOff"),
    }


@pytest.mark.virtual_time
async def test_wordpress_sends_no_new_event_when_only_the_last_log_line_of_a_pod_changes():
    labels = {"app": "blog", "tier": "mysql", "app.kubernetes.io/part-of": "wordpress"}
    spec = {"schedulerName": "none", "containers": [{"name": "mysql", "image": "image"}]}
    async with watched(WordpressOperator) as sites:
        await sites.create("blog", {"sqlrootpassword": "in-the-open"})
        web = {"metadata": {"name": "web", "labels": labels}, "spec": spec}
        await sites.api.create("pods", "default", web)
        for number in range(3):
            ended = terminated(1, "Error", f"2026-05-01T12:00:0{number}Z aborting")
            status = {"phase": "Running", "containerStatuses": [container(ended)]}
            await sites.api.patch("pods", "default", "web", {"status": status}, subresource="status")
            await asyncio.sleep(5)
            (degraded,) = (each for each in sites.status("blog")["conditions"] if each["type"] == "Degraded")
            assert degraded["message"].endswith(f"0{number}Z aborting")
        assert (await sites.events_of("blog")).count(("CrashLoopBackOff", 1)) == 1


async def warning_of(**spec: Any) -> str:
    """Return the only warning of the webhook about a site with this spec."""
    given = Wordpress.model_validate({"metadata": {"name": "blog"}, "spec": spec})
    (warning,) = await without_manager(WordpressOperator).warn_of_what_is_open(given, request(Wordpress))
    return warning


async def test_wordpress_webhook_warns_about_a_plain_text_password_without_quoting_it():
    warning = await warning_of(serviceType="ClusterIP", sqlrootpassword="correct-horse")
    assert warning.startswith("spec.sqlrootpassword: ")
    assert "spec.sqlRootPasswordSecretRef" in warning
    assert "correct-horse" not in warning


@pytest.mark.parametrize("spec", [{"serviceType": "NodePort"}, {"serviceType": "LoadBalancer"}, {}])
async def test_wordpress_webhook_warns_of_a_site_that_is_public_before_its_installation(spec: dict[str, str]):
    warning = await warning_of(**spec)
    opened = spec.get("serviceType", "NodePort")
    assert warning.startswith(f"spec.serviceType: with {opened}, the first visitor")
    assert "kubectl port-forward" in warning
    assert len(warning) <= 256, "an API server may cut longer warnings"
