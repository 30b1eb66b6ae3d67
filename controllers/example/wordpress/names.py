"""What a site's children are called, and the labels by which they are known."""

from __future__ import annotations

from dataclasses import dataclass

from apis.example.v1.wordpress import Wordpress
from manager.api import ObjectKey, ObjectMeta

__all__ = [
    "CLAIM_SUFFIXES",
    "DATABASE",
    "FRONTEND",
    "INSTANCE_LABEL",
    "MANAGED_BY",
    "MANAGED_BY_LABEL",
    "SECRET_SUFFIX",
    "WORKLOAD_SUFFIXES",
    "Part",
    "child_metadata",
    "identity",
    "labels_of",
    "secret_key",
    "selector_of",
]

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
INSTANCE_LABEL = "app.kubernetes.io/instance"
MANAGED_BY = "operator-manager"


@dataclass(frozen=True, slots=True)
class Part:
    """The database or the frontend of a site: each a Deployment, a Service and a volume."""

    workload_suffix: str
    """What the names of its Deployment and Service add to the site's name."""
    claim_suffix: str
    tier: str
    application: str

    def workload(self, site: Wordpress) -> str:
        """Name of the Deployment and of the Service."""
        return site.metadata.name + self.workload_suffix

    def claim(self, site: Wordpress) -> str:
        """Name of the PersistentVolumeClaim."""
        return site.metadata.name + self.claim_suffix


DATABASE = Part("-mysql", "-mysql-pv-claim", "mysql", "mysql")
FRONTEND = Part("", "-wp-pv-claim", "frontend", "wordpress")

WORKLOAD_SUFFIXES = (DATABASE.workload_suffix, FRONTEND.workload_suffix)
CLAIM_SUFFIXES = (DATABASE.claim_suffix, FRONTEND.claim_suffix)
SECRET_SUFFIX = "-mysql"  # noqa: S105 - part of a name


def secret_key(site: Wordpress) -> ObjectKey:
    """Which Secret holds the site's passwords."""
    return ObjectKey(site.metadata.namespace, site.metadata.name + SECRET_SUFFIX)


def identity(site: Wordpress) -> dict[str, str]:
    """The labels that tell a site's volumes and passwords from anybody else's.

    With reclaimPolicy Retain these have no owner, so nothing else does.
    """
    return {MANAGED_BY_LABEL: MANAGED_BY, INSTANCE_LABEL: site.metadata.name}


def selector_of(site: Wordpress, part: Part) -> dict[str, str]:
    """The labels that select the part's pods. They can never change: a Deployment's selector cannot."""
    return {"app": site.metadata.name, "tier": part.tier}


def labels_of(site: Wordpress, part: Part) -> dict[str, str]:
    """All labels of what belongs to the part."""
    return {
        **selector_of(site, part),
        **identity(site),
        "app.kubernetes.io/name": part.application,
        "app.kubernetes.io/component": part.tier,
        "app.kubernetes.io/part-of": "wordpress",
    }


def child_metadata(site: Wordpress, part: Part, name: str) -> ObjectMeta:
    """The metadata of a child."""
    return ObjectMeta(name=name, namespace=site.metadata.namespace, labels=labels_of(site, part))
