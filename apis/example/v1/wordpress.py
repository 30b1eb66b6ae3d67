"""Wordpress: a WordPress site with its own MySQL database."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from manager.api import (
    AVAILABLE,
    DEGRADED,
    PROGRESSING,
    ApiModel,
    Column,
    ConditionType,
    Int32,
    Resource,
    Status,
    cel,
    crd,
    together,
)

__all__ = [
    "DATABASE_READY",
    "PASSWORD_LENGTH",
    "PASSWORD_PATTERN",
    "ReclaimPolicy",
    "SecretKeyReference",
    "ServiceType",
    "Wordpress",
    "WordpressSpec",
    "WordpressStatus",
]

DATABASE_READY = ConditionType("DatabaseReady")

ServiceType = Literal["NodePort", "LoadBalancer", "ClusterIP"]
ReclaimPolicy = Literal["Retain", "Delete"]

PASSWORD_LENGTH = 128
"""The maximum length of a root password, in characters."""
PASSWORD_PATTERN = r"^[ !#-&(-\[\]-~]*$"  # noqa: S105 - what passwords are made of
"""The valid characters of a root password: printable ASCII except quotes and backslashes.

The start script of the MySQL image copies the password unescaped into SQL and into an option file."""

_PASSWORD_MEANS = "printable ASCII characters other than quotes and backslashes"  # noqa: S105
_PASSWORD = "(has({0}.sqlrootpassword) ? {0}.sqlrootpassword : '')"  # noqa: S105 - a CEL expression


_OBJECT_NAME = cel(
    "self.matches('^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$')",
    "must be made of lower case letters, digits, '-' and '.', and begin and end with a letter or digit",
)

ImageName = Annotated[
    str, Field(max_length=1024), cel("self.matches('^[!-~]*$')", "must be ASCII without spaces")
]


class SecretKeyReference(ApiModel):
    """A key of a Secret in the same namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253), _OBJECT_NAME]
    """Name of the Secret."""
    key: Annotated[
        str,
        Field(min_length=1, max_length=253),
        cel("self.matches('^[-._a-zA-Z0-9]*$')", "must be made of letters, digits, '-', '.' and '_'"),
    ]
    """The Secret's key with the value."""


class WordpressSpec(ApiModel):
    """The desired site."""

    # The password's rule is on the spec, because errors about a field's own rule or pattern quote its value.
    model_config = ConfigDict(
        json_schema_extra=together(
            cel(
                f"({_PASSWORD.format('self')} != '') != has(self.sqlRootPasswordSecretRef)",
                "exactly one of sqlrootpassword and sqlRootPasswordSecretRef must be given",
            ),
            cel(
                f"{_PASSWORD.format('self')}.matches(r'{PASSWORD_PATTERN}')",
                f"must be made of {_PASSWORD_MEANS}",
                field_path=".sqlrootpassword",
            ),
            cel(
                f"{_PASSWORD.format('self')} == {_PASSWORD.format('oldSelf')}"
                " && has(self.sqlRootPasswordSecretRef) == has(oldSelf.sqlRootPasswordSecretRef)"
                " && (!has(self.sqlRootPasswordSecretRef)"
                " || self.sqlRootPasswordSecretRef == oldSelf.sqlRootPasswordSecretRef)",
                "the root password cannot be changed: neither sqlrootpassword nor sqlRootPasswordSecretRef",
            ),
            cel(
                "has(self.storageClassName) == has(oldSelf.storageClassName)"
                " && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
                "storageClassName cannot be changed",
            ),
        )
    )

    # repr=False keeps the password out of printed objects.
    sqlrootpassword: Annotated[
        str | None,
        Field(max_length=PASSWORD_LENGTH, repr=False),
    ] = None
    """The password of the database's root user, readable for everyone with access to this object. Better use
    a Secret and sqlRootPasswordSecretRef. Immutable."""
    sql_root_password_secret_ref: SecretKeyReference | None = None
    """The Secret with the password of the database's root user. Immutable."""
    mysql_image: ImageName | None = None
    """Container image of the database, MySQL 8. By default the image of the manager's flag --mysql-image."""
    image: ImageName | None = None
    """Container image of the site, a WordPress with Apache. By default the image of the manager's flag
    --wordpress-image."""
    storage_size: Annotated[
        str,
        Field(max_length=32),
        cel("isQuantity(self)", "must be a quantity, such as 10Gi"),
        cel(
            "!isQuantity(self) || (quantity(self).compareTo(quantity('1Mi')) >= 0"
            " && quantity(self).compareTo(quantity('1Ei')) <= 0)",
            "must be from 1Mi to 1Ei",
        ),
        cel(
            "!isQuantity(self) || !isQuantity(oldSelf) || quantity(self).compareTo(quantity(oldSelf)) >= 0",
            "can grow, but not shrink",
        ),
    ] = "10Gi"
    """Size of each of the two volumes, for the site and for its database. It can grow if the storage class
    allows that, but not shrink."""
    storage_class_name: Annotated[str, Field(max_length=253), _OBJECT_NAME] | None = None
    """Storage class of the volumes. By default the cluster's default class. Immutable."""
    service_type: ServiceType = "NodePort"
    """How the site is exposed: on a port of every node, by a load balancer, or within the cluster only."""
    reclaim_policy: ReclaimPolicy = "Retain"
    """The fate of the volumes and passwords when this object is deleted. Retain keeps them, and a new
    Wordpress of the same name uses them again; Delete deletes them."""


class WordpressStatus(
    Status,
    about="the site",
    conditions={
        DATABASE_READY: "its database takes connections",
        AVAILABLE: "the site and its database are up",
        PROGRESSING: "objects are being created or replaced, or waited for",
        DEGRADED: "a problem keeps the site from the desired state",
    },
):
    """The site as last observed."""

    url: str | None = None
    """The URL of the site: within the cluster or, with serviceType LoadBalancer, at the load balancer."""
    node_port: Int32 | None = None
    """The site's port on every node, with serviceType NodePort."""


@crd(
    columns=(
        Column(
            "Ready",
            "string",
            ".status.conditions[?(@.type=='Available')].status",
            "Whether the site is available",
        ),
        Column("URL", "string", ".status.url", "URL of the site"),
        Column.reason_of(AVAILABLE),
        Column("Port", "integer", ".status.nodePort", "Port on every node", priority=1),
    ),
    short_names=("wp",),
)
class Wordpress(Resource, group="example.com", version="v1", plural="wordpresses"):
    """A WordPress site with its own MySQL database."""

    # The names of the Services begin with the object's name, and the pods have the name as a label.
    model_config = ConfigDict(
        json_schema_extra=together(
            cel(
                "size(self.metadata.name) <= 50",
                "must be at most 50 characters",
                field_path=".metadata.name",
            ),
            cel(
                "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                "must be made of lower case letters, digits and '-', begin with a letter,"
                " and not end with '-'",
                field_path=".metadata.name",
            ),
        )
    )

    spec: WordpressSpec
    """The desired site."""
    status: WordpressStatus = Field(default_factory=WordpressStatus)
    """The site as last observed. Written by the controller."""
