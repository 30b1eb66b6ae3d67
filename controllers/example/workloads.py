"""The Deployments and Services that a site wants: only the fields that are ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apis.example.v1.wordpress import Wordpress
from controllers.example.parts import DATABASE, FRONTEND, ROOT_PASSWORD, USER_PASSWORD, Part
from manager.api.apps_v1 import Deployment
from manager.api.core_v1 import Service

# The database, and its user, that WordPress keeps its content in.
SCHEMA = "wordpress"
USER = "wordpress"

HTTP_PORT = 80  # of the site, at its pod and at its Service

# The users that the images' own programs run as: mysql in the one, www-data in the other. Started as these,
# both entrypoints skip the steps that need root, and write only to the volume and to folders open to all.
MYSQL_ID = 999
WWW_DATA_ID = 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Workloads:
    """Builds them. The images are for sites that name none; `proxy` are variables for all containers.

    `program` is who manages them, as their labels say.
    """

    program: str
    mysql_image: str
    wordpress_image: str
    proxy: Sequence[Mapping[str, str]] = ()

    def database(self, site: Wordpress) -> Deployment:
        """MySQL. The old pod has to go before a new one comes: two servers on one volume destroy it."""
        container = {
            "name": "mysql",
            "image": site.spec.mysql_image or self.mysql_image,
            "env": [
                _from_secret("MYSQL_ROOT_PASSWORD", site, ROOT_PASSWORD),
                {"name": "MYSQL_DATABASE", "value": SCHEMA},
                {"name": "MYSQL_USER", "value": USER},
                _from_secret("MYSQL_PASSWORD", site, USER_PASSWORD),
                *self.proxy,
            ],
            "ports": [{"name": "mysql", "containerPort": 3306, "protocol": "TCP"}],
            # By TCP, which the server does not offer while it is being initialized. mysqladmin succeeds as
            # soon as the server answers, even that it knows no such user, so no password is needed. (MariaDB
            # logs each time that it refuses the user, MySQL does not.) A probe that only connects would count
            # as a failed client, and MySQL blocks a host with many. There is no liveness probe: a restart
            # would cut a recovery short.
            "readinessProbe": {
                "exec": {"command": ["mysqladmin", "ping", "--host=127.0.0.1"]},
                "periodSeconds": 5,
                "timeoutSeconds": 5,
            },
            # About what an idle MySQL 8.4 takes. Pods without requests are the first to be evicted, and a
            # limit would end the database in the middle of its work.
            "resources": {"requests": {"cpu": "50m", "memory": "512Mi"}},
            "volumeMounts": [_mount("/var/lib/mysql", "mysql")],
        }
        return self._deployment(site, DATABASE, container, user=MYSQL_ID)

    def frontend(self, site: Wordpress) -> Deployment:
        """WordPress, as the user that its image's Apache would switch to, which may then use its port."""
        container = {
            "name": "wordpress",
            "image": site.spec.image or self.wordpress_image,
            "env": [
                {"name": "WORDPRESS_DB_HOST", "value": DATABASE.workload(site)},
                {"name": "WORDPRESS_DB_NAME", "value": SCHEMA},
                {"name": "WORDPRESS_DB_USER", "value": USER},
                _from_secret("WORDPRESS_DB_PASSWORD", site, USER_PASSWORD),
                *self.proxy,
            ],
            "ports": [{"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"}],
            # The installer answers 200 before and after the installation, and 500 without a database. Its
            # first step would look for translations on the internet. A site that redirects to HTTPS is told
            # that the request came by HTTPS. The kubelet follows a redirect to the same host only, where
            # nothing speaks TLS; to another host, as the site's own name is, a redirect counts as success.
            # The installer loads no plugins and ignores maintenance mode, as seen with WordPress 6.1: it
            # answered 200 where the front page answered 500 and 503. There is no liveness probe: a restart in
            # the middle of the first start leaves half of WordPress on the volume, and the image does not
            # copy again (seen by killing it).
            "readinessProbe": {
                "httpGet": {
                    "path": "/wp-admin/install.php?step=1",
                    "port": "http",
                    "httpHeaders": [
                        {"name": "Host", "value": host_of(site)},
                        {"name": "X-Forwarded-Proto", "value": "https"},
                    ],
                },
                "periodSeconds": 10,
                "timeoutSeconds": 5,
            },
            "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
            "volumeMounts": [_mount("/var/www/html", "html")],
        }
        privileged_ports = {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
        return self._deployment(site, FRONTEND, container, user=WWW_DATA_ID, sysctls=[privileged_ports])

    def database_service(self, site: Wordpress) -> Service:
        """The name by which WordPress finds MySQL: headless, because there is one pod to go to."""
        spec = {"type": "ClusterIP", "clusterIP": "None", "ports": [_port("mysql", 3306)]}
        return self._service(site, DATABASE, spec)

    def frontend_service(self, site: Wordpress) -> Service:
        """Where the site is reached."""
        spec = {"type": site.spec.service_type, "ports": [_port("http", HTTP_PORT)]}
        return self._service(site, FRONTEND, spec)

    def _deployment(
        self, site: Wordpress, part: Part, container: dict[str, Any], *, user: int, **security: Any
    ) -> Deployment:
        # The end of the log of a container that crashes is then in its pod's status, and in the site's.
        container["terminationMessagePolicy"] = "FallbackToLogsOnError"
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        pod = {
            "automountServiceAccountToken": False,
            # Else Services of certain names would set variables that the images take for settings.
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": user,
                "runAsGroup": user,
                "fsGroup": user,
                # To look through a large volume at each start would take minutes.
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
                **security,
            },
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": part.claim(site)}}],
        }
        metadata = part.metadata(site, part.workload(site), self.program)
        return Deployment(
            metadata=metadata,
            spec={
                "replicas": 1,
                # The volume is for one node at a time.
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": part.selector(site)},
                "template": {"metadata": {"labels": metadata.labels}, "spec": pod},
            },
        )

    def _service(self, site: Wordpress, part: Part, spec: dict[str, Any]) -> Service:
        metadata = part.metadata(site, part.workload(site), self.program)
        return Service(metadata=metadata, spec={**spec, "selector": part.selector(site)})


def host_of(site: Wordpress) -> str:
    """Return the name of the site's Service in the cluster."""
    return f"{FRONTEND.workload(site)}.{site.metadata.namespace}.svc"


def _port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "port": number, "targetPort": name, "protocol": "TCP"}


def _mount(path: str, folder: str) -> dict[str, str]:
    # A folder of the volume, because its root may have a lost+found, which MySQL takes for its own.
    return {"name": "data", "mountPath": path, "subPath": folder}


def _from_secret(variable: str, site: Wordpress, key: str) -> dict[str, Any]:
    reference = {"name": DATABASE.workload(site), "key": key}
    return {"name": variable, "valueFrom": {"secretKeyRef": reference}}
