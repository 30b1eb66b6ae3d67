"""Wordpress operator: a WordPress site with its own MySQL database, whose data is kept by default."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from apis.example.v1.wordpress import DATABASE_READY, Wordpress
from controllers.example.parts import DATABASE, FRONTEND, PARTS, Part, Trouble, blocked_if_refused
from controllers.example.passwords import Passwords
from controllers.example.volumes import Volumes
from controllers.example.workloads import HTTP_PORT, Workloads, host_of
from manager import (
    Blocked,
    Context,
    Enqueue,
    Informer,
    Meta,
    Operator,
    Result,
    Selection,
    Setting,
    Watch,
    WatchPods,
    rbac,
    webhook,
)
from manager.api import (
    AVAILABLE,
    DEGRADED,
    PROGRESSING,
    ConditionType,
    ObjectKey,
    find_condition,
    is_controlled_by,
    is_true,
)
from manager.cache import index_by
from manager.operator.proxy import PROXY_ENVIRONMENT
from manager.telemetry.logs import LONGEST, shortened
from manager.webhook import AdmissionRequest
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import PersistentVolumeClaim, Secret, Service
from manager_kinds.pod_health import PodHealth

W = TypeVar("W", Deployment, Service)

# The index of sites by the name of the Secret with their root password.
BY_SECRET = "root-password-secret"  # noqa: S105 - the name of an index

SITES_PODS = Selection.of(label_selector="app.kubernetes.io/part-of=wordpress,tier")

_IN_THE_OPEN = (
    "spec.sqlrootpassword: everyone with access to this object can read it, and it is immutable;"
    " better use a Secret and spec.sqlRootPasswordSecretRef"
)
_FIRST_VISITOR = (
    "spec.serviceType: with {type}, the first visitor can install WordPress and become its administrator;"
    " install at once, or create the site with ClusterIP, install by kubectl port-forward, and open it then"
)


_CUT = 32
"""The number of characters that suffice for the mark of a cut message and for the separator of messages."""

_MISSING = re.compile(r"… \((\d+) more characters\)")


@dataclass(slots=True)
class Sight:
    """The observed objects of a site; None for an object that is missing or has another owner."""

    database: Deployment | None = None
    frontend: Deployment | None = None
    pods: dict[str, Sequence[PodHealth]] = field(default_factory=dict)
    """The pods by the name of their Deployment."""
    service: Service | None = None
    blocked: Blocked | None = None
    troubles: list[Trouble] = field(default_factory=list)
    waits_for_database: bool = False
    """Whether the operator waits for the database before it creates WordPress."""

    @property
    def problems(self) -> list[Blocked | Trouble]:
        """Return the problems to report: the blocking one (unless it will end by itself), then all others."""
        first = [] if self.blocked is None or self.blocked.passing else [self.blocked]
        problems = map(self.problem_of, (self.database, self.frontend))
        return [*first, *self.troubles, *(each for each in problems if each is not None)]

    def problem_of(self, deployment: Deployment | None) -> Trouble | None:
        """Return the reason why the pods of a Deployment do not run, or None."""
        if deployment is None:
            return None
        name = deployment.metadata.name
        found = deployment.problem(1, self.pods.get(name, ()))
        if found is None:
            return None
        title = f"Deployment {name}: {found.reason}:"
        return Trouble(found.reason, f"{title} {found.message}", title=title)


def named_after(*suffixes: str) -> Enqueue:
    """Return a function that removes one of `suffixes` from an object's name, and yields that name's site.

    The owner of the object does not matter.
    """

    def sites_of(child: Meta, sites: Informer) -> Iterator[ObjectKey]:
        for suffix in suffixes:
            key = ObjectKey(child.namespace, child.name.removesuffix(suffix))
            if child.name.endswith(suffix) and sites.get(key) is not None:
                yield key

    return sites_of


def that_name(secret: Meta, sites: Informer) -> Iterable[ObjectKey]:
    """Return the sites that take their root password from the Secret."""
    return [site.key for site in sites.list(namespace=secret.namespace, index=(BY_SECRET, secret.name))]


class WordpressOperator(Operator[Wordpress]):
    """The operator that creates a site's children in order, and reports their state in the status."""

    owns = (Deployment, Service)
    # Objects are found by name, not by owner: retained objects have no owner, and a taken name may become
    # free.
    watches = (
        Watch(PersistentVolumeClaim, enqueue=named_after(*(part.claim_suffix for part in PARTS))),
        Watch(Secret, enqueue=named_after(DATABASE.workload_suffix), metadata_only=True),
        Watch(Secret, enqueue=that_name, metadata_only=True),
        WatchPods(
            label="app", selection=Selection.of(label_selector="app.kubernetes.io/part-of=wordpress,tier")
        ),
    )
    indexes: ClassVar = {BY_SECRET: index_by("spec.sqlRootPasswordSecretRef.name")}
    rights = (
        rbac(groups="", resources="persistentvolumeclaims", verbs="get;create;patch"),
        rbac(groups="", resources="secrets", verbs="get;create;patch"),
        # The operator deletes none of these, but it makes the site an owner of retained objects.
        rbac(groups="", resources="persistentvolumeclaims;secrets", verbs="delete", owner_references=True),
    )
    skips_own_writes = True
    outside = "controllers.example.simulation:WordpressOutside"
    database_retry = 5.0
    """Seconds until the next check of the database, in case no event arrives."""
    mysql_image = Setting(
        "mysql-image",
        default="mysql:8.4.10",
        placeholder="IMAGE",
        description="database image of a Wordpress whose spec names none",
    )
    wordpress_image = Setting(
        "wordpress-image",
        default="wordpress:6.8.3-apache",
        placeholder="IMAGE",
        description="site image of a Wordpress whose spec names none",
    )
    proxy = PROXY_ENVIRONMENT
    # The webhook only warns, so writes must succeed while no manager answers.
    admission = webhook.AdmissionOptions(failure_policy="Ignore", timeout_seconds=5)

    def setup(self) -> None:
        """Create the operator's state, which is empty at first."""
        self.volumes, self.passwords = Volumes(), Passwords()
        self.workloads = Workloads(
            program=self.manager.program.name,
            mysql_image=self.mysql_image,
            wordpress_image=self.wordpress_image,
            proxy=self.proxy,
        )

    async def reconcile(self, site: Wordpress, ctx: Context) -> Result | None:
        """Create and correct the children of one site, and set its status."""
        sight = Sight()
        try:
            await self.build(site, ctx, sight)
        except Blocked as blocked:
            sight.blocked = blocked
        # Observe the objects even if an earlier step is blocked.
        sight.database = await self.find(Deployment, DATABASE, site, ctx)
        sight.frontend = await self.find(Deployment, FRONTEND, site, ctx)
        sight.service = await self.find(Service, FRONTEND, site, ctx)
        for each in filter(None, (sight.database, sight.frontend)):
            sight.pods[each.metadata.name] = await ctx.pods(each)
        self.report(site, ctx, sight)
        return next_look(sight, self.database_retry)

    async def gone(self, key: ObjectKey) -> None:
        """Delete the state about a deleted site; its children are garbage-collected, retained data stays."""
        self.handed_over(key)

    def handed_over(self, key: ObjectKey) -> None:
        """Delete the stored check results and refusals of a site that this replica no longer reconciles."""
        self.passwords.forget(key)
        self.volumes.forget(key)

    async def build(self, site: Wordpress, ctx: Context, sight: Sight) -> None:
        """Perform every possible step; raise Blocked for a step that blocks the others.

        Volumes come first, because their data outlives everything else. WordPress comes last, and is created
        only when the database is ready. Afterwards WordPress stays, even if the database fails.
        """
        blocked: list[Blocked] = []
        for part in PARTS:
            try:
                sight.troubles += await self.volumes.ensure(site, part, ctx)
            except Blocked as each:
                blocked.append(each)
        try:
            # A site without its volumes gets no password, but problems with the password are reported.
            if blocked:
                await self.passwords.check(site, ctx)
            else:
                sight.troubles += await self.passwords.ensure(site, ctx)
                await self.start(site, ctx, sight)
        except Blocked as each:
            blocked.append(each)
        if blocked:
            first, *others = [*blocked, *await self.taken(site, ctx)]
            sight.troubles += [
                Trouble(each.reason, each.message, each.retry_after)
                for each in others
                if not each.passing and each.message != first.message
            ]
            raise first

    async def start(self, site: Wordpress, ctx: Context, sight: Sight) -> None:
        """Apply the Deployments and Services of a site whose volumes and password exist."""
        database = await self.apply(self.workloads.database(site), ctx)
        await self.apply(self.workloads.database_service(site), ctx)
        frontend = self.workloads.frontend(site)
        if database.ready_replicas or await ctx.find(Deployment, frontend.metadata.name) is not None:
            await self.apply(frontend, ctx)
            await self.apply(self.workloads.frontend_service(site), ctx)
        else:
            sight.waits_for_database = True

    async def taken(self, site: Wordpress, ctx: Context) -> list[Blocked]:
        """Return an error for each Deployment or Service name that another owner has taken."""
        found = []
        for part in PARTS:
            for kind in (Deployment, Service):
                try:
                    await ctx.refuse_taken(kind, part.workload(site))
                except Blocked as each:
                    found.append(each)
        return found

    async def apply(self, child: W, ctx: Context) -> W:
        """Apply a child; raises Blocked if its name is taken, or the API server refuses it."""
        with blocked_if_refused(f"{child.kind} {child.metadata.name}"):
            return await ctx.apply(child)

    async def find(self, kind: type[W], part: Part, site: Wordpress, ctx: Context) -> W | None:
        """Return the part's Deployment or Service if it belongs to the site, else None."""
        found = await ctx.find(kind, part.workload(site))
        return found if found is not None and is_controlled_by(found.metadata, site) else None

    def report(self, site: Wordpress, ctx: Context, sight: Sight) -> None:
        """Set the status from the observed objects, and record Events for new problems and conditions."""
        status, before = site.status, list(site.status.conditions)
        degraded = find_condition(before, DEGRADED)
        known = degraded.message if degraded is not None else ""
        for each in sight.problems:
            title = each.title if isinstance(each, Trouble) else ""
            if not is_quoted(title or each.message, known):
                ctx.event(each.reason, each.message, warning=True, once_written=True)
        for kind, holds, reason, message in conditions_of(sight):
            ctx.condition(kind, holds, reason, message)
            if kind in (DATABASE_READY, AVAILABLE) and holds and not is_true(before, kind):
                ctx.event(kind, message, once_written=True)
        status.url, status.node_port = url_of(site, sight.service), node_port_of(site, sight.service)

    @webhook.validate_create
    async def warn_of_what_is_open(self, site: Wordpress, _: AdmissionRequest) -> Iterable[str]:
        """Warn at creation about risks: a readable password, and a setup page that every visitor can open.

        The CustomResourceDefinition refuses invalid values; its rules need no webhook.
        """
        warnings = [_IN_THE_OPEN] if site.spec.sqlrootpassword else []
        if site.spec.service_type != "ClusterIP":
            warnings.append(_FIRST_VISITOR.format(type=site.spec.service_type))
        return warnings


