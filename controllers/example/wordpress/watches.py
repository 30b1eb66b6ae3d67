"""What makes a site be looked at: itself, whatever has the name of one of its children, and its Secret."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import msgspec

from apis.example.v1.wordpress import Wordpress
from controllers.example.settings import MYSQL_IMAGE, WORDPRESS_IMAGE
from controllers.example.wordpress.names import CLAIM_SUFFIXES, SECRET_SUFFIX, WORKLOAD_SUFFIXES
from controllers.example.wordpress.reconciler import WordpressReconciler
from controllers.example.wordpress.workloads import Workloads
from controllers.proxy import proxy_environment
from controllers.settings import PROXY_CREDENTIALS
from manager.api.apps_v1 import Deployment
from manager.api.core_v1 import PersistentVolumeClaim, Secret, Service
from manager.cache import Informer, Meta, Record
from manager.controller import ControllerBuilder, ControllerOptions, Request
from manager.controller.handler import MapTo
from manager.manager import Manager

__all__ = ["KINDS", "RECONCILERS", "setup"]

# The index of sites by the name of the Secret that is to hold their root password.
BY_SECRET = "root-password-secret"  # noqa: S105 - a name


class _Reference(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    sql_root_password_secret_ref: _Reference | None = None


class _Site(msgspec.Struct):
    spec: _Spec


_decode = msgspec.json.Decoder(_Site).decode


def secret_of(record: Record, _meta: Meta) -> Iterator[str]:
    """The name of the Secret that a site waits for."""
    reference = _decode(record.raw).spec.sql_root_password_secret_ref
    if reference is not None and reference.name:
        yield reference.name


def named_after(sites: Informer, suffixes: Iterable[str]) -> MapTo:
    """From an object to the sites that have a child of its name, whoever made it.

    By name and not by owner, because a name that is taken may become free, and what a site retains has no
    owner.
    """
    endings = tuple(suffixes)

    def sites_of(child: Meta) -> Iterator[Request]:
        for ending in endings:
            if child.name.endswith(ending):
                key = Request(child.namespace, child.name.removesuffix(ending))
                if sites.get(key) is not None:
                    yield key

    return sites_of


def of_secret(sites: Informer) -> MapTo:
    """From a Secret to the sites whose passwords it has or is to have."""
    of_name = named_after(sites, [SECRET_SUFFIX])

    def sites_of(secret: Meta) -> Iterator[Request]:
        yield from of_name(secret)
        for record in sites.list(namespace=secret.namespace, index=(BY_SECRET, secret.name)):
            yield record.key

    return sites_of


def setup(manager: Manager, options: ControllerOptions) -> None:
    """Wire the controller up."""
    sites = manager.cache.informer(Wordpress)
    sites.add_index(BY_SECRET, secret_of)
    client = manager.client.named("wordpress")
    workloads = Workloads(
        mysql_image=manager.settings[MYSQL_IMAGE],
        wordpress_image=manager.settings[WORDPRESS_IMAGE],
        proxy=proxy_environment(os.environ, credentials=manager.settings[PROXY_CREDENTIALS]),
    )
    (
        ControllerBuilder(manager, Wordpress)
        .watches(Deployment, map_to=named_after(sites, WORKLOAD_SUFFIXES))
        .watches(Service, map_to=named_after(sites, WORKLOAD_SUFFIXES))
        .watches(PersistentVolumeClaim, map_to=named_after(sites, CLAIM_SUFFIXES))
        .watches(Secret, map_to=of_secret(sites), metadata_only=True)
        .skips_own_writes()
        .options(options)
        .complete(WordpressReconciler(client, manager.events, workloads=workloads))
    )


KINDS = (Wordpress,)
RECONCILERS = (WordpressReconciler,)
