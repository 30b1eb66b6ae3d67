"""Wordpress: a WordPress site with a MySQL database of its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from manager.api import ApiModel, Column, Int32, Resource, Status, cel, crd, together

__all__ = [
    "PASSWORD_LENGTH",
    "PASSWORD_PATTERN",
    "ReclaimPolicy",
    "SecretKeyReference",
    "ServiceType",
    "Wordpress",
    "WordpressSpec",
    "WordpressStatus",
]

ServiceType = Literal["NodePort", "LoadBalancer", "ClusterIP"]
ReclaimPolicy = Literal["Retain", "Delete"]

PASSWORD_LENGTH = 128
"""How long a root password may be, in characters."""
PASSWORD_PATTERN = r"^[ !#-&(-\[\]-~]*$"  # noqa: S105 - what passwords are made of
"""What a root password is made of: printable ASCII but for quotes and backslashes.

The start script of the MySQL image writes the password into SQL and into an option file as it is."""

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
    """One key of a Secret in the same namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253), _OBJECT_NAME]
    """Name of the Secret."""
    key: Annotated[
        str,
        Field(min_length=1, max_length=253),
        cel("self.matches('^[-._a-zA-Z0-9]*$')", "must be made of letters, digits, '-', '.' and '_'"),
    ]
    """Which of the Secret's keys holds the value."""


class WordpressSpec(ApiModel):
    """The site that is wanted."""

    # The rule for the password is the spec's, because the error about a field's own rule, or pattern, quotes
    # its value.
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

    # Not shown wherever an object is printed.
    sqlrootpassword: Annotated[
        str | None,
        Field(max_length=PASSWORD_LENGTH, repr=False),
    ] = None
    """The password of the database's root user, for everyone to read who may read this object: better
    keep it in a Secret, and name that in sqlRootPasswordSecretRef. It cannot be changed later."""
    sql_root_password_secret_ref: SecretKeyReference | None = None
    """Where the password of the database's root user is. It cannot be changed later."""
    mysql_image: ImageName | None = None
    """Container image of the database, MySQL 8. By default the one that the manager was started with."""
    image: ImageName | None = None
    """Container image of the site, a WordPress with Apache. By default the one that the manager was
    started with."""
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
    """How much room the site and its database have, each. It can grow, where the storage class allows
    it, but not shrink."""
    storage_class_name: Annotated[str, Field(max_length=253), _OBJECT_NAME] | None = None
    """Storage class of the volumes. By default that of the cluster. It cannot be changed later."""
    service_type: ServiceType = "NodePort"
    """How the site is reached: on a port of every node, by a load balancer, or from within the cluster
    only."""
    reclaim_policy: ReclaimPolicy = "Retain"
    """What becomes of the volumes and the passwords when this object is deleted. Retain keeps them, and a
    Wordpress of the same name takes them up again; Delete deletes them."""


class WordpressStatus(
    Status,
    about="the site",
    conditions={
        "DatabaseReady": "its database takes connections",
        "Available": "the site and its database are up",
        "Progressing": "something is being made, replaced or waited for",
        "Degraded": "something keeps the site from becoming what is wanted",
    },
):
    """The site as it was last seen."""

    url: str | None = None
    """Where the site is: at the load balancer once there is one, else within the cluster."""
    node_port: Int32 | None = None
    """The port of every node at which the site is, with serviceType NodePort."""


@crd(
    columns=(
        Column("Ready", "string", ".status.conditions[?(@.type=='Available')].status", "Whether it is up"),
        Column("URL", "string", ".status.url", "Where the site is"),
        Column.reason_of("Available"),
        Column("Port", "integer", ".status.nodePort", "The port of every node at which it is", priority=1),
    ),
    short_names=("wp",),
)
class Wordpress(Resource, group="example.com", version="v1", plural="wordpresses"):
    """A WordPress site, with a MySQL database of its own."""

    # Its Services are named after it, and its Deployments' pods carry its name as a label.
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
    """The site that is wanted."""
    status: WordpressStatus = Field(default_factory=WordpressStatus)
    """The site as it was last seen. Written by the controller."""