def conditions_of(sight: Sight) -> Iterator[tuple[ConditionType, bool, str, str]]:
    """Yield the observed conditions: type, whether it is true, reason and message."""
    ready = sight.database is not None and sight.database.ready_replicas > 0
    of_database, of_frontend = map(sight.problem_of, (sight.database, sight.frontend))
    if ready:
        yield DATABASE_READY, True, "Ready", "MySQL is ready"
    elif of_database is not None:
        yield DATABASE_READY, False, of_database.reason, of_database.message
    elif sight.database is not None:
        yield DATABASE_READY, False, "NotReady", "MySQL has no ready replica"
    else:
        yield DATABASE_READY, False, "NotCreated", "MySQL is not there"

    if sight.frontend is None or sight.service is None:
        reason, message = "NotCreated", "WordPress is not there"
        if sight.blocked is not None:
            reason, message = sight.blocked.reason, sight.blocked.message
        yield AVAILABLE, False, reason, message
    elif not sight.frontend.is_available and of_frontend is not None:
        yield AVAILABLE, False, of_frontend.reason, of_frontend.message
    elif not sight.frontend.is_available:
        yield AVAILABLE, False, "NotReady", "WordPress has no ready replica"
    elif not ready:
        yield AVAILABLE, False, "DatabaseNotReady", "WordPress has no database"
    else:
        yield AVAILABLE, True, "Ready", "WordPress and MySQL are ready"

    yield PROGRESSING, *progress_of(sight)

    wrong = sight.problems
    reason = wrong[0].reason if wrong else "AsExpected"
    yield DEGRADED, bool(wrong), reason, joined([each.message for each in wrong])


