"""Database operator: it runs a database's servers, and upgrades them in eight steps, pod by pod."""

from __future__ import annotations

from typing import Any

from examples.database.kinds import Database, Job, StatefulSet
from manager import Context, Operator, Steps, Watch, rbac
from manager.api import AVAILABLE, PROGRESSING, ObjectMeta
from manager_kinds.core_v1 import ConfigMap, Pod

LABEL = "db.example.com/database"
REVISION = "controller-revision-hash"
"""The label by which a StatefulSet identifies the pods of one template."""


class DatabaseOperator(Operator[Database]):
    """The operator that runs a Database as a StatefulSet; an upgrade replaces the pods one by one."""

    owns = (StatefulSet, Job, ConfigMap)
    watches = (Watch(Pod, label=LABEL),)
    rights = (rbac(groups="", resources="pods", verbs="delete"),)
    upgrade = Steps(".status.upgrade", of=("spec.version",), limit=3600)

    async def reconcile(self, database: Database, ctx: Context) -> None:
        """Continue an upgrade; if no upgrade is running, apply the servers of the current version."""
        pods = await ctx.list(Pod, labels={LABEL: database.metadata.name})
        ready = sum(map(is_ready, pods))
        database.status.ready, wanted = ready, database.spec.replicas
        ctx.condition(AVAILABLE, ready >= wanted, "PodsReady", f"{ready} of {wanted} pods are ready")
        if await ctx.run_steps(self.upgrade):
            await ctx.apply(servers(database))
            await ctx.apply(settings(database, writable=True))
            waits = await self.replace_pods(database, ctx)
            ctx.condition(
                PROGRESSING, waits is not None, "AsWanted" if waits is None else "Pods", waits or ""
            )

    @upgrade.step(limit=300)
    async def check(self, database: Database, ctx: Context) -> str | None:
        """Check that a server of the new version starts."""
        return await job_done(database, ctx, "check")

    @upgrade.step(limit=1800)
    async def back_up(self, database: Database, ctx: Context) -> str | None:
        """Back up the data by a Job; return a message while it runs, and None when it is done."""
        return await job_done(database, ctx, "backup")

    @upgrade.step(limit=60)
    async def stop_writes(self, database: Database, ctx: Context) -> None:
        """Make the servers refuse writes."""
        await ctx.apply(settings(database, writable=False))

    @upgrade.step(limit=60)
    async def prepare(self, database: Database, ctx: Context) -> None:
        """Set the new version in the StatefulSet; pods get it when they are replaced."""
        await ctx.apply(servers(database))

    @upgrade.step(limit=1800)
    async def replace_pods(self, database: Database, ctx: Context) -> str | None:
        """Replace pods of the old version, unready ones first; return the progress, None when done."""
        servers = await ctx.find(StatefulSet, database.metadata.name)
        if servers is None or servers.status.get("observedGeneration") != servers.metadata.generation:
            return "waits for the StatefulSet"
        wanted, revision = database.spec.replicas, servers.status.get("updateRevision")
        # The cache may not have noticed a deleted pod yet.
        found = await ctx.client.uncached.list(
            Pod, namespace=database.metadata.namespace, labels={LABEL: database.metadata.name}
        )
        pods = sorted((each for each in found), key=lambda each: each.metadata.name)
        old = [each for each in pods if each.metadata.labels.get(REVISION) != revision]
        down = [each for each in pods if not is_ready(each)]
        broken = [each for each in old if each in down]
        if broken or (old and not down and len(pods) == wanted):
            await ctx.delete((broken or old)[-1])
        elif not old and not down and len(pods) == wanted:
            return None
        return f"{len(pods) - len(old)} of {wanted} pods are replaced, {len(pods) - len(down)} ready"

    @upgrade.step(limit=1800)
    async def migrate(self, database: Database, ctx: Context) -> str | None:
        """Convert the tables by a Job; return a message while it runs, and None when it is done."""
        return await job_done(database, ctx, "migrate")

    @upgrade.step(limit=60)
    async def allow_writes(self, database: Database, ctx: Context) -> None:
        """Make the servers accept writes again."""
        await ctx.apply(settings(database, writable=True))

    @upgrade.step(limit=60)
    async def finish(self, _: Database, ctx: Context) -> None:
        """Delete the Jobs of this upgrade, and the remaining Jobs of earlier, failed upgrades."""
        for job in await ctx.children(Job):
            await ctx.delete(job)


async def job_done(database: Database, ctx: Context, work: str) -> str | None:
    """Run a Job once per upgrade; return a message while it runs, and None when it has succeeded."""
    # Another upgrade has another generation, so it does not reuse this Job.
    name = f"{database.metadata.name}-{work}-{database.status.upgrade.generation}"
    container = {"name": work, "image": f"database:{database.spec.version}", "args": [work]}
    job = await ctx.find(Job, name) or await ctx.apply(
        Job(
            metadata=named(database, name),
            spec={"template": {"spec": {"restartPolicy": "OnFailure", "containers": [container]}}},
        )
    )
    return None if job.status.get("succeeded") else f"waits for Job {name}"


def servers(database: Database) -> StatefulSet:
    """Return the desired StatefulSet, which does not replace pods by itself."""
    labels = {LABEL: database.metadata.name}
    container: dict[str, Any] = {
        "name": "server",
        "image": f"database:{database.spec.version}",
        "envFrom": [{"configMapRef": {"name": database.metadata.name, "optional": True}}],
    }
    return StatefulSet(
        metadata=named(database, database.metadata.name),
        spec={
            "replicas": database.spec.replicas,
            "serviceName": database.metadata.name,
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "OnDelete"},
            "podManagementPolicy": "Parallel",
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    )


def settings(database: Database, *, writable: bool) -> ConfigMap:
    """Return the ConfigMap that the servers read; `writable` says whether they accept writes."""
    return ConfigMap(
        metadata=named(database, database.metadata.name), data={"WRITABLE": str(writable).lower()}
    )


def named(database: Database, name: str) -> ObjectMeta:
    """Return the metadata of a database's child with this name."""
    return ObjectMeta(name=name, namespace=database.metadata.namespace)


def is_ready(pod: Pod) -> bool:
    """Return whether a pod is ready and is not being deleted."""
    conditions = pod.status.get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and pod.metadata.deletion_timestamp is None
