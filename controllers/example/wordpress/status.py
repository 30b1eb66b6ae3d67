"""What is seen of a site, and what its status says of that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from apis.example.v1.wordpress import Wordpress
from controllers.conditions import condition
from controllers.example.wordpress.obstacles import Obstacle, Trouble
from controllers.example.wordpress.workloads import HTTP_PORT
from controllers.rollouts import failure_of, is_available, is_rolled_out
from manager.api import Condition, ConditionStatus
from manager.api.apps_v1 import Deployment
from manager.api.core_v1 import Service

__all__ = ["Sight", "conditions_of", "is_database_ready", "node_port_of", "url_of"]


@dataclass(slots=True)
class Sight:
    """What is there of a site; None for what is not, or is somebody else's."""

    database: Deployment | None = None
    frontend: Deployment | None = None
    service: Service | None = None
    troubles: list[Trouble] = field(default_factory=list)
    obstacle: Obstacle | None = None
    waits_for_database: bool = False
    """Whether WordPress itself is not created yet because its database is not ready."""


def is_database_ready(database: Deployment | None) -> bool:
    """Whether MySQL has a ready replica."""
    return database is not None and database.status.ready_replicas > 0


def conditions_of(site: Wordpress, sight: Sight) -> Iterator[Condition]:
    """The conditions that follow from what is seen."""
    ready = is_database_ready(sight.database)
    if ready:
        yield condition(site, "DatabaseReady", "True", "Ready", "MySQL is ready")
    elif sight.database is not None:
        yield condition(site, "DatabaseReady", "False", "NotReady", "MySQL has no ready replica")
    else:
        yield condition(site, "DatabaseReady", "False", "NotCreated", "MySQL is not there")

    if sight.frontend is None or sight.service is None:
        yield condition(site, "Available", "False", "NotCreated", "WordPress is not there")
    elif not is_available(sight.frontend):
        yield condition(site, "Available", "False", "NotReady", "WordPress has no ready replica")
    elif not ready:
        yield condition(site, "Available", "False", "DatabaseNotReady", "WordPress has no database")
    else:
        yield condition(site, "Available", "True", "Ready", "WordPress and MySQL are ready")

    yield _progressing(site, sight)
    yield _degraded(site, sight)


def _progressing(site: Wordpress, sight: Sight) -> Condition:
    if sight.obstacle is not None:
        trouble = sight.obstacle.trouble
        status: ConditionStatus = "True" if sight.obstacle.awaited else "False"
        return condition(site, "Progressing", status, trouble.reason, trouble.message)
    if sight.waits_for_database:
        message = "WordPress is created once MySQL has a ready replica"
        return condition(site, "Progressing", "True", "WaitingForDatabase", message)
    workloads = {"MySQL": sight.database, "WordPress": sight.frontend}
    rolling = [
        name
        for name, deployment in workloads.items()
        if deployment is None or not is_rolled_out(deployment, 1)
    ]
    if rolling:
        return condition(site, "Progressing", "True", "RollingOut", f"waiting for {' and '.join(rolling)}")
    return condition(site, "Progressing", "False", "RolledOut", "MySQL and WordPress are up to date")


def _degraded(site: Wordpress, sight: Sight) -> Condition:
    found: list[Trouble] = []
    if sight.obstacle is not None and not sight.obstacle.passing:
        found.append(sight.obstacle.trouble)
    found += sight.troubles
    for deployment in (sight.database, sight.frontend):
        failure = failure_of(deployment) if deployment is not None else None
        if deployment is not None and failure is not None:
            message = f"Deployment {deployment.metadata.name}: {failure.message}"
            found.append(Trouble(failure.reason, message))
    if not found:
        return condition(site, "Degraded", "False", "AsExpected", "")
    return condition(
        site, "Degraded", "True", found[0].reason, "; ".join(trouble.message for trouble in found)
    )


def url_of(site: Wordpress, service: Service | None) -> str | None:
    """Where the site is; None while that is not known."""
    if service is None:
        return None
    if site.spec.service_type != "LoadBalancer":
        return f"http://{service.metadata.name}.{service.metadata.namespace}.svc"
    for ingress in service.status.load_balancer.ingress:
        if host := ingress.hostname or ingress.ip:
            return f"http://[{host}]" if ":" in host else f"http://{host}"
    return None


def node_port_of(site: Wordpress, service: Service | None) -> int | None:
    """The port of every node at which the site is; None for other types of Service."""
    if service is None or site.spec.service_type != "NodePort":
        return None
    ours = (each.get("nodePort") for each in service.spec.get("ports", ()) if each["port"] == HTTP_PORT)
    return next(ours, None) or None
