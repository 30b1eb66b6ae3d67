from __future__ import annotations

from typing import Any

from apis.example.v1.wordpress import Wordpress
from controllers.example.workloads import Workloads
from manager_kinds.apps_v1 import Deployment
from tests.unit.controllers.example.world import site

WORKLOADS = Workloads(program="test", mysql_image="mysql:default", wordpress_image="wordpress:default")


def pod_of(deployment: Deployment) -> dict[str, Any]:
    return deployment.spec["template"]["spec"]


def both(wanted: Wordpress) -> list[Deployment]:
    return [WORKLOADS.database(wanted), WORKLOADS.frontend(wanted)]


def test_wordpress_pods_meet_the_restricted_pod_security_standard():
    for deployment in both(site()):
        pod = pod_of(deployment)
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["runAsUser"] > 0
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        # The images need only this sysctl, which the standard allows.
        for sysctl in security.get("sysctls", ()):
            assert sysctl == {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
        [container] = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod["automountServiceAccountToken"] is False


def test_wordpress_pods_contain_no_plain_text_password():
    for deployment in both(site(sqlrootpassword="in-the-open")):
        assert "in-the-open" not in str(deployment.to_wire())
        for variable in pod_of(deployment)["containers"][0]["env"]:
            assert ("PASSWORD" in variable["name"]) is ("valueFrom" in variable)


def test_wordpress_database_and_frontend_have_the_same_user_and_password_and_host():
    database, frontend = (
        {each["name"]: each for each in pod_of(deployment)["containers"][0]["env"]}
        for deployment in both(site())
    )
    assert database["MYSQL_USER"]["value"] == frontend["WORDPRESS_DB_USER"]["value"]
    assert database["MYSQL_DATABASE"]["value"] == frontend["WORDPRESS_DB_NAME"]["value"]
    assert database["MYSQL_PASSWORD"]["valueFrom"] == frontend["WORDPRESS_DB_PASSWORD"]["valueFrom"]
    assert database["MYSQL_ROOT_PASSWORD"]["valueFrom"] != database["MYSQL_PASSWORD"]["valueFrom"]
    host = frontend["WORDPRESS_DB_HOST"]["value"]
    service = WORKLOADS.database_service(site())
    assert service.metadata.name == host
    assert service.spec["selector"] == WORKLOADS.database(site()).spec["selector"]["matchLabels"]


def test_wordpress_child_names_and_labels_stay_below_64_characters_for_a_long_site_name():
    wanted = site()
    wanted.metadata.name = "n" * 50
    for deployment in both(wanted):
        assert max(map(len, deployment.metadata.labels.values())) <= 63
        assert len(deployment.metadata.name) <= 63
    assert len(WORKLOADS.database_service(wanted).metadata.name) <= 63


def test_wordpress_readiness_probe_requests_the_installer_page_with_the_host_of_the_service():
    """A redirect to HTTPS on the same host would fail the probe, because the pod serves no TLS."""
    probe = pod_of(WORKLOADS.frontend(site()))["containers"][0]["readinessProbe"]["httpGet"]
    assert probe["path"] == "/wp-admin/install.php?step=1"
    headers = {each["name"]: each["value"] for each in probe["httpHeaders"]}
    assert headers == {"Host": "blog.default.svc", "X-Forwarded-Proto": "https"}
