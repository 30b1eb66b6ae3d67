"""The desired Deployments and Services of a site, with the fields that the operator owns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apis.example.v1.wordpress import Wordpress
from controllers.example.parts import DATABASE, FRONTEND, ROOT_PASSWORD, USER_PASSWORD, Part
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import (
    ContainerDict,
    EnvVarDict,
    PodSecurityContextDict,
    PodSpecDict,
    Service,
    ServicePortDict,
    ServiceSpecDict,
    VolumeMountDict,
)

# The database in which WordPress stores its content, and the user with which it connects.
SCHEMA = "wordpress"
USER = "wordpress"

HTTP_PORT = 80  # the site's port, in its pod and at its Service

# The users of the images' own programs: mysql and www-data. If the containers start with these users, both
# entrypoints skip the steps that need root, and write only to the volume and to world-writable directories.
MYSQL_ID = 999
WWW_DATA_ID = 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Workloads:
    """A builder of Deployments and Services; its images are defaults for sites without their own images.

    `program` is the value of the managed-by label; `proxy` has environment variables for all containers.
    """

    program: str
    mysql_image: str
    wordpress_image: str
    proxy: Sequence[EnvVarDict] = ()

    def database(self, site: Wordpress) -> Deployment:
        """Return the MySQL Deployment, which never runs two pods: they would destroy the volume's data."""
        container: ContainerDict = {
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
            # The probe uses TCP, which the server does not offer during its initialization. mysqladmin
            # succeeds at any answer of the server, even a refusal of the user, so it needs no password.
            # (MariaDB logs each refusal, MySQL does not.) A plain connection would count as a failed client,
            # and MySQL blocks hosts with many failures. There is no liveness probe, because a restart would
            # interrupt a recovery.
            "readinessProbe": {
                "exec": {"command": ["mysqladmin", "ping", "--host=127.0.0.1"]},
                "periodSeconds": 5,
                "timeoutSeconds": 5,
            },
            # About the usage of an idle MySQL 8.4. Pods without requests are evicted first, and a limit would
            # kill a working database.
            "resources": {"requests": {"cpu": "50m", "memory": "512Mi"}},
            "volumeMounts": [_mount("/var/lib/mysql", "mysql")],
        }
        return self._deployment(site, DATABASE, container, user=MYSQL_ID)

    def frontend(self, site: Wordpress) -> Deployment:
        """Return the WordPress Deployment, which runs as Apache's user and may bind the HTTP port."""
        container: ContainerDict = {
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
            # first step would search for translations on the internet. The header tells a site that redirects
            # to HTTPS that the request came by HTTPS: the kubelet follows redirects to the same host only,
            # where there is no TLS. A redirect to another host, such as the site's own name, counts as
            # success. The installer loads no plugins and ignores maintenance mode, as seen with WordPress
            # 6.1: it answered 200 when the front page answered 500 and 503. There is no liveness probe: a
            # restart during the first start leaves half of WordPress on the volume, and the image does not
            # copy again (tested by killing it).
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
        ports: PodSecurityContextDict = {
            "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]
        }
        return self._deployment(site, FRONTEND, container, user=WWW_DATA_ID, security=ports)

    def database_service(self, site: Wordpress) -> Service:
        """Return MySQL's headless Service, whose name WordPress uses to connect."""
        spec: ServiceSpecDict = {"type": "ClusterIP", "clusterIP": "None", "ports": [_port("mysql", 3306)]}
        return self._service(site, DATABASE, spec)

    def frontend_service(self, site: Wordpress) -> Service:
        """Return the Service for the visitors of the site."""
        spec: ServiceSpecDict = {"type": site.spec.service_type, "ports": [_port("http", HTTP_PORT)]}
        return self._service(site, FRONTEND, spec)

    def _deployment(
        self,
        site: Wordpress,
        part: Part,
        container: ContainerDict,
        *,
        user: int,
        security: PodSecurityContextDict | None = None,
    ) -> Deployment:
        # The pod's status shows the last log lines of a crashed container, and the site's the last one.
        container["terminationMessagePolicy"] = "FallbackToLogsOnError"
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        pod: PodSpecDict = {
            "automountServiceAccountToken": False,
            # Otherwise Services with certain names would set variables that the images read as settings.
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": user,
                "runAsGroup": user,
                "fsGroup": user,
                # Scanning a large volume at each start would take minutes.
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
                **(security or {}),
            },
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": part.claim(site)}}],
        }
        metadata = part.metadata(site, part.workload(site), self.program)
        return Deployment(
            metadata=metadata,
            spec={
                "replicas": 1,
                # Only one node at a time can mount the volume.
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": part.selector(site)},
                "template": {"metadata": {"labels": metadata.labels}, "spec": pod},
            },
        )

    def _service(self, site: Wordpress, part: Part, spec: ServiceSpecDict) -> Service:
        metadata = part.metadata(site, part.workload(site), self.program)
        return Service(metadata=metadata, spec={**spec, "selector": part.selector(site)})


def host_of(site: Wordpress) -> str:
    """Return the name of the site's Service in the cluster."""
    return f"{FRONTEND.workload(site)}.{site.metadata.namespace}.svc"


def _port(name: str, number: int) -> ServicePortDict:
    return {"name": name, "port": number, "targetPort": name, "protocol": "TCP"}


def _mount(path: str, folder: str) -> VolumeMountDict:
    # A subdirectory, because the volume's root may have a lost+found, which MySQL would treat as a database.
    return {"name": "data", "mountPath": path, "subPath": folder}


def _from_secret(variable: str, site: Wordpress, key: str) -> EnvVarDict:
    secret = DATABASE.workload(site)
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
