"""Builds a site step by step, and reports what is seen of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from apis.example.v1.wordpress import Wordpress
from controllers.adoption import NotWanted
from controllers.announcing import announce
from controllers.applying import apply_child
from controllers.conditions import is_news
from controllers.example.wordpress.names import DATABASE, FRONTEND, Part
from controllers.example.wordpress.obstacles import Obstacle, refused
from controllers.example.wordpress.ownership import (
    goes_with,
    is_of_site_that_goes,
    taken,
    waits_for_collection,
)
from controllers.example.wordpress.passwords import Passwords
from controllers.example.wordpress.status import (
    Sight,
    conditions_of,
    is_database_ready,
    node_port_of,
    url_of,
)
from controllers.example.wordpress.volumes import Volumes
from controllers.example.wordpress.workloads import Workloads
from controllers.taken_names import is_left_over
from manager import clock
from manager.api import Condition, ObjectKey, Resource, is_controlled_by, is_true, set_condition
from manager.api.apps_v1 import Deployment
from manager.api.core_v1 import Service
from manager.client import Client, OwnedByOther
from manager.controller import Request, Result
from manager.events import EventRecorder
from manager.kube.errors import Forbidden, Invalid
from manager.rbac import rbac

__all__ = ["WordpressReconciler"]

R = TypeVar("R", bound=Resource)
W = TypeVar("W", Deployment, Service)

# How long to wait, in seconds, before looking at the database again, should no event have told of it.
DATABASE_RETRY = 5.0


@rbac(groups="example.com", resources="wordpresses", verbs="get;list;watch")
@rbac(groups="example.com", resources="wordpresses/status", verbs="patch")
@rbac(groups="example.com", resources="wordpresses/finalizers", verbs="update")
@rbac(groups="apps", resources="deployments", verbs="get;list;watch;create;patch")
@rbac(groups="", resources="services", verbs="get;list;watch;create;patch")
@rbac(groups="", resources="persistentvolumeclaims", verbs="list;watch;create;patch")
@rbac(groups="", resources="secrets", verbs="get;list;watch;create;patch")
# Nothing is ever deleted here; but an owner is given to what has none.
@rbac(groups="apps", resources="deployments", verbs="delete", owner_references=True)
@rbac(groups="", resources="services;persistentvolumeclaims;secrets", verbs="delete", owner_references=True)
@rbac(groups="", resources="events", verbs="create;patch")
class WordpressReconciler:
    """Brings a site's children to the wanted state, in order, and its status to what is seen."""

    def __init__(self, client: Client, events: EventRecorder, *, workloads: Workloads) -> None:
        self.client = client
        self.events = events
        self.workloads = workloads
        self.volumes = Volumes(client, events)
        self.passwords = Passwords(client, events)

    async def reconcile(self, request: Request) -> Result | None:
        """Bring one site up to date."""
        site = await self.client.find(Wordpress, request)
        if site is None or site.metadata.deletion_timestamp is not None:
            self.forget(request)
            return None  # what it owns is garbage-collected; what it retains stays
        sight = Sight()
        try:
            await self.build(site, sight)
        except Obstacle as obstacle:
            sight.obstacle = obstacle
        except NotWanted:
            return None  # the cache is about to hear of it
        await self.look(site, sight)
        conditions = list(conditions_of(site, sight))
        self.tell(site, sight, conditions)
        await self.write(site, sight, conditions)
        return next_look(sight)

    async def build(self, site: Wordpress, sight: Sight) -> None:
        """Take every step that can be taken; raises Obstacle at the first that cannot.

        The volumes come first, because what is in them outlives everything else; WordPress comes last, and
        its first start waits for the database. Once it is there it stays, whatever becomes of the database.
        """
        for part in (DATABASE, FRONTEND):
            sight.troubles += await self.volumes.ensure(site, part)
        sight.troubles += await self.passwords.ensure(site)
        database = await self.apply(site, self.workloads.database(site))
        await self.apply(site, self.workloads.database_service(site))
        frontend = self.workloads.frontend(site)
        if not is_database_ready(database) and await self.client.find(Deployment, frontend.key) is None:
            sight.waits_for_database = True
            return
        await self.apply(site, frontend)
        await self.apply(site, self.workloads.frontend_service(site))

    async def apply(self, site: Wordpress, child: W) -> W:
        """Bring a child to the wanted state; raises Obstacle when its name is taken, or it is refused."""
        try:
            applied = await apply_child(self.client, child, owner=site)
        except (Forbidden, Invalid) as error:
            raise refused(f"{child.kind} {child.metadata.name}", error) from error
        except OwnedByOther as error:
            if is_left_over(error.controller, site):
                raise waits_for_collection(f"{error.kind} {error.key.name}", site) from error
            if await is_of_site_that_goes(self.client, error.controller, site):
                raise goes_with(str(error)) from error
            raise taken(str(error)) from error
        announce(self.events, site, applied, observed_generation=site.status.observed_generation)
        return applied.object

    async def look(self, site: Wordpress, sight: Sight) -> None:
        """See what there is of the site by now, also behind an obstacle."""
        sight.database = await self.find(site, Deployment, DATABASE)
        sight.frontend = await self.find(site, Deployment, FRONTEND)
        sight.service = await self.find(site, Service, FRONTEND)

    async def find(self, site: Wordpress, kind: type[R], part: Part) -> R | None:
        """The part's Deployment or Service, if it is the site's."""
        found = await self.client.find(kind, ObjectKey(site.metadata.namespace, part.workload(site)))
        return found if found is not None and is_controlled_by(found.metadata, site) else None

    def tell(self, site: Wordpress, sight: Sight, conditions: Iterable[Condition]) -> None:
        """Record Events about what is new since the last status."""
        troubles = list(sight.troubles)
        if sight.obstacle is not None and not sight.obstacle.passing:
            troubles.insert(0, sight.obstacle.trouble)
        before = site.status.conditions
        for trouble in troubles:
            if is_news(before, "Degraded", trouble.message):
                self.events.event(site, "Warning", trouble.reason, trouble.message)
        now = {each.type: each for each in conditions}
        for kind in ("DatabaseReady", "Available"):
            if now[kind].status == "True" and not is_true(before, kind):
                self.events.event(site, "Normal", kind, now[kind].message)

    async def write(self, site: Wordpress, sight: Sight, conditions: Iterable[Condition]) -> None:
        """Write the status, if it differs."""
        status = site.status
        for each in conditions:
            set_condition(status.conditions, each, now=clock.now())
        status.url = url_of(site, sight.service)
        status.node_port = node_port_of(site, sight.service)
        status.observed_generation = site.metadata.generation
        await self.client.status.report(site)

    def forget(self, site: Request) -> None:
        """Drop what is remembered of a site that is gone."""
        self.passwords.forget(site)
        for part in (DATABASE, FRONTEND):
            self.volumes.forget(site, part)


def next_look(sight: Sight) -> Result | None:
    """When to look again without an event; None when only an event can change anything."""
    times = [trouble.retry_after for trouble in sight.troubles]
    if sight.obstacle is not None:
        times.append(sight.obstacle.trouble.retry_after)
    elif sight.waits_for_database:
        times.append(DATABASE_RETRY)
    soonest = min((each for each in times if each is not None), default=None)
    return None if soonest is None else Result(requeue_after=soonest)