def joined(messages: Sequence[str]) -> str:
    """Join messages for a condition. The longest are cut, so that the condition has a part of each."""
    limit = room = LONGEST - _CUT * len(messages)
    if sum(map(len, messages)) > room:
        for left, length in zip(range(len(messages), 0, -1), sorted(map(len, messages)), strict=True):
            limit = room // left
            room -= min(length, limit)
    return "; ".join(shortened(each, limit) for each in messages)


def is_quoted(message: str, text: str) -> bool:
    """Return whether `text`, a result of `joined`, contains the message, which may be cut there."""
    lengths = [len(message), *(len(message) - int(missing) for missing in _MISSING.findall(text))]
    return any(shortened(message, length) in text for length in lengths if length > 0)


def progress_of(sight: Sight) -> tuple[bool, str, str]:
    """Return whether the site is progressing, with reason and message."""
    if (blocked := sight.blocked) is not None:
        return blocked.awaited, blocked.reason, blocked.message
    workloads = {"MySQL": sight.database, "WordPress": sight.frontend}
    rolling = {name: each for name, each in workloads.items() if each is None or not each.is_rolled_out(1)}
    problem = next(filter(None, map(sight.problem_of, rolling.values())), None)
    if problem is not None:
        return True, problem.reason, problem.message
    if sight.waits_for_database:
        return True, "WaitingForDatabase", "WordPress is created once MySQL has a ready replica"
    if rolling:
        return True, "RollingOut", f"waiting for {' and '.join(rolling)}"
    return False, "RolledOut", "MySQL and WordPress are up to date"


def next_look(sight: Sight, database_retry: float) -> Result | None:
    """Return when to reconcile again without an event; None if only an event can change the result."""
    times = [trouble.retry_after for trouble in sight.troubles]
    if sight.blocked is not None:
        times.append(sight.blocked.retry_after)
    elif sight.waits_for_database:
        times.append(database_retry)
    soonest = min((each for each in times if each is not None), default=None)
    return None if soonest is None else Result(requeue_after=soonest)


def url_of(site: Wordpress, service: Service | None) -> str | None:
    """Return the site's URL, or None while it is unknown."""
    if service is None:
        return None
    if site.spec.service_type != "LoadBalancer":
        return f"http://{host_of(site)}"
    for ingress in service.status.get("loadBalancer", {}).get("ingress", ()):
        if host := ingress.get("hostname") or ingress.get("ip"):
            return f"http://[{host}]" if ":" in host else f"http://{host}"
    return None


def node_port_of(site: Wordpress, service: Service | None) -> int | None:
    """Return the site's port on every node; None unless the type is NodePort and the port is known."""
    if service is None or site.spec.service_type != "NodePort":
        return None
    ours = (each.get("nodePort") for each in service.spec.get("ports", ()) if each["port"] == HTTP_PORT)
    return next(ours, None) or None
